"""The Reduce operators: a table of formulas over one or two folds.

data: T[d0 ... dr-1]  ->  reduced: T[...], with the axes of `axes` dropped, or of size 1 where `keepdims`.

`axes` is an attribute, from opset 18 (ReduceSum: 13) an input. No axes mean all of them, or with
`noop_with_empty_axes` none, which leaves the rest of the formula.

What is folded may have no elements: a sum is 0 then, a product 1, a maximum the lowest and a minimum the highest value.
A mean is "undefined" by the standard; of floats it is NaN, the quotient 0 / 0, as the reference implementation has it.
ONNX Runtime gives 0.

Source: https://onnx.ai/onnx/operators/
"""

from collections.abc import Callable, Sequence

from onnxc.compiler.frontend.joining.squeezed_ones import may_have_any_rank
from onnxc.compiler.frontend.operator import Lowering, Node, operator
from onnxc.compiler.frontend.operator_helpers.fold_axes import FixedAxes, Fold, axes_of_data
from onnxc.compiler.frontend.operator_helpers.open_ranks.common_rank import (
    rank_of,
    with_leading_ones,
    without_leading_ones,
)
from onnxc.compiler.frontend.operator_helpers.precision import real_type, wide_type
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import I64, DType
from onnxc.compiler.ir.module import Value

Formula = Callable[[Value, Fold, Builder], Value]
Computed = Callable[[DType], DType]


def _same(dtype: DType) -> DType:
    return dtype


def _wide_integer(dtype: DType) -> DType:
    return I64 if dtype.is_integer and dtype.bits < 64 else dtype


def _sum(x: Value, fold: Fold, ir: Builder) -> Value:
    return fold.over(x, "sum")


def _mean(x: Value, fold: Fold, ir: Builder) -> Value:
    return ir.div(fold.over(x, "sum"), ir.cast(ir.size(fold.count), x.dtype))


def _max(x: Value, fold: Fold, ir: Builder) -> Value:
    return fold.over(x, "or" if x.dtype.is_bool else "max")


def _min(x: Value, fold: Fold, ir: Builder) -> Value:
    return fold.over(x, "and" if x.dtype.is_bool else "min")


def _l2(x: Value, fold: Fold, ir: Builder) -> Value:
    return ir.sqrt(fold.over(ir.square(x), "sum"))


def _log_sum_exp(x: Value, fold: Fold, ir: Builder) -> Value:
    """max + log(sum(exp(x - max))), with 0 for a maximum that is not finite."""
    top = fold.kept(x, "max")
    finite = ir.less(ir.abs(top), float("inf"))
    top = ir.select(finite, top, 0)
    total = ir.log(fold.over(ir.exp(ir.sub(x, top)), "sum"))
    return ir.add(ir.with_shape(top, total.shape), total)


# operator: formula, the type it computes in, the versions with an attribute `axes`, those with an input
ROWS: dict[str, tuple[Formula, Computed, Sequence[int], Sequence[int]]] = {
    "ReduceSum": (_sum, _same, (1, 11), (13,)),
    "ReduceMean": (_mean, _wide_integer, (1, 11, 13), (18,)),
    "ReduceMax": (_max, _same, (1, 11, 12, 13), (18, 20)),
    "ReduceMin": (_min, _same, (1, 11, 12, 13), (18, 20)),
    "ReduceProd": (lambda x, fold, ir: fold.over(x, "prod"), _same, (1, 11, 13), (18,)),
    "ReduceL1": (lambda x, fold, ir: fold.over(ir.abs(x), "sum"), _same, (1, 11, 13), (18,)),
    "ReduceL2": (_l2, real_type, (1, 11, 13), (18,)),
    "ReduceSumSquare": (lambda x, fold, ir: fold.over(ir.square(x), "sum"), _same, (1, 11, 13), (18,)),
    "ReduceLogSum": (lambda x, fold, ir: ir.log(fold.over(x, "sum")), real_type, (1, 11, 13), (18, 28)),
    "ReduceLogSumExp": (_log_sum_exp, real_type, (1, 11, 13), (18, 28)),
}


