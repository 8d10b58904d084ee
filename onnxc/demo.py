"""The demonstration: compiles the shipped digit classifier, classifies images it has never seen, and says how fast.

The images are the held-out quarter of the handwritten digits of scikit-learn; examples/train_digits.py made the model.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

import onnxc
from onnxc.runtime.records import record

DATA = files("onnxc") / "data"
CALLS = 200
SHOWN = 4
SHADES = " ░▒▓█"
ASCII_SHADES = " .+#@"


@record
class Demonstration:
    """What one run of the demonstration gave."""

    images: np.ndarray
    labels: np.ndarray
    probabilities: np.ndarray
    model_bytes: int
    artifact_bytes: int
    compile_s: float
    load_s: float
    one_image_s: float
    all_images_s: float

    @property
    def answers(self) -> np.ndarray:
        answers: np.ndarray = self.probabilities.argmax(axis=1)
        return answers

    @property
    def correct(self) -> int:
        return int((self.answers == self.labels).sum())


def run_demonstration(target: str = "cpu", threads: int | None = None) -> Demonstration:
    """Compile, save, load, classify, and time each of these."""
    with as_file(DATA / "digits.npz") as path, np.load(path) as held_out:
        images, labels = held_out["images"], held_out["labels"]
    with as_file(DATA / "digits.onnx") as model, tempfile.TemporaryDirectory() as scratch:
        artifact = Path(scratch) / "digits.onnxc"
        started = time.perf_counter()
        onnxc.compile(model, target=target, threads=threads).save(artifact)
        compiled = time.perf_counter()
        executable = onnxc.load(artifact, threads=threads)
        loaded = time.perf_counter()
        probabilities = executable.run({"pixels": images})["probabilities"]
        assert isinstance(probabilities, np.ndarray), probabilities
        return Demonstration(
            images,
            labels,
            probabilities,
            model.stat().st_size,
            artifact.stat().st_size,
            compiled - started,
            loaded - compiled,
            median_seconds(lambda: executable(images[:1])),
            median_seconds(lambda: executable(images)),
        )


def median_seconds(call: Callable[[], object]) -> float:
    """The median over many calls, after a few that do not count."""
    seconds = []
    for _ in range(CALLS):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[CALLS // 10 :])


def chosen(demo: Demonstration) -> list[int]:
    """The images to draw: right answers, each of another digit, and the first wrong one if there is one."""
    is_right = demo.answers == demo.labels
    firsts = [int(np.flatnonzero(is_right & (demo.labels == digit))[0]) for digit in range(SHOWN)]
    wrong = np.flatnonzero(~is_right)
    return [*firsts[: SHOWN - 1], int(wrong[0])] if wrong.size else firsts


def draw_digits(demo: Demonstration, indices: Sequence[int], shades: str) -> list[str]:
    """Lines of text with the images side by side and the answer below each."""
    rows = ["  ".join(draw_row(demo.images[i, 0, row], shades) for i in indices) for row in range(8)]
    return [*rows, "  ".join(f"{caption(demo, i):16}" for i in indices)]


def draw_row(pixels: np.ndarray, shades: str) -> str:
    """One line, each pixel two characters wide, for characters are twice as high as wide."""
    return "".join(2 * shades[int(level)] for level in np.rint(pixels / 16 * (len(shades) - 1)))


def caption(demo: Demonstration, index: int) -> str:
    answer, label = demo.answers[index], demo.labels[index]
    sure = f"{answer} ({demo.probabilities[index, answer]:.0%})"
    return sure if answer == label else f"{sure}, is {label}"


def report_lines(demo: Demonstration) -> list[str]:
    """The figures, one a line."""
    total = len(demo.labels)
    sizes = f"{demo.model_bytes / 1e3:.0f} kB of ONNX into {demo.artifact_bytes / 1e3:.0f} kB"
    batch_us = demo.all_images_s * 1e6 / total
    return [
        f"compiled     {sizes} in {demo.compile_s:.2f} s",
        f"loaded       in {demo.load_s * 1e3:.1f} ms",
        f"accuracy     {demo.correct / total:.2%}: {demo.correct} of {total} images that it has never seen",
        f"latency      {demo.one_image_s * 1e6:.1f} µs for one image, {batch_us:.2f} µs each for {total} at once",
    ]
