"""Scans: lines side by side, each gone through tile by tile with what the tiles before add up to.

Where there are few long lines, several programs share each: a first launch folds their parts, and in a second one each
program begins with what the parts before its own fold to, always in the same order.
"""

from dataclasses import dataclass

from onnxc.compiler.codegen_gpu.schedules.reductions import part_type
from onnxc.compiler.codegen_gpu.schedules.scans import scan_of
from onnxc.compiler.codegen_gpu.source.element_types import register_type
from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, element_counts, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import DeviceStep, KernelCode
from onnxc.compiler.codegen_gpu.source.row_folds import fold_columns
from onnxc.compiler.codegen_gpu.source.scalars import literal, table_of
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, SourceBuilder, unravel
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.rows import identity
from onnxc.compiler.planning.loops.views import row_major
from onnxc.compiler.planning.schedules import ScanSchedule
from onnxc.compiler.target import Target

LINE, POSITION = 0, 1
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
    schedule = kernel.scheduled(ScanSchedule)
    launches = [_Lines(open_kernel(kernel, target, rank=2), scan_of(kernel.block), schedule) for _ in range(2)]
    if schedule.split == 1:
        return KernelCode((launches[0].scan(),), element_counts(kernel))
    return KernelCode((launches[0].fold_parts(), launches[1].scan()), element_counts(kernel))


