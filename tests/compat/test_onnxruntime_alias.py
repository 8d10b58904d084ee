"""ONNX Runtime's own Python tests run on onnxc, where their sources are here; how they are run is tested always."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = os.environ.get("ONNXRUNTIME_SOURCE", "")

STAND_IN = """
import unittest
import onnxruntime as onnxrt
from helper import expected_device
from onnxruntime.capi import _pybind_state as C
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, RunOptions

class TestStandIn(unittest.TestCase):
    def test_it_is_onnxc(self):
        self.assertIn("onnxc", onnxrt.get_build_info())
        self.assertIs(C.Fail, Fail)
        self.assertEqual(onnxrt.get_device(), expected_device)

    def test_that_fails(self):
        raise ValueError("as it should")

    @unittest.skip("not here")
    def test_that_is_skipped(self): ...

    def test_that_is_skipped_in_parts(self):
        for part in range(3):
            with self.subTest(part=part):
                self.skipTest("not here")
"""


def run(path: Path, folder: Path) -> tuple[dict[str, int], list[str]]:
    command = [sys.executable, "-m", "tests.compat.onnxruntime_alias", str(path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=True)
    *lines, counts = ran.stdout.splitlines()
    return json.loads(counts), lines


def test_tests_that_import_onnxruntime_get_onnxc(tmp_path: Path) -> None:
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    (tmp_path / "helper.py").write_text('expected_device = "CPU"\n')
    counts, lines = run(tmp_path / "stand_in.py", tmp_path)
    assert counts == {"passed": 1, "failed": 1, "skipped": 2}
    assert lines == ["stand_in.TestStandIn.test_that_fails: ValueError: as it should"]


@pytest.mark.slow
@pytest.mark.skipif(not SOURCE, reason="ONNXRUNTIME_SOURCE names no checkout of ONNX Runtime, which is not shipped")
def test_its_own_tests_run() -> None:
    folder = Path(SOURCE) / "onnxruntime" / "test"
    counts, lines = run(folder / "python" / "onnxruntime_test_python.py", folder)
    print(counts, *lines, sep="\n")
    assert counts["passed"] > counts["failed"]
