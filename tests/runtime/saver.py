"""A process that saves an artifact to one path again and again: `python -m tests.runtime.saver PATH SOURCE COUNT`."""

import sys

from onnxc.runtime.artifact import write_artifact
from onnxc.runtime.load import read_artifact


def main(path: str, source: str, count: int) -> None:
    saved = read_artifact(source)
    for _ in range(count):
        write_artifact(saved, path)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
