"""Operators of com.microsoft on tensors at large, most of which the standard has taken up since."""

from onnxc.compiler.frontend.operator import Lowering, Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.shape_inputs import known_integers, of_shape
from onnxc.compiler.frontend.operator_helpers.standard_nodes import first_result, standard_node
from onnxc.compiler.frontend.operators.image.grid_sample import grid_sample
from onnxc.compiler.frontend.operators.tensor.gather import expect_in_range, gather_nd
from onnxc.compiler.frontend.operators.tensor.pad import pad_by_inputs
from onnxc.compiler.frontend.operators.tensor.range import range_
from onnxc.compiler.frontend.operators.tensor.triangles import trilu
from onnxc.compiler.frontend.operators.tensor.unique import unique
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import at_least, floordiv
from onnxc.compiler.ir.dtypes import BOOL, I64
from onnxc.compiler.ir.module import Value

# operator: that of the standard, a version of it, its lowering
ALIKE: dict[str, tuple[str, int, Lowering]] = {
    "GatherND": ("GatherND", 11, gather_nd),
    "GridSample": ("GridSample", 16, grid_sample),
    "Pad": ("Pad", 11, pad_by_inputs),
    "Trilu": ("Trilu", 14, trilu),
}


def _as_in_the_standard(name: str, version: int, lowering: Lowering) -> Lowering:
    return lambda node, ir: first_result(lowering, standard_node(node, name, version, node.operands), ir)


for _name, _row in ALIKE.items():
    operator(_name, since=(1,), domain=MICROSOFT)(_as_in_the_standard(*_row))


@operator("Range", since=(1,), domain=MICROSOFT)
def microsoft_range(node: Node, ir: Builder) -> Value:
    """start, limit, delta: T[], of which delta is 1 where it is left out  ->  T[N]"""
    start, limit, delta = node.input("start"), node.input("limit"), node.optional("delta")
    operands = start, limit, ir.full((), 1, start.dtype) if delta is None else delta
    return first_result(range_, standard_node(node, "Range", 11, operands), ir)


@operator("Unique", since=(1,), domain=MICROSOFT)
def microsoft_unique(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """x: T[N]  ->  y: T[M] in the order of their first occurrence, idx: i64[N], counts: i64[M]"""
    made = unique(standard_node(node, "Unique", 11, node.operands, {"sorted": 0}), ir)
    assert isinstance(made, tuple), made
    return made[0], made[2], made[3]


@operator("ExpandDims", since=(1,), domain=MICROSOFT)
def expand_dims(node: Node, ir: Builder) -> Value:
    """X: T[d...], axis: i32[]  ->  T[d...] with an axis of size 1 at `axis`"""
    x, axis = node.input("X"), known_integers(node.input("axis"), ir)
    if axis is None or len(axis) != 1:
        node.unsupported("the axis is only known at run time; make it a constant")
    return ir.unsqueeze(x, node.axes_list(axis, x.rank + 1, "axis"))


@operator("SampleOp", since=(1,), domain=MICROSOFT)
def sample_op(node: Node, ir: Builder) -> Value:
    """X: T[...]  ->  X"""
    return node.input("X")


@operator("UnfoldTensor", since=(1,), domain=MICROSOFT)
def unfold_tensor(node: Node, ir: Builder) -> Value:
    """input: T[..., N, ...]  ->  T[..., (N - size) / step + 1, ..., size]: parts of an axis, `step` apart"""
    x, size, step = node.input("input"), node.int("size"), node.int("step")
    axis = node.axis("dim", x.rank)
    length = x.shape[axis]
    if size < 1 or step < 1 or at_least(size, length + 1):
        message = f"parts of {size}, {step} apart, of an axis of {length}"
        node.fail("attribute-range", message, rule="ONNX Runtime UnfoldTensor")
    ir.guard(length, size, "at_least", "the parts are longer than the axis")
    shape = (floordiv(length - size, step) + 1, size)
    positions = ir.add(ir.mul(ir.iota(shape, 0, I64), step), ir.iota(shape, 1, I64))
    order = [*range(axis + 1), *range(axis + 2, x.rank + 1), axis + 1]
    return ir.transpose(ir.gather(x, positions, axis), order)


@operator("CDist", since=(1,), domain=MICROSOFT)
def cdist(node: Node, ir: Builder) -> Value:
    """A: T[M, D], B: T[N, D]  ->  T[M, N]: the distance of each row to each, or its square"""
    a, b = node.inputs("A", "B")
    a = of_shape(a, (None, None), "A", node, ir, "distance-shape")
    b = of_shape(b, (None, a.shape[1]), "B", node, ir, "distance-shape")
    metric = node.choice("metric", ("euclidean", "sqeuclidean"))
    difference = ir.sub(*ir.broadcast_together(ir.unsqueeze(a, (1,)), ir.unsqueeze(b, (0,))))
    squares = ir.reduce(ir.square(difference), "sum", (2,))
    return ir.sqrt(squares) if metric == "euclidean" else squares


@operator("TorchEmbedding", since=(1,), domain=MICROSOFT)
def torch_embedding(node: Node, ir: Builder) -> Value:
    """weight: T[V, D], indices: i64[...]  ->  T[..., D]; what else it takes is for training"""
    weight, indices = node.inputs("weight", "indices")
    expect_in_range(indices, weight.shape[0], node, ir)
    return ir.gather(weight, ir.cast(indices, I64), 0)


@operator("IsAllFinite", since=(1,), domain=MICROSOFT)
def is_all_finite(node: Node, ir: Builder) -> Value:
    """input: any number of T[...]  ->  bool[]: nothing is infinite or NaN, or only one of these counts"""
    verdict = ir.scalar(True, BOOL)
    only_infinity, only_nan = node.flag("isinf_only"), node.flag("isnan_only")
    for x in node.variadic():
        is_infinite, is_nan = ir.equal(ir.abs(x), float("inf")), ir.is_nan(x)
        wrong = is_infinite if only_infinity else is_nan if only_nan else ir.or_(is_infinite, is_nan)
        verdict = ir.and_(verdict, ir.reduce(ir.not_(wrong), "and", range(x.rank)))
    return verdict


def _complex_product(*, conjugated: bool) -> Lowering:
    """A: T[..., 2], B: T[..., 2]  ->  T[..., 2]: real and imaginary parts of A B, or of A times the conjugate of B"""

    def lower(node: Node, ir: Builder) -> Value:
        a, b = ir.broadcast_together(*node.inputs("A", "B"))
        last = a.rank - 1
        (ar, ai), (br, bi) = ([ir.slice_axis(x, last, part, 1) for part in (0, 1)] for x in (a, b))
        bi = ir.neg(bi) if conjugated else bi
        real = ir.sub(ir.mul(ar, br), ir.mul(ai, bi))
        return ir.concatenate([real, ir.add(ir.mul(ar, bi), ir.mul(ai, br))], last)

    return lower


operator("ComplexMul", since=(1,), domain=MICROSOFT)(_complex_product(conjugated=False))
operator("ComplexMulConj", since=(1,), domain=MICROSOFT)(_complex_product(conjugated=True))
