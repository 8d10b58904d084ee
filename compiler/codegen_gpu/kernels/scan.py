"""Scans: lines side by side, each gone through tile by tile with what the tiles before add up to."""

from onnxc.compiler.codegen_gpu.source.element_types import register_type
from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelCode
from onnxc.compiler.codegen_gpu.source.row_folds import fold_columns
from onnxc.compiler.codegen_gpu.source.scalars import literal, table_of
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, SourceBuilder, unravel
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.rows import identity
from onnxc.compiler.planning.schedules import ScanSchedule
from onnxc.compiler.planning.views import row_major
from onnxc.compiler.target import Target

LINE, PLACE = 0, 1
"""The dimensions of a tile."""

_EXTREMUM = """@triton.jit
def extremum(x, y):
    return tl.{kind}imum(x, y{option})
"""


def is_native(op: Op) -> bool:
    """Whether a scan has a kernel."""
    return not op.operands[0].dtype.is_bool and op.operands[0].rank > 0


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a scan along one axis."""
    frame = open_kernel(kernel, target, rank=2)
    b, op = frame.b, frame.root.op
    assert op is not None, kernel
    (operand,), axis, kind, shape = op.operands, op.int("axis"), op.text("kind"), op.results[0].shape
    dtype, length = operand.dtype, shape[axis]
    others = [other for other in range(len(shape)) if other != axis]
    lines = product(shape[other] for other in others)
    tile = kernel.scheduled(ScanSchedule).tile
    height, width = tile.rows, tile.columns
    line = b.add(b.mul(b.program(), height), b.lanes(LINE, height))
    outer = dict(zip(others, unravel(b, line, [frame.size(shape[other]) for other in others]), strict=True))
    tall, square = frozenset((LINE,)), frozenset((LINE, PLACE))
    start, stop = literal(b, identity(kind, dtype), dtype), frame.size(length)
    before = b.variable(f"tl.zeros([{height}, 1], {register_type(dtype)}) + {start}", tall)
    combine = table_of(dtype)[{"sum": "add", "prod": "mul"}.get(kind, kind)]
    with b.loop(0, stop, width, prefix="first") as first:
        lanes = {LINE: b.lanes(LINE, height), PLACE: b.lanes(PLACE, width)}
        place = b.add(first, lanes[PLACE])
        masks = {LINE: b.compare(line, "<", frame.size(lines)), PLACE: b.compare(place, "<", stop)}
        e = frame.evaluator(lanes, masks)

        def index(e: Evaluator, place: Int) -> list[Int]:
            where = b.sub(b.sub(stop, 1), place) if op.flag("reverse") else place
            return [where if other == axis else outer[other] for other in range(len(shape))]

        # What excludes an element includes the one before it instead.
        source = b.sub(place, 1) if op.flag("exclusive") else place
        inside = b.both(masks[PLACE], b.compare(source, ">=", 0) if op.flag("exclusive") else None)
        x = e.wanted(inside).value(operand, index(e, source))
        filled = b.let(f"tl.where({inside} & ({lanes[LINE]} >= 0), {x}, {start})", square)
        own = _scanned(b, kind, dtype, filled)
        total = combine(b, dtype, before, own)
        e.store(total, frame.root.dtype, frame.output(), e.strided(index(e, place), row_major(shape)))
        last = b.let(f"tl.where({lanes[PLACE]} == {width - 1}, {own}, {literal(b, 0, dtype)})", square)
        b.assign(before, combine(b, dtype, before, fold_columns(b, "sum", dtype, last)).text)
    return frame.code((floordiv(lines + height - 1, height),))


def _scanned(b: SourceBuilder, kind: str, dtype: DType, x: Expr) -> Expr:
    """The scan of a tile along its places."""
    if kind in ("sum", "prod"):
        return b.let(f"tl.cum{kind}({x}, {PLACE}).to({register_type(dtype)})", x.dims)
    option = ", propagate_nan=tl.PropagateNan.ALL" if dtype.is_float else ""
    b.helper(_EXTREMUM.format(kind=kind, option=option))
    return b.let(f"tl.associative_scan({x}, {PLACE}, extremum)", x.dims)