def _by_attribute(formula: Formula, computed: Computed) -> Lowering:
    def lower(node: Node, ir: Builder) -> Value:
        x = node.input("data")
        axes = node.axes_list(node.ints("axes", ()), x.rank)
        fold = FixedAxes(ir, x.shape, axes or tuple(range(x.rank)), node.flag("keepdims"))
        return _reduced(x, formula, computed, fold, ir)

    return lower


def _by_input(formula: Formula, computed: Computed) -> Lowering:
    def lower(node: Node, ir: Builder) -> Value:
        data = node.host_input("data")
        if data is not None and _drops_any_axes(data, node):
            return _of_any_rank(data, formula, computed, node, ir)
        x = node.input("data")
        return _reduced(x, formula, computed, _fold_by_input(x, node, ir), ir)

    return lower


def _drops_any_axes(data: Value, node: Node) -> bool:
    """Whether only data tells the rank before and the rank after, which would be cases of each with each."""
    axes = node.host_input("axes")
    if axes is None or node.flag("keepdims") or not may_have_any_rank(data):
        return False
    shape = axes.tensor.shape
    return shape is None or (len(shape) == 1 and not isinstance(shape[0], int))


def _of_any_rank(data: Value, formula: Formula, computed: Computed, node: Node, ir: Builder) -> Value:
    """Folded with leading axes of size 1, which the axes count from the end of; the axes go last, by the host."""
    axes, none_is_all = ir.cast(node.input("axes"), I64), not node.flag("noop_with_empty_axes")
    x, rank = with_leading_ones(data, ir), rank_of(data, ir)
    from_end = ir.select(ir.less(axes, 0), axes, ir.sub(axes, rank))
    fold = axes_of_data(from_end, x, ir, keepdims=True, none_is_all=none_is_all)
    kept = without_leading_ones(_reduced(x, formula, computed, fold, ir), rank, ir)
    return ir.host("without_folded_axes", (kept, axes), (kept.type,), {"none_is_all": none_is_all})[0]


def _fold_by_input(x: Value, node: Node, ir: Builder) -> Fold:
    keepdims, none_is_all = node.flag("keepdims"), not node.flag("noop_with_empty_axes")
    axes = node.optional("axes")
    if axes is not None and axes.rank != 1:
        node.fail("axes-not-a-vector", f"axes is {axes.type}", rule=f"ONNX {node.operator}, input axes")
    if axes is None or axes.shape[0] == 0 or (x.rank == 0 and ir.known(axes) is None):
        return FixedAxes(ir, x.shape, tuple(range(x.rank)) if none_is_all else (), keepdims)
    known = ir.known(axes)
    if known is not None and all(isinstance(axis, int) for axis in known):
        fixed = node.axes_list([axis for axis in known if isinstance(axis, int)], x.rank)
        return FixedAxes(ir, x.shape, fixed, keepdims)
    count = axes.shape[0]
    if isinstance(count, int) and count > x.rank:
        message = f"axes has {count} elements, data has {x.rank} axes"
        node.fail("axis-out-of-range", message, rule=f"ONNX {node.operator}, input axes")
    if not keepdims and not isinstance(count, int):
        reason = "the number of axes is only known at run time, and with it the rank of the result"
        node.split_by_size(axes, 0, reason)
    return axes_of_data(axes, x, ir, keepdims=keepdims, none_is_all=none_is_all)


def _reduced(x: Value, formula: Formula, computed: Computed, fold: Fold, ir: Builder) -> Value:
    """The formula in the type it computes in; of 16-bit floats in f32, rounded once."""
    wide = ir.cast(x, computed(wide_type(x.dtype)))
    return ir.cast(formula(wide, fold, ir), x.dtype)


for _name, (_formula, _computed, _attribute_since, _input_since) in ROWS.items():
    operator(_name, since=_attribute_since)(_by_attribute(_formula, _computed))
    operator(_name, since=_input_since)(_by_input(_formula, _computed))
