"""Arrays on the device go in and come out without a copy: the array interface, DLPack, streams, arrays for outputs."""

import gc
import sys

import numpy as np
import pytest

from onnxc.runtime.errors import InputError
from onnxc.runtime.gpu import dlpack
from onnxc.runtime.gpu.arrays import DeviceArray
from onnxc.runtime.load import make_executable
from onnxc.runtime.program import Binding, Constant, Host, Parameter, Symbol, TensorSpec
from tests.runtime.gpu.foreign import EXCHANGED, Consumer, WithDLPack, WithInterface, sample, take_capsule
from tests.runtime.gpu.programs import AFFINE, PICK, affine, executable, fake_driver, step
from tests.runtime.programs import AFFINE as AFFINE_ON_CPU
from tests.runtime.programs import artifact as cpu_artifact
from tests.runtime.programs import body, program, vector
from tests.support.arrays import assert_same
from tests.support.fake_driver import FakeDriver

X = np.array([1.0, -2.0, 0.5], np.float32)
NEGATED = program(body(3, [0], [2], [step("affine", [0], [1]), Host("neg", (1,), (2,), {})]))
BOTH = program(body(3, [0], [1, 2], [step("both", [0], [1, 2])]), outputs=[vector("y"), vector("z")])


def identity(name: str, rank: int) -> "program":
    """A program that gives its input back, of any element type."""
    shape = tuple(f"D{axis}" for axis in range(rank))
    of = Parameter("x", name, shape, f"{name}[{', '.join(shape)}]")
    content = body(1, [0], [0], [], bindings=[Binding(0, axis, axis) for axis in range(rank)])
    symbols = [Symbol(size, 0, None) for size in (*shape, "K")]
    return program(content, [of], [Parameter("y", name, shape, of.text)], symbols)


@pytest.mark.parametrize("kind", [WithInterface, WithDLPack])
@pytest.mark.parametrize("size", [0, 1, 3, 1000])
def test_an_array_on_the_device_is_read_where_it_is(fake: FakeDriver, kind: type, size: int) -> None:
    x = np.linspace(-1, 1, size, dtype=np.float32)
    given = kind(fake, x)
    exe = executable(fake, AFFINE)
    before = fake.copied_bytes.copy()
    y = exe(given)
    assert isinstance(y, DeviceArray)
    assert fake.copied_bytes == before
    assert not size or fake.launches[0].values[0] == given.address
    assert (y.shape, y.dtype, y.ndim, y.size, y.nbytes) == ((size,), np.float32, 1, size, 4 * size)
    assert_same(y.numpy(), affine(x))


