"""A segment of many launches as several native functions: one alone would take LLVM the square of their number."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.planning.kernel_plan import Segment

MOST_LAUNCHES = 64
"""Launches in one function: 2048 take LLVM 1 s in functions of 64, and 4096 in a single one took 80 s."""


def segment_functions(
    name: str, segment: Segment, write: Callable[[str, Segment], FunctionBuilder]
) -> Iterator[FunctionBuilder]:
    """The native function of a segment, after those that it calls; `write` makes one of the launches it is given."""
    launches = segment.launches
    if len(launches) <= MOST_LAUNCHES:
        yield write(name, segment)
        return
    parts = [
        write(f"{name}_from{start}", replace(segment, launches=launches[start : start + MOST_LAUNCHES]))
        for start in range(0, len(launches), MOST_LAUNCHES)
    ]
    yield from parts
    yield _all_of(name, [part.name for part in parts])


def _all_of(name: str, parts: list[str]) -> FunctionBuilder:
    """Calls the parts in order, up to the first that does not give 0."""
    f = FunctionBuilder(name, [("ptr", "frame")], returns="i64")
    for part in parts:
        _call(part, f)
    f.ret(0)
    return f


def _call(part: str, f: FunctionBuilder) -> None:
    result = f.call(part, "i64", f.parameters[0])
    f.if_(f.icmp("ne", result, 0), lambda: f.ret(result))
