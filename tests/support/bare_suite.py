"""Runs the suite for GPUs from a pack on a fake device, in a process that has no triton, onnx or torch.

`python -m tests.support.bare_suite PACK OUT` writes the results; kernels are not run.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

ABSENT = ("triton", "torch", "cupy", "onnx", "onnxruntime")


class Refusal(MetaPathFinder):
    """Makes importing these packages an error."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] in ABSENT:
            raise ImportError(f"{name} is not for this process")
        return None


def main(path: str, out: str) -> None:
    sys.meta_path.insert(0, Refusal())
    from benchmarks.gpu.bench import Row  # noqa: PLC0415
    from benchmarks.gpu.pack_file import Pack  # noqa: PLC0415
    from benchmarks.gpu.suite import SECTIONS, bench_of, run_suite  # noqa: PLC0415
    from tests.support.fake_driver import FakeDriver  # noqa: PLC0415

    pack = Pack(Path(path))
    fake = FakeDriver(memory_bytes=8 << 30)
    of_models = [pack.artifact(model).device for model in pack.index.models]
    fake.kernels = (*pack.all_kernels(), *(kernel for code in of_models if code for kernel in code.kernels))

    def run(name: str, _: Path, seconds: float) -> list[Row]:
        bench = bench_of(fake.driver, pack, seconds)
        bench.rounds = 2
        return [*SECTIONS[name][0](bench)]

    run_suite(tuple(SECTIONS), Path(path), Path(out), run)
    fake.check()
    assert not [name for name in ABSENT if name in sys.modules]


if __name__ == "__main__":
    main(*sys.argv[1:])
