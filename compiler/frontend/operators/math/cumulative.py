"""CumSum and CumProd: running sums and products."""

from onnxc.compiler.frontend.operator import Lowering, Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import as_scalar, known_integers
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value

# operator: kind of the scan, versions
ROWS = {"CumSum": ("sum", (11, 14)), "CumProd": ("prod", (26,))}


def _lowering(kind: str) -> Lowering:
    def lower(node: Node, ir: Builder) -> Value:
        """x: T[...], axis: I[]  ->  T[...], each element folded with those before it

        With `reverse` with those after it; `exclusive` leaves the element itself out.
        Source: https://onnx.ai/onnx/operators/onnx__CumSum.html
        """
        x, axis = node.input("x"), as_scalar(node.input("axis"), "axis", node, ir)
        exclusive, reverse = node.flag("exclusive"), node.flag("reverse")
        scans = [
            ir.scan_axis(x, kind, at, exclusive=exclusive, reverse=reverse) for at in _axes(x.rank, axis, node, ir)
        ]
        chosen = ir.wrap_negative(axis, x.rank)
        result = scans[0]
        for at, scan in enumerate(scans[1:], 1):
            result = ir.select(ir.equal(chosen, at), scan, result)
        return result

    return lower


def _axes(rank: int, axis: Value, node: Node, ir: Builder) -> tuple[int, ...]:
    """The axes that `axis` may be: one where it is known, else all."""
    known = known_integers(axis, ir)
    if rank == 0:
        node.fail("cumulative-rank", "x has rank 0 and no axis to run along", rule=f"ONNX {node.operator}, x")
    if known is not None:
        return node.axes_list(known, rank, "axis")
    (at,) = ir.read_sizes(axis, "axis")
    message = f"axis is outside [{-rank}, {rank - 1}]"
    ir.guard(at, -rank, "at_least", message)
    ir.guard(rank - 1, at, "at_least", message)
    return tuple(range(rank))


for _name, (_kind, _since) in ROWS.items():
    operator(_name, since=_since)(_lowering(_kind))
