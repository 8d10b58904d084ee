"""Artifacts for a device: what they need, and that they run where the compiler and its libraries are not."""

import copy
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import onnxc
from onnxc.runtime.artifact import write_artifact
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.gpu import driver
from onnxc.runtime.gpu.executable import DeviceExecutable
from onnxc.runtime.gpu.load import this_driver
from onnxc.runtime.load import load, make_executable
from tests.runtime.gpu.foreign import WithInterface
from tests.runtime.gpu.programs import AFFINE, affine, artifact, executable, fake_driver
from tests.runtime.programs import AFFINE as AFFINE_ON_CPU
from tests.runtime.programs import artifact as cpu_artifact
from tests.support.arrays import assert_same
from tests.support.fake_driver import FakeDriver

ROOT = Path(__file__).parents[3]
X = np.array([1.0, -2.0, 0.5], np.float32)


def test_an_artifact_is_saved_and_loaded_with_its_kernels(fake: FakeDriver, tmp_path: Path) -> None:
    executable(fake, AFFINE).save(tmp_path / "m.onnxc")
    exe = load(tmp_path / "m.onnxc", driver=fake.driver)
    assert isinstance(exe, DeviceExecutable)
    assert exe.device == "CUDA device 0 (Fake H200, sm_90)"
    assert_same(exe(X), affine(X))


def test_without_a_driver_nothing_runs_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LIBRARIES", ("libno-such-driver.so.1",))
    this_driver.cache_clear()
    with pytest.raises(DeviceError, match=r"compiled for sm_90: .*libno-such-driver") as refused:
        make_executable(artifact(AFFINE))
    assert refused.value.code == "no-cuda-driver"
    assert str(refused.value).count("error[") == 1


def test_an_artifact_for_another_architecture_is_refused() -> None:
    fake = fake_driver(capability=(8, 0))
    with pytest.raises(DeviceError, match=r"code for sm_90, and .* is sm_80") as refused:
        executable(fake, AFFINE)
    assert refused.value.code == "wrong-architecture"
    assert fake.memory.live == 0
    fake.check()


def test_weights_that_do_not_fit_are_told(fake: FakeDriver) -> None:
    fake.memory.limit_bytes = 1000
    with pytest.raises(DeviceError, match="the weights of the model needs 4064 bytes") as refused:
        executable(fake, AFFINE, np.zeros(1000, np.float32))
    assert refused.value.code == "out-of-device-memory"
    fake.memory.limit_bytes = 1 << 30
    assert_same(executable(fake, AFFINE)(X), affine(X))


def test_a_device_of_another_number(fake: FakeDriver) -> None:
    two = fake_driver(devices=2)
    exe = make_executable(artifact(AFFINE), device=1, driver=two.driver)
    assert_same(exe(X), affine(X))
    two.check()
    with pytest.raises(DeviceError, match="device 1 is needed, and this process sees 1"):
        make_executable(artifact(AFFINE), device=1, driver=fake.driver)


def test_a_damaged_cubin_is_told(fake: FakeDriver) -> None:
    whole = artifact(AFFINE)
    kernels = (replace(whole.device.kernels[0], cubin=b"\x7fELF"), *whole.device.kernels[1:])
    with pytest.raises(DeviceError, match=r"kernel multiply .* compile the model again") as refused:
        make_executable(replace(whole, device=replace(whole.device, kernels=kernels)), driver=fake.driver)
    assert refused.value.code == "kernel-image"


def test_a_stream_is_for_models_on_a_device() -> None:
    with pytest.raises(InputError, match="compiled for the CPU") as refused:
        make_executable(cpu_artifact(AFFINE_ON_CPU)).run({"x": X}, stream=0)
    assert refused.value.code == "stream-without-device"


SERVING = """
import sys


class Nothing:
    def find_spec(self, name, *_):
        if name.split(".")[0] in {"triton", "torch", "llvmlite", "cupy", "google", "onnx"} or "compiler" in name:
            raise ImportError(f"{name} is not to be imported")


sys.meta_path.insert(0, Nothing())
import numpy as np
from onnxc.runtime.load import load, read_artifact
from tests.support.fake_driver import FakeDriver

path = sys.argv[1]
fake = FakeDriver(read_artifact(path).device)


def execute(launched):
    *addresses, n = launched.values
    x, w, y = (fake.view(a, "f", s) for a, s in zip(addresses, ((n,), (2,), (n,)), strict=True))
    y[:] = x * w[0] if launched.kernel.name == "multiply" else x + w[1]


fake.execute = execute
exe = load(path, driver=fake.driver)
for _ in range(3):
    y = exe(np.array([1, 2, 3], np.float32))
fake.check()
print(y.tolist(), [launched.kernel.name for launched in fake.launches])
assert "onnxc.runtime.host" not in sys.modules
"""


def test_an_artifact_runs_where_the_compiler_and_triton_cannot_be_imported(tmp_path: Path) -> None:
    path = tmp_path / "m.onnxc"
    write_artifact(artifact(AFFINE), path)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SERVING, path], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.strip() == f"[3.5, 6.5, 9.5] {['multiply', 'add'] * 3}"


def test_a_program_for_the_cpu_loads_nothing_of_the_gpu(tmp_path: Path) -> None:
    path = tmp_path / "m.onnxc"
    write_artifact(cpu_artifact(AFFINE_ON_CPU), path)
    code = (
        "import sys; from onnxc.runtime.load import load; load(sys.argv[1])([1.0]);"
        "assert not [name for name in sys.modules if name.startswith('onnxc.runtime.gpu')]"
    )
    done = subprocess.run([sys.executable, "-c", code, path], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_the_front_door_loads_onto_a_device(fake: FakeDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_artifact(artifact(AFFINE), tmp_path / "m.onnxc")
    monkeypatch.setattr("onnxc.runtime.gpu.load.this_driver", lambda: fake.driver)
    exe = onnxc.load(tmp_path / "m.onnxc", device=0, graphs=False)
    for _ in range(3):
        assert_same(exe(X), affine(X))
    assert "cuGraphLaunch" not in fake.calls
    assert isinstance(exe(WithInterface(fake, X)), onnxc.DeviceArray)
    with pytest.raises(AttributeError, match="no attribute 'DeviceArrays'"):
        _ = onnxc.DeviceArrays


def test_what_is_on_a_device_is_pickled_and_copied(
    fake: FakeDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onnxc.runtime.gpu.load.this_driver", lambda: fake.driver)
    saved = executable(fake, AFFINE)
    saved.save(tmp_path / "m.onnxc")
    for exe in (executable(fake, AFFINE), saved):
        for again in (pickle.loads(pickle.dumps(exe)), copy.deepcopy(exe)):
            assert isinstance(again, DeviceExecutable)
            assert_same(again(X), affine(X))


def test_where_there_is_no_device_what_was_pickled_says_so(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.dumps(executable(fake, AFFINE))
    monkeypatch.setattr(driver, "LIBRARIES", ("libno-such-driver.so.1",))
    this_driver.cache_clear()
    with pytest.raises(DeviceError, match="compiled for sm_90") as refused:
        pickle.loads(data)
    assert refused.value.code == "no-cuda-driver"
