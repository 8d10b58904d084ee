"""Calls on a device that are interrupted between two instructions: nothing stays allocated, the next one is right."""

import pytest

from onnxc.runtime.errors import InputError
from onnxc.runtime.program import Program
from tests.runtime.gpu.programs import AFFINE, affine, executable, step
from tests.runtime.programs import X, body, program
from tests.support.arrays import assert_same
from tests.support.fake_driver import FakeDriver
from tests.support.interruptions import is_interrupted

IN_TWO_LAUNCHES = program(body(3, [0], [2], [step("pick", [0], [1]), step("affine", [1], [2])]))


# One time in five keeps this test at some seconds; every time was tried too.
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
        instruction += 5
    assert instruction >= 100
    assert_same(exe(X), affine(X))
    assert len(fake.streams.executables) <= 1
    assert fake.streams.graphs == {}


def foreign(problem: BaseException, name: str, **others: object) -> object:
    """An array of another library, of which one method raises."""

    def fail(*_: object, **__: object) -> None:
        raise problem

    return type("Foreign", (), {name: fail, **others})()


@pytest.mark.parametrize("problem", [KeyError("stream"), OSError("stream"), KeyboardInterrupt()])
def test_a_call_that_another_library_ends_is_an_error_of_ours_or_passes_on(
    fake: FakeDriver, problem: BaseException
) -> None:
    exe = executable(fake, AFFINE)
    exe(X)
    live = fake.memory.live
    for value in (
        foreign(problem, "__dlpack_device__", __dlpack__=None),
        foreign(problem, "__dlpack__", __dlpack_device__=lambda _: (2, 0)),
        type("Foreign", (), {"__cuda_array_interface__": property(foreign(problem, "fail").fail)})(),
    ):
        with pytest.raises(BaseException) as ended:  # noqa: PT011
            exe(value)
        if isinstance(problem, Exception):
            assert isinstance(ended.value, InputError)
            assert ended.value.code == "input-type"
            assert ended.value.__cause__ is problem
        else:
            assert ended.value is problem
        # The traceback holds the frames of the call, and they its workspace.
        del ended
        problem.__traceback__ = None
        assert fake.memory.live <= live
        assert_same(exe(X), affine(X))
