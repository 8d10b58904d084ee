"""docs/gpu.md says what is: its examples, which need a GPU, are Python at least, and its codes are those of errors."""

import re
from pathlib import Path

from onnxc.runtime.gpu.driver_errors import _CODES
from onnxc.runtime.gpu.graphs import GRAPHS_KEPT

PAGE = (Path(__file__).parents[3] / "docs" / "gpu.md").read_text()
ELSEWHERE = {"too-many-elements", "device-forked"}


def test_the_examples_are_python() -> None:
    blocks = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        compile(block, "docs/gpu.md", "exec")


def test_the_codes_are_those_of_errors() -> None:
    table = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    codes = set(re.findall(r"`([a-z-]+)`", " ".join(table)))
    assert codes <= set(_CODES) | ELSEWHERE
    assert len(codes) == 10


def test_the_number_of_graphs_is_told() -> None:
    assert f"The {GRAPHS_KEPT} graphs used last are kept" in PAGE
