"""Compiles the model on the standard input in a process of its own: prints "compiled" or a code, and the peak memory.

`python -m tests.support.compile_one`
"""

import resource
import sys

import onnxc


def main() -> None:
    try:
        onnxc.compile(sys.stdin.buffer.read())
        outcome = "compiled"
    except onnxc.OnnxcError as problem:
        outcome = problem.code
    print(outcome, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


if __name__ == "__main__":
    main()
