"""Compiles the model on the standard input in a process of its own: prints "compiled" or a code, and the peak memory.

`python -m tests.support.compile_one`
"""

import sys
from pathlib import Path

import onnxc


def main() -> None:
    try:
        onnxc.compile(sys.stdin.buffer.read())
        outcome = "compiled"
    except onnxc.OnnxcError as problem:
        outcome = problem.code
    print(outcome, peak_bytes())


def peak_bytes() -> int:
    """The most memory that this process has held; getrusage would count that of the parent before exec."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (kibibytes,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return 1024 * int(kibibytes)


if __name__ == "__main__":
    main()
