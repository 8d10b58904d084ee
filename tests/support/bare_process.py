"""Loads an artifact and calls it on a fake device, in a process that has no triton, torch or cupy.

`python -m tests.support.bare_process ARTIFACT FEED.npz` prints the launches as JSON; kernels are not run.
"""

import json
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np

ABSENT = ("triton", "torch", "cupy", "llvmlite", "onnx", "google", "onnxc.compiler")


class Refusal(MetaPathFinder):
    """Makes importing these packages an error."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] in ABSENT or name in ABSENT:
            raise ImportError(f"{name} is not for this process")
        return None


def main(artifact: str, feed: str) -> None:
    sys.meta_path.insert(0, Refusal())
    from onnxc.runtime.load import make_executable, read_artifact  # noqa: PLC0415
    from tests.support.fake_driver import FakeDriver  # noqa: PLC0415

    found = read_artifact(artifact)
    driver = FakeDriver(found.device, memory_bytes=4 << 30)
    executable = make_executable(found, driver=driver.driver)
    with np.load(feed) as arrays:
        executable.run(dict(arrays))
    driver.streams.run_all()
    assert not [name for name in ABSENT if name in sys.modules]
    launches = [
        [
            launched.number, list(launched.grid), list(launched.block), launched.shared_bytes,
            [v for type, v in zip(launched.kernel.parameters, launched.values, strict=True) if type[0] != "*"],
            list(launched.trailing), len(launched.attributes),
        ]
        for launched in driver.launches
    ]  # fmt: skip
    print(json.dumps({"launches": launches, "problems": driver.problems + driver.memory.all_damage()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
