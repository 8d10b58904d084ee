"""Calls whose inputs are all outputs of ours: the shorter way, and what it leaves to the longer one."""

import numpy as np
import pytest

from onnxc.runtime.errors import InputError
from onnxc.runtime.gpu.arrays import DeviceArray
from onnxc.runtime.gpu.device import Device
from tests.runtime.gpu.foreign import WithInterface
from tests.runtime.gpu.programs import AFFINE, PICK, affine, executable, fake_driver, step
from tests.runtime.programs import body, program, vector
from tests.support.arrays import assert_same
from tests.support.fake_driver import FakeDriver
from tests.support.fake_gpu import compile_for_fake
from tests.support.models import model_from_text

X = np.array([1.0, -2.0, 0.5], np.float32)
TWICE = program(body(2, [0], [1, 1], [step("affine", [0], [1])]), outputs=[vector("y"), vector("z")])
IN_TWO_LAUNCHES = program(body(3, [0], [2], [step("pick", [0], [1]), step("affine", [1], [2])]))
DRAWS = """
<ir_version: 10, opset_import: ["" : 21]>
draws (float[8] x) => (float[8] y) { r = RandomUniformLike (x) y = Add (x, r) }
"""


def resident(fake: FakeDriver, x: np.ndarray, device: Device, offset: int = 0) -> DeviceArray:
    """An array of ours, as a call would have made it."""
    return DeviceArray(device, fake.place(x, offset), x.shape, x.dtype, None)


@pytest.fixture
def device(fake: FakeDriver) -> Device:
    return Device(fake.driver)


@pytest.mark.parametrize(
    ("x", "code"),
    [(np.zeros(3, np.int32), "input-dtype"), (np.zeros((3, 1), np.float32), "input-rank"),
     (np.zeros((), np.float32), "input-rank")],
)  # fmt: skip
def test_an_array_of_ours_that_does_not_fit_is_refused(
    fake: FakeDriver, device: Device, x: np.ndarray, code: str
) -> None:
    with pytest.raises(InputError) as refused:
        executable(fake, AFFINE)(resident(fake, x, device))
    assert refused.value.code == code
    assert fake.launches == []


def test_an_array_of_ours_on_another_device_is_refused() -> None:
    fake = fake_driver(devices=2)
    with pytest.raises(InputError, match="device 1"):
        executable(fake, AFFINE)(resident(fake, X, Device(fake.driver, 1)))
    assert fake.launches == []


def test_an_array_of_ours_on_no_boundary_of_16_bytes_is_copied(fake: FakeDriver, device: Device) -> None:
    assert_same(executable(fake, AFFINE)(resident(fake, X, device, offset=4)).numpy(), affine(X))
    assert fake.copied_bytes["DtoD"] == X.nbytes


def test_an_array_of_ours_without_elements(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    assert exe(exe(WithInterface(fake, X[:0]))).shape == (0,)
    assert fake.launches == []


def test_an_output_that_is_given_twice_is_two_arrays(fake: FakeDriver, device: Device) -> None:
    y, z = executable(fake, TWICE)(resident(fake, X, device))
    assert y.address != z.address
    assert_same(y.numpy(), affine(X))
    assert_same(z.numpy(), affine(X))


@pytest.mark.parametrize("content", [PICK, IN_TWO_LAUNCHES], ids=["one launch", "two"])
def test_illegal_data_of_an_array_of_ours_is_told_when_the_output_is_read(
    fake: FakeDriver, device: Device, content: object
) -> None:
    given = resident(fake, np.array([1, 200], np.float32), device)
    y = executable(fake, content).run({"x": given}, stream=fake.streams.create())["y"]
    with pytest.raises(InputError, match="index 200"):
        y.wait()


def test_a_model_that_draws_gives_the_same_for_arrays_of_ours() -> None:
    run = compile_for_fake(model_from_text(DRAWS))
    x = np.arange(8, dtype=np.float32)
    given = resident(run.driver, x, Device(run.driver.driver))
    for seed in (None, 1, 2):
        assert_same(
            run.executable.run({"x": given}, seed=seed)["y"].numpy(), run.executable.run({"x": x}, seed=seed)["y"]
        )
    one, two = (run.executable.run({"x": x}, seed=seed)["y"] for seed in (1, 2))
    assert not np.array_equal(one, two)
