"""What an executable has done so far."""

from collections.abc import Iterable

from onnxc.runtime.records import record


@record
class Stats:
    """Counts since the executable was made.

    compilations: 1 if it was made by `onnxc.compile`, from its cache too, 0 if it was loaded; a call never adds one.
    launches: native calls. arena_bytes: held for the values inside of calls, by all threads together.
    """

    compilations: int = 0
    calls: int = 0
    launches: int = 0
    arena_bytes: int = 0


def work_of(each: Iterable[Stats]) -> Stats:
    """The launches and the memory of several engines together; what a call is, who calls them says."""
    every = tuple(each)
    launches, arena_bytes = sum(stats.launches for stats in every), sum(stats.arena_bytes for stats in every)
    return Stats(launches=launches, arena_bytes=arena_bytes)
