"""Compiles on one machine and runs on another: the artifact needs neither LLVM nor protobuf nor the model."""

import tempfile
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

import onnxc


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch, as_file(files("onnxc") / "data" / "digits.onnx") as model:
        artifact = Path(scratch) / "digits.onnxc"
        compiled = onnxc.compile(model, target="cpu:x86-64-v3")
        compiled.save(artifact)
        loaded = onnxc.load(artifact, weights="mapped")
        image = np.zeros((1, 1, 8, 8), np.float32)
        print("same answer:", np.array_equal(compiled(image), loaded(image)))
        print(f"compilations here: {compiled.stats.compilations}, there: {loaded.stats.compilations}")


if __name__ == "__main__":
    main()