def test_an_output_is_an_input_again(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    y = exe(exe(WithInterface(fake, X)))
    assert_same(y.numpy(), affine(affine(X)))
    assert fake.copied_bytes["DtoD"] == 0


def test_an_output_keeps_its_memory_when_more_are_made(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    outputs = [exe(WithInterface(fake, X + k)) for k in range(5)]
    assert len({y.address for y in outputs}) == 5
    for k, y in enumerate(outputs):
        assert_same(y.numpy(), affine(X + np.float32(k)))


def test_memory_of_an_output_that_is_gone_is_used_again(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    given = WithInterface(fake, X)
    first = exe(given).address
    held = fake.memory.device_bytes
    assert exe(given).address == first
    assert fake.memory.device_bytes == held


@pytest.mark.parametrize("content", [BOTH, NEGATED], ids=["a launch", "a host step"])
def test_all_outputs_are_on_the_device_where_one_input_is(fake: FakeDriver, content: object) -> None:
    outputs = executable(fake, content).run({"x": WithInterface(fake, X)})
    assert all(isinstance(y, DeviceArray) for y in outputs.values())
    assert_same(outputs["y"].numpy(), X + X if content is BOTH else -affine(X))


def test_inputs_may_lie_on_both_sides(fake: FakeDriver) -> None:
    add = Host("add", (1, 2), (3,), {})
    content = program(body(4, [0, 1], [3], [step("affine", [0], [2]), add]), [vector("x"), vector("z")])
    exe = executable(fake, content)
    for x, z in ((X, WithInterface(fake, X)), (WithInterface(fake, X), X)):
        y = exe(x, z)
        assert isinstance(y, DeviceArray)
        assert_same(y.numpy(), X + affine(X))
    assert isinstance(exe(X, X), np.ndarray)


@pytest.mark.parametrize("results", [[0], [1], [2, 2], [2, 0, 2]])
def test_outputs_on_the_device_share_memory_with_nothing(fake: FakeDriver, results: list[int]) -> None:
    content = body(3, [0], results, [step("affine", [0], [2])], constants=[Constant(1, 0, TensorSpec("f32", ("2",)))])
    exe = executable(fake, program(content, outputs=[vector(f"y{k}") for k in range(len(results))]))
    given = WithInterface(fake, X)
    found = list(exe.run({"x": given}).values())
    before = [y.numpy() for y in found]
    for y in found:
        fake.view(y.address, np.float32, y.shape)[:] = 77
    assert_same(given.numpy(), X)
    for y, again in zip(before, exe.run({"x": given}).values(), strict=True):
        assert_same(again.numpy(), y)


def test_what_numpy_gives_is_read_anew(fake: FakeDriver) -> None:
    y = executable(fake, NEGATED)(WithInterface(fake, X))
    first = y.numpy()
    fake.view(y.address, np.float32, (3,))[:] = 7
    assert_same(y.numpy(), np.full(3, 7, np.float32))
    assert_same(first, -affine(X))


@pytest.mark.parametrize("offset", [4, 8, 12])
def test_an_array_on_no_boundary_of_16_bytes_is_copied_on_the_device(fake: FakeDriver, offset: int) -> None:
    exe = executable(fake, AFFINE)
    y = exe(WithInterface(fake, X, offset=offset))
    assert_same(y.numpy(), affine(X))
    assert fake.copied_bytes["DtoD"] == X.nbytes


@pytest.mark.parametrize(
    ("shape", "strides", "part"),
    [
        ((3,), (2,), np.s_[:6:2]),
        ((2, 3), (6, 1), np.s_[:, :3]),
        ((3, 4), (1, 6), None),
        ((2, 1, 3), (6, 99, 1), np.s_[:, None, :3]),
        ((1, 1), (7, 9), np.s_[:1, :1]),
        ((), (), np.s_[0, 0]),
        ((2, 2), (0, 1), None),
    ],
)
def test_an_array_with_strides_is_copied_on_the_device(
    fake: FakeDriver, shape: tuple[int, ...], strides: tuple[int, ...], part: object
) -> None:
    block = np.arange(24, dtype=np.float32).reshape(4, 6)
    wanted = np.lib.stride_tricks.as_strided(block, shape, [4 * step for step in strides])
    given = WithInterface(fake, block, shape=shape, strides=strides)
    y = executable(fake, identity("f32", len(shape)))(given)
    assert_same(y.numpy(), np.ascontiguousarray(wanted).reshape(shape))


def test_an_array_in_too_many_parts_is_refused(fake: FakeDriver) -> None:
    given = WithInterface(fake, np.zeros(4000, np.float32), shape=(2000,), strides=(2,))
    with pytest.raises(InputError, match="pass a contiguous array") as refused:
        executable(fake, AFFINE)(given)
    assert refused.value.code == "input-layout"


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3)])
@pytest.mark.parametrize("name", EXCHANGED)
def test_dlpack_carries_all_types_of_whole_bytes(fake: FakeDriver, name: str, shape: tuple[int, ...]) -> None:
    x = sample(name, shape)
    y = executable(fake, identity(name, len(shape)))(WithDLPack(fake, x))
    seen = Consumer(y)
    assert (seen.found.dtype, seen.found.shape, seen.found.device) == (x.dtype, shape, 0)
    assert_same(seen.numpy(fake).view(np.uint8) if x.size and x.ndim else y.numpy(), x.view(np.uint8) if x.size and x.ndim else x)  # fmt: skip # noqa: E501
    assert y.__dlpack_device__() == (2, 0)


