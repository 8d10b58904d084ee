"""Range: numbers in arithmetic progression."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import as_scalar, known_integers, read_lengths
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, I64, DType
from onnxc.compiler.ir.module import Value

# A progression of so few integers is often a list of axes or sizes, and is kept readable as such.
LISTED = 32


@operator("Range", since=(11, 27))
def range_(node: Node, ir: Builder) -> Value:
    """start: T[], limit: T[], delta: T[]  ->  T[max(ceil((limit - start) / delta), 0)]: start + i * delta

    16-bit floats are computed in the type `stash_type`, by default f32.
    Source: https://onnx.ai/onnx/operators/onnx__Range.html
    """
    start, limit, delta = (as_scalar(node.input(name), name, node, ir) for name in ("start", "limit", "delta"))
    first, step = ir.known(start), known_integers(delta, ir)
    zero = ir.known_array(delta)
    if step == (0,) or (zero is not None and not zero.any()):
        node.fail("range-delta", "delta is 0", rule="ONNX Range, delta")
    count = _known_count(first, ir.known(limit), step)
    if count is None:
        (count,) = read_lengths(_count(start, limit, delta, ir), "number of elements (-1 for a delta of 0)", node, ir)
    elif isinstance(count, int) and count <= LISTED and first is not None and step is not None:
        return ir.sizes([first[0] + index * step[0] for index in range(count)], start.dtype)
    dtype = _stash_type(node) if start.dtype in (F16, BF16) else start.dtype
    steps = ir.mul(ir.iota((count,), 0, dtype), ir.cast(delta, dtype))
    return ir.cast(ir.add(steps, ir.cast(start, dtype)), start.dtype)


def _stash_type(node: Node) -> DType:
    dtype = node.dtype("stash_type") if node.has("stash_type") else F32
    if not dtype.is_float:
        node.fail("stash-type", f"stash_type is {dtype}, not a float", rule="ONNX Range, attribute stash_type")
    return dtype


def _known_count(
    start: tuple[Dim, ...] | None, limit: tuple[Dim, ...] | None, delta: tuple[int, ...] | None
) -> Dim | None:
    """The number of elements where start and limit are known in sizes, and delta is an integer."""
    if start is None or limit is None or delta is None:
        return None
    distance = limit[0] - start[0] if delta[0] > 0 else start[0] - limit[0]
    return maximum(floordiv(distance + abs(delta[0]) - 1, abs(delta[0])), 0)


def _count(start: Value, limit: Value, delta: Value, ir: Builder) -> Value:
    """i64[]: the number of elements; -1 where delta is 0."""
    if start.dtype.is_integer:
        count = _integer_count(start, limit, delta, ir)
    else:
        first, last, step = (ir.cast(value, F64) for value in (start, limit, delta))
        count = ir.cast(ir.max(ir.ceil(ir.div(ir.sub(last, first), step)), 0), I64)
    return ir.select(ir.equal(delta, 0), -1, count)


def _integer_count(start: Value, limit: Value, delta: Value, ir: Builder) -> Value:
    first, last, step = (ir.cast(value, I64) for value in (start, limit, delta))
    ascending = ir.less(0, step)
    distance = ir.select(ascending, ir.sub(last, first), ir.sub(first, last))
    count = ir.add(ir.div(ir.sub(distance, 1), ir.abs(step)), 1)
    return ir.select(ir.less(0, distance), count, 0)
