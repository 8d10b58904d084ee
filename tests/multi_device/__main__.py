"""Holds an engine against the suite: `python -m tests.multi_device --engine MODULE [--filter TEXT]`."""

import argparse
import importlib
from collections.abc import Sequence

from tests.multi_device.suite import check_all

OURS = {"onnxc": "tests.multi_device.onnxc_engine"}


def main(arguments: Sequence[str] | None = None) -> int:
    """1 where a case fails; each is printed with what is wrong, an exception of the engine too."""
    parser = argparse.ArgumentParser(prog="python -m tests.multi_device", description=__doc__)
    parser.add_argument("--engine", default="onnxc", help="onnxc, or a module with run and check (README.md)")
    parser.add_argument("--filter", default="", help="only cases whose names contain this")
    asked = parser.parse_args(arguments)
    engine = importlib.import_module(OURS.get(asked.engine, asked.engine))
    count, failed = 0, 0
    for name, failures in check_all(engine, asked.filter):
        count, failed = count + 1, failed + bool(failures)
        print(f"{'fails' if failures else 'ok':6}{name}", *(f"      {each.message}" for each in failures), sep="\n")
    print(f"{count - failed} of {count} cases")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    raise SystemExit(main())