@pytest.mark.parametrize("name", ["f32", "i64", "bool", "f16", "c64", "u8"])
def test_the_array_interface_of_an_output(fake: FakeDriver, name: str) -> None:
    x = sample(name, (2, 3))
    y = executable(fake, identity(name, 2))(WithDLPack(fake, x))
    told = y.__cuda_array_interface__
    assert told == {"shape": (2, 3), "typestr": x.dtype.str, "data": (y.address, False), "strides": None, "version": 3,
                    "stream": None}  # fmt: skip
    assert_same(fake.view(told["data"][0], told["typestr"], told["shape"]).copy(), x)


def test_a_type_that_the_interface_lacks_leaves_dlpack(fake: FakeDriver) -> None:
    y = executable(fake, identity("bf16", 1))(WithDLPack(fake, sample("bf16", (4,))))
    assert not hasattr(y, "__cuda_array_interface__")
    packed = executable(fake, identity("u4", 1))(np.zeros(3, identity_dtype("u4")))
    assert isinstance(packed, np.ndarray)


def identity_dtype(name: str) -> np.dtype:
    return sample(name, (1,)).dtype


def test_a_capsule_that_nobody_takes_gives_the_array_back(fake: FakeDriver) -> None:
    y = executable(fake, AFFINE)(WithInterface(fake, X))
    count = sys.getrefcount(y)
    capsule = y.__dlpack__()
    assert sys.getrefcount(y) == count + 1
    del capsule
    assert sys.getrefcount(y) == count
    assert dlpack._exported == {}


def test_a_consumer_gives_the_array_back_when_it_likes(fake: FakeDriver) -> None:
    y = executable(fake, AFFINE)(WithInterface(fake, X))
    address, delete = take_capsule(y.__dlpack__(stream=1, max_version=(1, 1)))
    gc.collect()
    place = y.address
    del y
    gc.collect()
    assert_same(fake.view(place, np.float32, (3,)).copy(), affine(X))
    assert len(dlpack._exported) == 1
    delete(address)
    assert dlpack._exported == {}


@pytest.mark.parametrize("options", [{"copy": True}, {"dl_device": (1, 0)}])
def test_what_an_export_cannot_do_is_refused(fake: FakeDriver, options: dict[str, object]) -> None:
    y = executable(fake, AFFINE)(WithInterface(fake, X))
    with pytest.raises(BufferError, match="without a copy"):
        y.__dlpack__(**options)


def wrong_inputs(fake: FakeDriver) -> dict[str, tuple[object, str]]:
    masked, nowhere, odd = (WithInterface(fake, X) for _ in range(3))
    masked.interface["mask"] = masked
    nowhere.interface["data"] = (X.ctypes.data, False)
    del odd.interface["typestr"]
    return {
        "type": (WithInterface(fake, X.astype(np.float64)), "input-dtype"),
        "type of DLPack": (WithDLPack(fake, X.astype(np.int32)), "input-dtype"),
        "rank": (WithInterface(fake, X.reshape(1, 3)), "input-rank"),
        "device": (WithDLPack(fake, X, device=1), "input-device"),
        "mask": (masked, "input-type"),
        "memory of the host": (nowhere, "input-device"),
        "interface": (odd, "input-type"),
    }


@pytest.mark.parametrize("kind", list(wrong_inputs(fake_driver())))
def test_an_array_on_the_device_that_does_not_fit_is_refused(fake: FakeDriver, kind: str) -> None:
    value, code = wrong_inputs(fake)[kind]
    exe = executable(fake, AFFINE)
    with pytest.raises(InputError, match='input "x"') as refused:
        exe(value)
    assert refused.value.code == code
    assert_same(exe(X), affine(X))


