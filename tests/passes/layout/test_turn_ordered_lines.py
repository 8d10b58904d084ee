"""Lines that cross memory are turned before they are ordered whole."""

import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.layout.turn_ordered_lines import turn_ordered_lines
from tests.passes.golden import M, N, Pair, check_pair, f32


def _turned(b: Builder, x: Value, axis: int, down: bool) -> tuple[Value, ...]:
    order = [*range(axis), x.rank - 1, *range(axis + 1, x.rank - 1), axis]
    return tuple(b.transpose(y, order) for y in b.sort(b.transpose(x, order), x.rank - 1, down))


def _best_turned(b: Builder, x: Value) -> tuple[Value, ...]:
    return tuple(b.transpose(y, (1, 0)) for y in b.top_k(b.transpose(x, (1, 0)), 40, 1))


PAIRS = {
    "columns": Pair((f32(40, 3),), lambda b, x: b.sort(x, 0), lambda b, x: _turned(b, x, 0, down=False)),
    "channels": Pair((f32(2, 40, 3, 4),), lambda b, x: b.sort(x, 1, True), lambda b, x: _turned(b, x, 1, down=True)),
    "any number": Pair((f32(N, M),), lambda b, x: b.sort(x, 0), lambda b, x: _turned(b, x, 0, down=False)),
    "none": Pair((f32(40, 0),), lambda b, x: b.sort(x, 0), lambda b, x: _turned(b, x, 0, down=False)),
    "the best, which are all": Pair((f32(40, 3),), lambda b, x: b.top_k(x, 40, 0), _best_turned),
    "the best few": Pair((f32(40, 3),), lambda b, x: b.top_k(x, 39, 0)),
    "short columns": Pair((f32(32, 3),), lambda b, x: b.sort(x, 0)),
    "rows": Pair((f32(3, 40),), lambda b, x: b.sort(x, 1)),
    "a line": Pair((f32(40),), lambda b, x: b.sort(x, 0)),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_long_lines_that_cross_memory_are_turned(pair: str) -> None:
    check_pair(turn_ordered_lines, PAIRS[pair])
