"""Which ops a code generator has kernels for: what is common to all of them."""

from collections.abc import Callable, Collection, Mapping
from math import e, log2

from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitive import PRIMITIVES, AnchorKind
from onnxc.compiler.ir.primitives.contractions import image_labels
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.loops.matrix_products import sums_shared_letters


def native_rule(
    dtypes: Callable[[AnchorKind | None], Collection[DType]],
    kernels: Collection[str],
    pointwise: Callable[[DType], Collection[str]],
    checks: Mapping[str, Callable[[Op], bool]],
) -> Callable[[Op], bool]:
    """The rule of a code generator that has these kernel kinds, and these pointwise primitives for an element type.

    `dtypes` are the element types that a kernel kind takes, or inline ops where it is None; `checks` are what is asked
    of single primitives beyond what every kernel does.
    """

    def is_native(op: Op) -> bool:
        primitive = PRIMITIVES[op.name]
        if not primitive.recomputable and primitive.anchor not in kernels:
            return False
        allowed = dtypes(primitive.anchor)
        types = [operand.type for operand in op.operands] + list(op.result_types)
        if not all(isinstance(t, TensorType) and t.shape is not None and t.dtype in allowed for t in types):
            return False
        for rule in (_RULES.get(op.name), checks.get(op.name)):
            if rule is not None and not rule(op):
                return False
        if primitive.kind == "pointwise" and op.name not in ("select", "cast", "bitcast"):
            return op.name in pointwise(op.operands[0].dtype)
        return True

    return is_native


def _has_axes(op: Op) -> bool:
    return op.operands[0].rank > 0


def _counts_with_channels_first(op: Op) -> bool:
    return op.text("dimensions") == image_labels(op.result.rank - 2)


def _nonempty_reduce(op: Op) -> bool:
    return bool(op.ints("axes"))


def _weighs_by_powers_of_two(op: Op) -> bool:
    """Whether the scale times log2 e, which kernels of attention make powers of 2 with, is a finite f32."""
    return abs(op.float("scale")) * log2(e) < 3.4e38


_RULES: Mapping[str, Callable[[Op], bool]] = {
    "reduce": _nonempty_reduce,
    "dot": sums_shared_letters,
    "attention": _weighs_by_powers_of_two,
    "arg_reduce_window": _counts_with_channels_first,
    **dict.fromkeys(("reduce_window", "scatter_along", "scatter_nd", "sort", "top_k"), _has_axes),
}