def test_sizes_of_arrays_on_the_device_are_checked(fake: FakeDriver) -> None:
    add = Host("add", (0, 1), (2,), {})
    content = body(3, [0, 1], [2], [add], bindings=[Binding(0, 0, 0), Binding(1, 0, 1)])
    bounded = [Symbol("N", 0, 4), Symbol("K", 0, None)]
    exe = executable(fake, program(content, [vector("x"), vector("z", "K")], symbols=bounded))
    with pytest.raises(InputError, match="is 5, expected N from 0 to 4"):
        exe(WithInterface(fake, np.zeros(5, np.float32)), WithInterface(fake, X))


# Arrays for outputs.


@pytest.mark.parametrize("kind", [WithInterface, WithDLPack])
@pytest.mark.parametrize("x_on_device", [False, True])
def test_an_output_is_written_where_it_is_wanted(fake: FakeDriver, kind: type, x_on_device: bool) -> None:
    exe = executable(fake, BOTH)
    given = kind(fake, np.zeros(3, np.float32))
    outputs = exe.run({"x": WithInterface(fake, X) if x_on_device else X}, out={"z": given})
    assert isinstance(outputs["y"], DeviceArray) == x_on_device
    assert outputs["z"].address == given.address
    assert_same(fake.view(given.address, np.float32, (3,)).copy(), X * X)
    assert fake.copied_bytes["DtoD"] == 0


