"""KernelPlan to Artifact: what is the same for every target, around the two things that a back end brings."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from onnxc.compiler.codegen_host.compile_objects import object_stream
from onnxc.compiler.codegen_host.image import begin_support_objects, build_image
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_module import ModuleStream
from onnxc.compiler.codegen_host.routine_frame import FaultTable
from onnxc.compiler.codegen_host.routines import CHECK_TICKS, RoutineContext, write_routine
from onnxc.compiler.codegen_host.segment_frame import SegmentFrame
from onnxc.compiler.codegen_host.segment_parts import segment_functions
from onnxc.compiler.codegen_host.weights import WeightBlock
from onnxc.compiler.codegen_host.write_program import Entries, write_program
from onnxc.compiler.diagnostics import Location
from onnxc.compiler.limits import expect_within
from onnxc.compiler.planning.kernel_plan import KernelPlan, Routine, Segment
from onnxc.compiler.target import Target
from onnxc.runtime.artifact import Artifact, tie_images
from onnxc.runtime.device_code import DeviceCode
from onnxc.runtime.program import JsonValue, Program
from onnxc.runtime.records import record

__all__ = ["NativeCode", "Pieces", "assemble", "native_code"]

LONG_SEGMENT = 200
"""Instructions of a segment above which it is compiled with the least effort: it is gone through once in a call.

64 launches of bert_base took LLVM 20 ms, and take 2.8 ms, for 1.27 times as many instructions, about 6 a launch. Calls
of 20 us, of 40 launches, take as long. Where sizes are known a launch is 10, and 64 launches are a function.
"""

LONG_ROUTINE = 1_500
"""The same of a routine, which may have loops.

A detector of 600 launches whose sizes data decides has 63,000 of them: LLVM took 3 s for these, and takes 0.3 s; no
difference was seen in calls of 78 ms. An LSTM of few units takes 1.03 of its time with the least effort.
"""

Locations = Mapping[str, int]
"""The ordinal of each node whose kernels may report data that is not legal."""


@record
class Pieces:
    """What a back end made of the kernels of a plan.

    functions: what segments call, those of a kernel together, which are made when they are asked for, once; only behind
    the last are there `lengths`, the instructions of each kernel that runs on the host, `modules`, of LLVM IR, whose
    functions kernels call, and can `write_segment` write all launches of a segment into its function. reports: whether
    a kernel, by its ordinal, may report data that is not legal. table: of growing sizes, how many entries it has, and
    how many of them are choices of variants.
    """

    functions: Iterable[Sequence[FunctionBuilder]]
    lengths: Sequence[int]
    write_segment: Callable[[SegmentFrame, Segment, Locations], None]
    reports: Callable[[int], bool]
    report: JsonValue
    device: DeviceCode | None = None
    modules: Iterable[str] = ()
    table: tuple[int, int] | None = None


@record
class NativeCode:
    """A program with the objects of its native functions, not yet linked; `entries` are those that its steps call.

    locations: the nodes that status blocks number. weights: in the layouts that kernels read.
    """

    program: Program
    objects: tuple[bytes, ...]
    entries: tuple[str, ...]
    locations: tuple[str, ...]
    weights: np.ndarray


def assemble(
    plan: KernelPlan,
    pieces: Pieces,
    target: Target,
    host: Target,
    cache: Path | None,
    progress: Callable[[int, int], None] | None = None,
) -> Artifact:
    """The artifact of `plan`: one image for the processor `host`, and the weights in the layouts that kernels read.

    cache: the folder where object code is kept, None for none. progress: is told how many modules of machine code are
    compiled, and of how many.
    """
    # LLVM has nothing to do before the first kernels are written. What is wrong with it is raised below.
    begin_support_objects(host, cache)
    code = native_code(plan, pieces, host, cache, progress)
    images = {str(target): build_image(code.objects, code.entries, host, cache)} if code.entries else {}
    provenance = {"locations": list(code.locations)}
    return tie_images(Artifact(code.program, images, code.weights, provenance, pieces.report, device=pieces.device))


def native_code(
    plan: KernelPlan,
    pieces: Pieces,
    host: Target,
    cache: Path | None,
    progress: Callable[[int, int], None] | None = None,
) -> NativeCode:
    """What `plan` becomes before it is linked, for the processor `host`."""
    weights = WeightBlock()
    offsets = [weights.add(plan.constants[weight.constant], weight.layout) for weight in plan.weights]
    entry_of = Entries()
    program = write_program(plan, entry_of, weights.add, pieces.table)
    segments = entry_of.segments
    locations = _locations(segments, pieces.reports)
    symbols = [symbol.name for symbol in program.symbols]
    routines = {name: call for name, call in entry_of.calls.items() if isinstance(call, Routine)}
    faults = FaultTable()
    context = RoutineContext(
        symbols,
        {symbol.name: symbol.low for symbol in program.symbols},
        offsets,
        entry_of.segment,
        lambda segment: any(pieces.reports(launch.general.kernel) for launch in segment.launches),
        faults,
        CHECK_TICKS[host.arch],
    )

    def write(name: str, segment: Segment) -> FunctionBuilder:
        f = FunctionBuilder(name, [("ptr", "frame")], returns="i64")
        pieces.write_segment(SegmentFrame(f, segment, offsets, symbols), segment, locations)
        f.ret(0)
        return f

    with object_stream(host, cache, progress) as stream:
        module = ModuleStream(stream.add)
        for functions in pieces.functions:
            module.add(functions)
        for segment, name in segments.items():
            module.add(_with_effort(segment_functions(name, segment, write), LONG_SEGMENT))
        for name, routine in routines.items():
            module.add(_with_effort(write_routine(name, routine, context), LONG_ROUTINE))
        parts = _parts(segments, pieces.lengths)
        expect_within("code_instructions", module.length, "the number of instructions", "code-too-large", parts)
        module.close()
        for text in pieces.modules:
            stream.add(text)
        # LLVM works on the last modules meanwhile.
        block = weights.bytes()
        objects = stream.objects()
    program = replace(program, faults=tuple(faults.faults))
    return NativeCode(program, objects, tuple(entry_of.calls), tuple(locations), block)


def _with_effort(functions: Iterable[FunctionBuilder], most: int) -> Sequence[FunctionBuilder]:
    """Functions that launch kernels, and what LLVM is to do for each: the least for more than `most` instructions."""
    made = tuple(functions)
    for function in made:
        if function.length > most:
            function.effort = "least"
    return made


def _parts(segments: Iterable[Segment], lengths: Sequence[int]) -> Mapping[Location | None, int]:
    """How many instructions the kernels have that are launched for each node."""
    launched = dict.fromkeys(
        (launch.location, variant.kernel)
        for segment in segments
        for launch in segment.launches
        for variant in launch.variants
        if lengths
    )
    parts: Counter[Location | None] = Counter()
    for location, kernel in launched:
        parts[location] += lengths[kernel]
    return parts


def _locations(segments: Iterable[Segment], reports: Callable[[int], bool]) -> Locations:
    reporting = (
        str(launch.location or "")
        for segment in segments
        for launch in segment.launches
        if reports(launch.general.kernel)
    )
    return {location: ordinal for ordinal, location in enumerate(dict.fromkeys(reporting))}
