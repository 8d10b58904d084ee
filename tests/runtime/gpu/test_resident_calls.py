"""Calls with inputs that are arrays of ours: those that are read as they are, and what is left to the longer way."""

from collections.abc import Callable

import numpy as np
import pytest

from onnxc.runtime.dtypes import DTYPES, DType
from onnxc.runtime.errors import InputError
from onnxc.runtime.gpu import executable as executable_module
from onnxc.runtime.gpu.arrays import DeviceArray
from onnxc.runtime.gpu.device import Device
from onnxc.runtime.gpu.exchange import import_tensor, readable_arrays
from onnxc.runtime.gpu.executable import DeviceExecutable
from onnxc.runtime.gpu.memory import MemoryPool
from onnxc.runtime.gpu.workspaces import Call
from onnxc.runtime.native import launch as launch_module
from onnxc.runtime.program import Check, Host
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
TWO_INPUTS = program(
    body(4, [0, 1], [2, 3], [step("affine", [0], [2]), step("affine", [1], [3])], checks=[Check(1, 0, "s[0]")]),
    [vector("a"), vector("b")],
    [vector("y"), vector("z")],
)
BESIDE_THE_HOST = program(
    body(5, [0, 1], [2, 4], [step("affine", [0], [2]), step("affine", [1], [3]), Host("neg", (3,), (4,), {})]),
    [vector("a"), vector("b")],
    [vector("y"), vector("z")],
)
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


@pytest.mark.parametrize(("content", "last"), [(TWO_INPUTS, affine), (BESIDE_THE_HOST, lambda x: -affine(x))])
def test_an_array_of_ours_beside_one_of_the_host_is_read_where_it_is(
    fake: FakeDriver, device: Device, monkeypatch: pytest.MonkeyPatch, content: object, last: Callable[..., object]
) -> None:
    imported: list[object] = []

    def watched(value: object, dtype: DType, what: str, expected: str, call: Call) -> np.ndarray | DeviceArray:
        imported.append(value)
        return import_tensor(value, dtype, what, expected, call)

    monkeypatch.setattr(executable_module, "import_tensor", watched)
    run, ours = executable(fake, content), resident(fake, 2 * X, device)
    for k in range(3):
        x = X + np.float32(k)
        y, z = run(x, ours)
        assert isinstance(y, DeviceArray)
        assert_same(y.numpy(), affine(x))
        assert_same(z.numpy(), last(2 * X))
        assert imported[k] is x
    assert len(imported) == 3
    assert fake.copied_bytes["DtoD"] == 0


@pytest.mark.parametrize("wrong", [np.zeros(3, np.int32), np.zeros((3, 1), np.float32), np.zeros((), np.float32)])
def test_an_array_of_ours_that_does_not_fit_is_refused_beside_others_too(
    fake: FakeDriver, device: Device, wrong: np.ndarray
) -> None:
    run, ours = executable(fake, TWO_INPUTS), resident(fake, X, device)
    for inputs in ((X, wrong), (ours, wrong), (wrong, ours), (wrong, X)):
        given = [resident(fake, x, device) if x is wrong else x for x in inputs]
        with pytest.raises(InputError, match=rf'"{"ab"[[x is wrong for x in inputs].index(True)]}" is') as refused:
            run(*given)
        assert refused.value.code in ("input-dtype", "input-rank")
    assert fake.launches == []


def test_sizes_of_arrays_of_ours_are_checked_beside_others_too(fake: FakeDriver, device: Device) -> None:
    run, longer = executable(fake, TWO_INPUTS), resident(fake, np.zeros(4, np.float32), device)
    for inputs in ((X, longer), (longer, X), (resident(fake, X, device), longer)):
        with pytest.raises(InputError, match="axis 0 of input"):
            run(*inputs)
    assert fake.launches == []


def test_only_arrays_that_a_call_can_read_as_they_are_are_readable(fake: FakeDriver, device: Device) -> None:
    f32, f64 = DTYPES["f32"], DTYPES["f64"]
    run = executable(fake, AFFINE)
    assert isinstance(run, DeviceExecutable)
    good, scalar = resident(fake, X, device), resident(fake, np.zeros((), np.float64), device)
    cases = [
        (good, (f32, 1), True), (good, (f32, 2), False), (good, (f64, 1), False), (scalar, (f64, 0), True),
        # What is no tensor has no element type, which NumPy takes for that of doubles.
        (scalar, (None, 0), False), (resident(fake, X, device, offset=4), (f32, 1), False),
        (DeviceArray(device, 0, (0,), f32, None), (f32, 1), False), (X, (f32, 1), False), (None, (f32, 1), False),
    ]  # fmt: skip
    with run._device_engine.call() as call:
        found = readable_arrays([value for value, _, _ in cases], [expected for _, expected, _ in cases], call)
    assert [array is not None for array in found] == [fits for _, _, fits in cases]
    assert all(array is None or array is value for array, (value, _, _) in zip(found, cases, strict=True))


def test_memory_for_all_outputs_of_a_call_is_taken_at_once(
    fake: FakeDriver, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    take_all = MemoryPool.take_all
    monkeypatch.setattr(
        MemoryPool,
        "take_all",
        lambda pool, sizes, purpose: (taken.append(len(sizes)), take_all(pool, sizes, purpose))[1],
    )
    y, z = executable(fake, TWO_INPUTS)(X, resident(fake, X, device))
    assert taken == [2]
    assert y.address != z.address
    assert_same(y.numpy(), z.numpy())


def test_a_call_on_a_device_looks_for_no_memory_of_the_host(
    fake: FakeDriver, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(launch_module, "array_maker", asked.append)
    for content in (AFFINE, IN_TWO_LAUNCHES):
        run = executable(fake, content)
        for size in (1, 2, 3):
            run(resident(fake, np.zeros(size, np.float32), device))
    assert asked == []