def test_an_output_of_ours_is_an_array_to_write_into(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    first = exe(WithInterface(fake, X))
    again = exe.run({"x": WithInterface(fake, 2 * X)}, out={"y": first})["y"]
    assert again is first
    assert_same(first.numpy(), affine(2 * X))


def test_an_output_may_be_written_over_its_input(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    given = WithInterface(fake, X)
    exe.run({"x": given}, out={"y": given})
    assert_same(given.numpy(), affine(X))
    assert fake.copied_bytes["DtoD"] == X.nbytes


def test_two_outputs_into_one_array_do_not_disturb_each_other(fake: FakeDriver) -> None:
    given = WithInterface(fake, X)
    exe = executable(fake, BOTH)
    exe.run({"x": X}, out={"y": given, "z": given})
    assert_same(given.numpy(), X * X)


def test_an_output_on_the_host_of_an_input_on_the_device(fake: FakeDriver) -> None:
    y = np.empty(3, np.float32)
    outputs = executable(fake, BOTH).run({"x": WithInterface(fake, X)}, out={"y": y})
    assert outputs["y"] is y
    assert_same(y, X + X)
    assert_same(outputs["z"].numpy(), X * X)


def test_an_output_of_a_host_step_is_copied_to_the_device(fake: FakeDriver) -> None:
    given = WithInterface(fake, np.zeros(3, np.float32))
    executable(fake, NEGATED).run({"x": X}, out={"y": given})
    assert_same(given.numpy(), -affine(X))


@pytest.mark.parametrize(
    ("options", "code"),
    [({"read_only": True}, "output-layout"), ({"offset": 4}, "output-layout"), ({"shape": (1,)}, "output-shape"),
     ({"shape": (2,), "strides": (2,)}, "output-layout")],
)  # fmt: skip
def test_an_array_that_cannot_be_written_to_is_refused(fake: FakeDriver, options: dict[str, object], code: str) -> None:
    exe = executable(fake, AFFINE)
    with pytest.raises(InputError) as refused:
        exe.run({"x": X}, out={"y": WithInterface(fake, np.zeros(3, np.float32), **options)})
    assert refused.value.code == code
    assert_same(exe(X), affine(X))


# Streams.


def test_a_call_on_a_stream_is_not_waited_for(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    stream = fake.streams.create()
    y = exe.run({"x": WithInterface(fake, X)}, stream=stream)["y"]
    assert fake.launches[-1].stream == stream
    assert np.isnan(fake.view(y.address, np.float32, (3,))).all()
    assert y.__cuda_array_interface__["stream"] == stream
    assert_same(y.numpy(), affine(X))


def test_the_default_stream_has_the_number_1_for_others(fake: FakeDriver) -> None:
    given = WithDLPack(fake, X)
    y = executable(fake, AFFINE).run({"x": given}, stream=0)["y"]
    assert given.streams == [1]
    assert y.__cuda_array_interface__["stream"] == 1
    assert_same(y.numpy(), affine(X))


def test_calls_on_one_stream_follow_each_other(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    stream = fake.streams.create()
    y, expected = WithInterface(fake, X), X
    for _ in range(6):
        y, expected = exe.run({"x": y}, stream=stream)["y"], affine(expected)
    assert_same(y.numpy(), expected)


@pytest.mark.parametrize("content", [AFFINE, NEGATED], ids=["a launch", "with host steps"])
def test_calls_on_several_streams_share_a_workspace_in_order(fake: FakeDriver, content: object) -> None:
    exe = executable(fake, content)
    streams = [fake.streams.create() for _ in range(3)]
    made = []
    for k in range(9):
        x = np.full(200 - k, k, np.float32)
        stream = None if k == 5 else streams[k % 3]
        made.append((x, exe.run({"x": WithInterface(fake, x)}, stream=stream)["y"]))
    for x, y in reversed(made):
        assert_same(y.numpy(), affine(x) if content is AFFINE else -affine(x))


def test_an_array_that_is_not_there_yet_is_waited_for_by_a_call_on_another_stream(fake: FakeDriver) -> None:
    exe, other = executable(fake, AFFINE), executable(fake, BOTH)
    first, second = fake.streams.create(), fake.streams.create()
    y = exe.run({"x": WithInterface(fake, X)}, stream=first)["y"]
    z = other.run({"x": y}, stream=second)["z"]
    assert_same(z.numpy(), affine(X) * affine(X))
    y = exe.run({"x": WithInterface(fake, X)}, stream=first)["y"]
    assert_same(other(y)[0].numpy(), 2 * affine(X))


@pytest.mark.parametrize("own_stream", [False, True])
def test_the_stream_of_an_array_interface_is_waited_for(fake: FakeDriver, own_stream: bool) -> None:
    exe = executable(fake, AFFINE)
    theirs = fake.streams.create()
    given = WithInterface(fake, np.zeros(3, np.float32), stream=theirs)
    fake.streams.find(theirs).enqueue(lambda: fake.view(given.address, np.float32, (3,)).__setitem__(slice(None), X))
    stream = fake.streams.create() if own_stream else None
    assert_same(exe.run({"x": given}, stream=stream)["y"].numpy(), affine(X))


def test_work_on_the_default_stream_is_waited_for_where_no_stream_is_named(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    given = WithInterface(fake, np.zeros(3, np.float32))
    fake.streams.find(0).enqueue(lambda: fake.view(given.address, np.float32, (3,)).__setitem__(slice(None), X))
    assert_same(exe(given).numpy(), affine(X))


def test_dlpack_is_asked_for_the_stream_of_the_call(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    given, stream = WithDLPack(fake, X), fake.streams.create()
    exe.run({"x": given}, stream=stream)
    assert given.streams == [stream]
    exe(given)
    assert given.streams[1] == fake.launches[-1].stream


def test_a_consumers_stream_waits_for_the_array(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    ours, theirs = fake.streams.create(), fake.streams.create()
    y = exe.run({"x": WithInterface(fake, X)}, stream=ours)["y"]
    seen = Consumer(y, stream=theirs)
    found = []
    fake.streams.find(theirs).enqueue(lambda: found.append(seen.numpy(fake)))
    fake.streams.find(theirs).run()
    assert_same(found[0], affine(X))


def test_outputs_on_the_host_are_complete_on_a_stream_too(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    stream = fake.streams.create()
    for k in range(4):
        y = exe.run({"x": X + np.float32(k)}, stream=stream)["y"]
        assert isinstance(y, np.ndarray)
        assert_same(y, affine(X + np.float32(k)))


def test_staging_memory_is_not_overwritten_while_a_call_reads_it(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    stream = fake.streams.create()
    arrays = [WithInterface(fake, np.zeros(3, np.float32)) for _ in range(4)]
    for k, given in enumerate(arrays):
        exe.run({"x": X + np.float32(k)}, out={"y": given}, stream=stream)
    fake.streams.run_all()
    for k, given in enumerate(arrays):
        assert_same(given.numpy(), affine(X + np.float32(k)))


def test_illegal_data_of_a_call_on_a_stream_is_told_when_its_output_is_read(fake: FakeDriver) -> None:
    exe = executable(fake, PICK)
    stream = fake.streams.create()
    y = exe.run({"x": WithInterface(fake, np.array([1, 200, 3], np.float32))}, stream=stream)["y"]
    # A later call takes the status block over.
    assert_same(exe(X), X)
    for _ in range(1):
        with pytest.raises(InputError, match="index 200"):
            y.wait()
    y.wait()
    with pytest.raises(InputError, match="index 300"):
        exe.run({"x": WithInterface(fake, np.array([300], np.float32))}, stream=stream)["y"].numpy()
    assert_same(exe.run({"x": WithInterface(fake, X)}, stream=stream)["y"].numpy(), X)


def test_an_arena_that_grows_waits_for_the_call_before(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    stream = fake.streams.create()
    small, large = X, np.arange(5000, dtype=np.float32)
    made = [(x, exe.run({"x": WithInterface(fake, x)}, stream=stream)["y"]) for x in (small, small, large, small)]
    for x, y in made:
        assert_same(y.numpy(), affine(x))


@pytest.mark.parametrize("stream", [-1, "0", True, 1.0])
def test_a_stream_is_the_number_of_its_handle(fake: FakeDriver, stream: object) -> None:
    with pytest.raises(InputError, match="expected the handle") as refused:
        executable(fake, AFFINE).run({"x": X}, stream=stream)
    assert refused.value.code == "stream-type"


def test_out_is_a_mapping(fake: FakeDriver) -> None:
    with pytest.raises(InputError, match="expected a mapping") as refused:
        executable(fake, AFFINE).run({"x": X}, out=[X])
    assert refused.value.code == "output-mapping"


def test_numpy_does_not_take_an_array_of_the_device_for_an_object(fake: FakeDriver) -> None:
    y = executable(fake, AFFINE)(WithInterface(fake, X))
    with pytest.raises(TypeError, match=r"f32\[3\] on the device: numpy\(\) copies it"):
        np.asarray(y)
    assert repr(y) == "<DeviceArray f32[3] on the device 0>"


def test_an_array_of_the_device_is_no_input_on_the_cpu(fake: FakeDriver) -> None:
    y = executable(fake, AFFINE)(WithInterface(fake, X))
    with pytest.raises(InputError, match='input "x" is f32') as refused:
        make_executable(cpu_artifact(AFFINE_ON_CPU))(y)
    assert refused.value.code == "input-device"


@pytest.mark.parametrize("keep", ["nothing", "the output", "the executable"])
def test_what_a_call_uses_is_given_back_only_when_it_is_over(fake: FakeDriver, keep: str) -> None:
    exe = executable(fake, AFFINE)
    given = WithInterface(fake, X)
    for _ in range(3):
        y = exe.run({"x": given}, stream=0)["y"]
    if keep != "the executable":
        del exe
    if keep != "the output":
        del y
    fake.streams.run_all()
    fake.check()
    if keep == "the output":
        assert_same(y.numpy(), affine(X))
        del y
    if keep == "nothing":
        # Not even a collection of garbage is needed; what remains is the other library's.
        assert fake.memory.live == 1
