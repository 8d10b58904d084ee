"""Segments as native functions: one call computes the sizes, and launches the kernels of a segment in order.

    i64 segment(ptr frame)

The frame is laid out in runtime/program.py. A kernel gets its arguments as 64-bit words on the stack: the status block,
its inputs, its outputs, its scratch memory, its sizes; and its units of work go to the thread pool.
"""

from collections.abc import Callable, Mapping, Sequence

from onnxc.compiler.codegen_host.llvm_values import Reg
from onnxc.compiler.codegen_host.segment_frame import SegmentFrame, run_first
from onnxc.compiler.codegen_host.threads.pool import call_parallel_for
from onnxc.compiler.ir.dim_symbols import substitute
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.planning.kernel_plan import Launch, Segment, Variant
from onnxc.runtime.program import STATUS_CODE, STATUS_LOCATION
from onnxc.runtime.records import record


@record
class NativeKernel:
    """What a launch needs to know of a kernel: its function, its symbols, its work in units, and a chunk of them.

    One that `reports` may write to the status block; one that `has_scratch` gets memory of its own.
    """

    name: str
    symbols: tuple[str, ...]
    units: Dim
    grain: Dim
    reports: bool
    has_scratch: bool = False


def write_segment(
    frame: SegmentFrame,
    segment: Segment,
    kernels: Sequence[NativeKernel],
    locations: Mapping[str, int],
    ordinals: Mapping[int, int],
) -> None:
    """Writes the launches of a segment; `locations` numbers the nodes that launches whose kernels report come from.

    ordinals: of the first variant of each launch, by the launch's id, which a profile knows it by.
    """
    writer = _Writer(frame, segment, kernels, locations, ordinals)
    for launch in segment.launches:
        writer.launch(launch)


class _Writer:
    def __init__(
        self,
        frame: SegmentFrame,
        segment: Segment,
        kernels: Sequence[NativeKernel],
        locations: Mapping[str, int],
        ordinals: Mapping[int, int],
    ) -> None:
        self.frame, self.f, self.kernels, self.locations = frame, frame.f, kernels, locations
        self.ordinals = ordinals
        arguments = (
            (*launch.inputs, *launch.outputs, *variant.sizes)
            for launch in segment.launches
            for variant in launch.variants
        )
        words = 2 + max(map(len, arguments), default=0)
        self.arguments = self.f.alloca("i64", words)

    def launch(self, launch: Launch) -> None:
        """Stores the arguments, and runs all units of the first variant whose guard holds."""
        frame = self.frame
        pointers = [frame.status, *(frame.address(buffer) for buffer in (*launch.inputs, *launch.outputs))]
        scratch = [frame.address(launch.scratch)] if launch.scratch is not None else []
        first = self.ordinals[id(launch)]
        runs = [
            (frame.holds(each.guard), self._run(each, pointers, scratch, ordinal))
            for ordinal, each in enumerate(launch.variants, first)
        ]
        if self.kernels[launch.general.kernel].reports:
            self._store_location(self.locations[str(launch.location or "")])
        run_first(self.f, runs)

    def _run(
        self, variant: Variant, pointers: Sequence[Reg], scratch: Sequence[Reg], ordinal: int
    ) -> Callable[[], None]:
        """What runs a variant; its sizes are computed here, where all that follows can see them."""
        f, frame, kernel = self.f, self.frame, self.kernels[variant.kernel]
        pointers = [*pointers, *scratch] if kernel.has_scratch else pointers
        words = [*pointers, *(frame.size(size) for size in variant.sizes)]
        own = dict(zip(kernel.symbols, variant.sizes, strict=True))
        units, grain = (frame.size(substitute(size, own)) for size in (kernel.units, kernel.grain))

        def run() -> None:
            for index, word in enumerate(words):
                f.store(word, f.gep(self.arguments, index, "i64"), align=8)
            call_parallel_for(f, frame.pool, kernel.name, self.arguments, units, grain, ordinal)

        return run

    def _store_location(self, node: int) -> None:
        """Puts the node that runs next into the status block, unless one before it has failed."""
        f, status = self.f, self.frame.status
        address = f.gep(status, STATUS_LOCATION, "i64")
        is_clear = f.icmp("eq", f.load("i64", f.gep(status, STATUS_CODE, "i64"), align=8), 0)
        f.store(f.select(is_clear, node, f.load("i64", address, align=8)), address, align=8)
