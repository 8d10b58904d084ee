"""The examples run, and print what they promise."""

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("call_a_model.py", ["pixels: f32[batch, 1, 8, 8]", "read: [", "true: ["]),
        ("symbolic_sizes.py", ["batch 0: [0 0 0]", "compiled 1 time, called 4 times", "size-out-of-range", "1001"]),
        ("save_and_load.py", ["same answer: True", "compilations here: 1, there: 0"]),
        (
            "c_library/call_with_ctypes.py",
            ["libdigits.so", "1 error[input-shape]: axis 3", "the same bits as in Python: True"],
        ),
        ("scikit_learn_classifier.py", ["accuracy: 0.9", "the same after pickling: True"]),
        ("custom_operator.py", ["clipped: [[-3.    -0.965  0.     0.965  3.   ]]", "without the operator: True"]),
        ("check_a_model.py", ["error[", '"embed"', '"activate"', '"normalise"']),
    ],
)
def test_example_prints(name: str, printed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    out = capsys.readouterr().out
    assert [text for text in printed if text not in out] == []


def test_training_writes_the_model_and_its_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["train_digits.py", "--out", str(tmp_path), "--epochs", "8"])
    runpy.run_path(str(EXAMPLES / "train_digits.py"), run_name="__main__")
    # Eight epochs of the forty, from random weights; chance would be 10 %.
    (held_out,) = re.findall(r"([0-9.]+)% of 450 held out", capsys.readouterr().out)
    assert float(held_out) > 93
    onnx.checker.check_model(tmp_path / "digits.onnx", full_check=True)
    with np.load(tmp_path / "digits.npz") as held:
        assert (held["images"].shape, held["images"].dtype) == ((450, 1, 8, 8), np.float32)
        assert (held["labels"].shape, held["labels"].dtype) == ((450,), np.int64)