@dataclass
class _Lines:
    """One launch: a program takes a tile of lines, or one of the parts of it, and goes through it tile by tile."""

    frame: KernelFrame
    op: Op
    schedule: ScanSchedule

    def __post_init__(self) -> None:
        frame, b, shape, tile = self.frame, self.frame.b, self.op.results[0].shape, self.schedule.tile
        axis, self.kind, self.dtype = self.op.int("axis"), self.op.text("kind"), self.op.operands[0].dtype
        others = [other for other in range(len(shape)) if other != axis]
        self.length, self.lines = shape[axis], product(shape[other] for other in others)
        self.tiles: Dim = floordiv(self.lines + tile.rows - 1, tile.rows)
        split, program = self.schedule.split, b.program()
        own_tile = program if split == 1 else b.div(program, split)
        self.part: Int = 0 if split == 1 else b.mod(program, split)
        self.line = b.add(b.mul(own_tile, tile.rows), b.lanes(LINE, tile.rows))
        sizes = [frame.size(shape[other]) for other in others]
        self.outer = dict(zip(others, unravel(b, self.line, sizes), strict=True))
        self.start = literal(b, identity(self.kind, self.dtype), self.dtype)

    def _combine(self, x: Expr, y: Expr) -> Expr:
        return table_of(self.dtype)[{"sum": "add", "prod": "mul"}.get(self.kind, self.kind)](
            self.frame.b, self.dtype, x, y
        )

    def _nothing(self) -> Expr:
        """A variable for each line that begins as what changes nothing."""
        zeros = f"tl.zeros([{self.schedule.tile.rows}, 1], {register_type(self.dtype)})"
        return self.frame.b.variable(f"{zeros} + {self.start}", frozenset((LINE,)))

    def _range(self) -> tuple[Int, Int]:
        """The places that a program goes through."""
        frame, b, (split, width) = self.frame, self.frame.b, (self.schedule.split, self.schedule.tile.columns)
        if split == 1:
            return 0, frame.size(self.length)
        each = frame.size(floordiv(self.length + split * width - 1, split * width) * width)
        first = b.mul(self.part, each)
        return first, b.minimum(b.add(first, each), frame.size(self.length))

    def _tile(self, first: Expr) -> tuple[Evaluator, Int, Expr]:
        """The places from `first` on, and the elements that are scanned there."""
        frame, b, tile = self.frame, self.frame.b, self.schedule.tile
        stop = frame.size(self.length)
        lanes = {LINE: b.lanes(LINE, tile.rows), POSITION: b.lanes(POSITION, tile.columns)}
        position = b.add(first, lanes[POSITION])
        masks = {LINE: b.compare(self.line, "<", frame.size(self.lines)), POSITION: b.compare(position, "<", stop)}
        e = frame.evaluator(lanes, masks)
        # What excludes an element includes the one before it instead.
        source = b.sub(position, 1) if self.op.flag("exclusive") else position
        inside = b.both(masks[POSITION], b.compare(source, ">=", 0) if self.op.flag("exclusive") else None)
        x = e.wanted(inside).value(self.op.operands[0], self._index(source))
        filled = f"tl.where({inside} & ({lanes[LINE]} >= 0), {x}, {self.start})"
        return e, position, b.let(filled, frozenset((LINE, POSITION)))

    def _index(self, position: Int) -> list[Int]:
        b = self.frame.b
        where = b.sub(b.sub(self.frame.size(self.length), 1), position) if self.op.flag("reverse") else position
        return [self.outer.get(axis, where) for axis in range(self.op.results[0].rank)]

    def scan(self) -> DeviceStep:
        """The launch that writes the result."""
        frame, b, width = self.frame, self.frame.b, self.schedule.tile.columns
        first_position, stop = self._range()
        before = self._nothing() if self.schedule.split == 1 else self._parts_before()
        with b.loop(first_position, stop, width, prefix="first") as first:
            e, position, filled = self._tile(first)
            own = _scanned(b, self.kind, self.dtype, filled)
            result = e.strided(self._index(position), row_major(self.op.results[0].shape))
            e.store(self._combine(before, own), frame.root.dtype, frame.output(), result)
            zero = literal(b, 0, self.dtype)
            last = b.let(f"tl.where({e.lanes[POSITION]} == {width - 1}, {own}, {zero})", frozenset((LINE, POSITION)))
            b.assign(before, self._combine(before, fold_columns(b, "sum", self.dtype, last)).text)
        return frame.step((self.tiles * self.schedule.split,))

    # Parts of lines

    def fold_parts(self) -> DeviceStep:
        """The launch that folds each part of the lines."""
        frame, b, split = self.frame, self.frame.b, self.schedule.split
        total = self._nothing()
        with b.loop(*self._range(), self.schedule.tile.columns, prefix="first") as first:
            _, _, filled = self._tile(first)
            b.assign(total, self._combine(total, fold_columns(b, self.kind, self.dtype, filled)).text)
        e = frame.evaluator({LINE: b.lanes(LINE, self.schedule.tile.rows)}, self._line_mask())
        offset = b.add(b.mul(self.line, split), self.part)
        e.store(total, part_type(self.op), frame.scratch("parts", part_type(self.op)), offset)
        return frame.step((self.tiles * split,))

    def _parts_before(self) -> Expr:
        """A variable for what the parts before a program's own fold to."""
        frame, b, split, dtype = self.frame, self.frame.b, self.schedule.split, part_type(self.op)
        part = b.lanes(POSITION, split)
        e = frame.evaluator({LINE: b.lanes(LINE, self.schedule.tile.rows), POSITION: part}, self._line_mask())
        x = e.load(dtype, frame.scratch("parts", dtype), b.add(b.mul(self.line, split), part))
        filled = b.let(f"tl.where({part} < {self.part}, {x}, {self.start})", frozenset((LINE, POSITION)))
        folded = fold_columns(b, self.kind, self.dtype, filled)
        return b.variable(self._combine(self._nothing(), folded).text, frozenset((LINE,)))

    def _line_mask(self) -> dict[int, Expr]:
        return {LINE: self.frame.b.compare(self.line, "<", self.frame.size(self.lines))}


def _scanned(b: SourceBuilder, kind: str, dtype: DType, x: Expr) -> Expr:
    """The scan of a tile along its places."""
    if kind in ("sum", "prod"):
        return b.let(f"tl.cum{kind}({x}, {POSITION}).to({register_type(dtype)})", x.dims)
    option = ", propagate_nan=tl.PropagateNan.ALL" if dtype.is_float else ""
    b.helper(_EXTREMUM.format(kind=kind, option=option))
    return b.let(f"tl.associative_scan({x}, {POSITION}, extremum)", x.dims)
