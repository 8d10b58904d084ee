"""ArgMax and ArgMin: where the extremum along an axis is."""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Lowering, Node, operator
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value

# operator: kind, versions
ROWS: dict[str, tuple[str, Sequence[int]]] = {
    "ArgMax": ("max", (1, 11, 12, 13)),
    "ArgMin": ("min", (1, 11, 12, 13)),
}


def _lowering(kind: str) -> Lowering:
    def lower(node: Node, ir: Builder) -> Value:
        """data: T[d0 ... dr-1]  ->  i64[...] without `axis`, or with it of size 1; the first of equals, or the last.

        Source: https://onnx.ai/onnx/operators/onnx__ArgMax.html
        """
        x = node.input("data")
        axis = node.axis("axis", rank=x.rank)
        index = ir.arg_reduce(x, kind, axis, last=node.flag("select_last_index", False))
        return ir.unsqueeze(index, [axis]) if node.flag("keepdims") else index

    return lower


for _name, (_kind, _since) in ROWS.items():
    operator(_name, since=_since)(_lowering(_kind))
