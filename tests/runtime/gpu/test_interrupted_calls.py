"""Calls on a device that are interrupted between two instructions: nothing stays allocated, the next one is right."""

import pytest

from onnxc.runtime.program import Program
from tests.runtime.gpu.programs import AFFINE, affine, executable, step
from tests.runtime.programs import X, body, program
from tests.support.arrays import assert_same
from tests.support.fake_driver import FakeDriver
from tests.support.interruptions import is_interrupted

IN_TWO_LAUNCHES = program(body(3, [0], [2], [step("pick", [0], [1]), step("affine", [1], [2])]))


# One instruction in so many keeps this test at a second; a step of 1 was tried too.
@pytest.mark.parametrize("calls_before", [0, 1, 3])
@pytest.mark.parametrize("content", [AFFINE, IN_TWO_LAUNCHES])
def test_a_call_interrupted_at_any_instruction_keeps_no_memory(
    fake: FakeDriver, content: Program, calls_before: int
) -> None:
    exe = executable(fake, content)
    assert_same(exe(X), affine(X))
    before = fake.memory.live
    # The second call of a workspace is captured, those after it are replayed.
    for _ in range(calls_before):
        exe(X)
    instruction = 0
    while is_interrupted(lambda: exe(X), instruction):
        assert fake.memory.live <= before
        for _ in range(calls_before):
            assert_same(exe(X), affine(X))
        instruction += 29
    assert instruction >= 500
    assert_same(exe(X), affine(X))
    assert len(fake.streams.executables) <= 1
    assert fake.streams.graphs == {}
