"""Settings that those who run at once share: changed by the first, put back by the last."""

import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import onnxc
from onnxc.compiler.codegen_host import compile_objects
from onnxc.compiler.jobs.shared_setting import SharedSetting
from onnxc.compiler.jobs.short_turns import SECONDS, short_turns

MODEL = '<ir_version: 9, opset_import: ["" : 18]> g (float[n] x) => (float[n] y) { y = Relu(x) }'


class Cell:
    """What a process might hold."""

    def __init__(self, value: int) -> None:
        self.value = value
        self.writes: list[int] = []

    def write(self, value: int) -> None:
        self.value = value
        self.writes.append(value)


def shared(cell: Cell) -> SharedSetting[int]:
    return SharedSetting(lambda: cell.value, cell.write, lambda value: min(value, 10))


def test_the_first_changes_it_and_the_last_puts_it_back() -> None:
    cell = Cell(70)
    setting = shared(cell)
    first, second = ExitStack(), ExitStack()
    first.enter_context(setting.held())
    second.enter_context(setting.held())
    first.close()
    assert cell.value == 10
    second.close()
    assert cell.writes == [10, 70]
    with pytest.raises(ValueError, match="x"), setting.held():
        raise ValueError("x")
    assert cell.value == 70


def test_what_others_set_meanwhile_stays() -> None:
    cell = Cell(70)
    with shared(cell).held():
        cell.value = 30
    assert cell.value == 30


def test_what_is_wanted_already_stays() -> None:
    cell = Cell(3)
    with shared(cell).held():
        assert cell.value == 3
    assert cell.value == 3


def test_turns_are_short_while_code_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[float] = []
    compile_object = compile_objects.compile_object

    def noted(*arguments: object) -> bytes:
        seen.append(sys.getswitchinterval())
        return compile_object(*arguments)

    monkeypatch.setattr(compile_objects, "compile_object", noted)
    before = sys.getswitchinterval()
    exe = onnxc.compile(onnxc.from_text(MODEL), cache=tmp_path)
    assert (before, sys.getswitchinterval(), seen[-1]) == (0.005, 0.005, SECONDS)
    np.testing.assert_array_equal(exe(x=np.float32([-1, 2])), np.float32([0, 2]))


@pytest.mark.parametrize("microseconds", [1, 99, 100, 101, 333, 4999, 5000, 70000])
def test_a_process_has_its_own_turns_again(microseconds: int) -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval((microseconds + 0.5) / 1e6)
    try:
        own = sys.getswitchinterval()
        with short_turns():
            assert sys.getswitchinterval() == min(own, SECONDS)
        assert sys.getswitchinterval() == own == pytest.approx(microseconds / 1e6, abs=1e-12)
    finally:
        sys.setswitchinterval(before + 1e-7)
