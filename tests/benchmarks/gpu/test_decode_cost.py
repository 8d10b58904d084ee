"""The cost of a step of a decoder on the host: what a driver that does nothing is asked for. No times are looked at."""

import sys
from pathlib import Path

import pytest

from benchmarks.gpu.decode_cost import decode_cost, main
from tests.decoding.models import summing
from tests.support.models import model_from_text


def test_growing_steps_are_one_capture_and_replays() -> None:
    cost = decode_cost(model_from_text(summing()).SerializeToString(), steps=64, rounds=2)
    assert (cost.captures, cost.replays, cost.launched_alone) == (1, 63, 1)
    assert cost.step_us > 0


def test_the_cost_of_a_file_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sums.onnx"
    path.write_bytes(model_from_text(summing()).SerializeToString())
    monkeypatch.setattr(sys, "argv", ["decode_cost", str(path), "--steps", "4"])
    assert main() == 0
    assert capsys.readouterr().out.endswith(" us a step; 1 captures, 3 replays, 1 without a graph\n")
