"""The operators of a domain, imported for its first node."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from onnxc.compiler.frontend.operator import OPERATORS
from tests import operators_not_yet

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from onnxc.compiler.frontend.operator import OPERATORS
from onnxc.compiler.frontend.operators import import_operators

import_operators(sys.argv[1])
print(*sorted({name.split(".")[4] for name in sys.modules if name.startswith("onnxc.compiler.frontend.operators.")}))
for domain, name, since in OPERATORS:
    print(domain, name, since, sep=",")
"""


def _imported(domain: str) -> tuple[Sequence[str], Sequence[str]]:
    """The folders and the operators that a process has which imports those of a domain alone."""
    command = [sys.executable, "-c", PROGRAM, domain]
    folders, *keys = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return folders.split(), [key for key in keys if key.split(",")[0] == domain]


@pytest.mark.parametrize(
    "domain", ["", "com.microsoft", "com.microsoft.nchwc", "ai.onnx.ml", "ai.onnx.preview.training"]
)
def test_a_domain_has_all_its_operators_without_those_of_others(domain: str) -> None:
    operators_not_yet.lowered()
    _, keys = _imported(domain)
    assert sorted(keys) == sorted(f"{domain},{name},{since}" for own, name, since in OPERATORS if own == domain)


def test_the_standards_operators_need_no_others() -> None:
    folders, _ = _imported("")
    assert {"math", "nn", "tensor"} <= set(folders)
    assert not {"microsoft", "ml", "training"} & set(folders)
