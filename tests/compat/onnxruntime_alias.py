"""Runs a file of ONNX Runtime's own Python tests with onnxc in its place: python -m tests.compat.onnxruntime_alias FILE

Prints a line for each test that does not pass, with what it said, and the counts as a last line of JSON. The folder of
the file is where its `helper` is imported from; the working folder is where it looks for testdata.
"""

import importlib
import json
import sys
import unittest
from pathlib import Path

__all__ = ["run_file"]

OURS = "onnxc.compat.onnxruntime"
MODULES = (
    "", ".backend", ".capi", ".capi._pybind_state", ".capi.onnxruntime_inference_collection",
    ".capi.onnxruntime_pybind11_state",
)  # fmt: skip


def run_file(path: Path) -> dict[str, int]:
    """How many tests of the file pass, fail and are skipped."""
    for name in MODULES:
        sys.modules[f"onnxruntime{name}"] = importlib.import_module(OURS + name)
    sys.path.insert(0, str(path.parent))
    suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(path.stem))
    result = unittest.TestResult()
    suite.run(result)
    problems = [*result.failures, *result.errors]
    for case, trace in problems:
        print(f"{case.id()}: {trace.strip().splitlines()[-1]}")
    # A test may skip and fail in parts, each of which is listed.
    failed = {_whole(case).id() for case, _ in problems}
    skipped = {_whole(case).id() for case, _ in result.skipped} - failed
    counts = {"failed": len(failed), "skipped": len(skipped)}
    return {"passed": result.testsRun - sum(counts.values()), **counts}


def _whole(case: unittest.TestCase) -> unittest.TestCase:
    """The test that a part is of."""
    whole: unittest.TestCase = getattr(case, "test_case", case)
    return whole


if __name__ == "__main__":
    print(json.dumps(run_file(Path(sys.argv[1]))))
