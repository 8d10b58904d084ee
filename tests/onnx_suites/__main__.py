"""The command: runs onnx's own tests with our functions, and writes tests/onnx_suites/results.md.

    python -m tests.onnx_suites --source onnx/tests/python

The folder holds the tests as the repository of onnx has them; it is not part of ours.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import onnx

from tests.onnx_suites.reports import Verdict, page, verdicts
from tests.onnx_suites.suites import SUITES

RESULTS = Path(__file__).with_name("results.md")
ROOT = Path(__file__).resolve().parents[2]


def outcomes(name: str, folder: Path, *, is_ours: bool) -> Mapping[str, Mapping[str, str]]:
    """The outcome of each test of a suite, with our functions or with onnx's."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "outcomes.json"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.onnx_suites.plugin", "-p", "no:cacheprovider"]
        command += ["-c", os.devnull, f"--rootdir={folder}", "--outcomes", str(path)]
        command += ["--suite", name] if is_ours else []
        files = [str(folder / file) for file in SUITES[name].files if (folder / file).exists()]
        paths = os.pathsep.join((str(ROOT), str(folder)))
        subprocess.run(
            [*command, *files], env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.DEVNULL, check=False
        )
        found: dict[str, dict[str, str]] = json.loads(path.read_text())
        return found


def run_suite(name: str, folder: Path) -> tuple[Verdict, ...]:
    """The verdicts on the tests of a suite."""
    return verdicts(name, outcomes(name, folder, is_ours=True), outcomes(name, folder, is_ours=False))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.onnx_suites", description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True, metavar="DIR", help="the folder of onnx's tests")
    parser.add_argument("--suite", choices=SUITES, help="only this one, and only print")
    parser.add_argument("--details", action="store_true", help="print what each disagreement says")
    options = parser.parse_args()
    names = [options.suite] if options.suite else [*SUITES]
    found = [verdict for name in names for verdict in run_suite(name, options.source.resolve())]
    text = page(found, onnx.__version__)
    if not options.suite:
        RESULTS.write_text(text)
    unexplained = [verdict for verdict in found if verdict.status == "disagrees" and not verdict.reason]
    for verdict in found if options.details else unexplained:
        if verdict.status == "disagrees":
            print(f"{verdict.case}: {verdict.detail}\n")
    print(text)
    return bool(unexplained)


if __name__ == "__main__":
    sys.exit(main())
