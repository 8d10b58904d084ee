"""Programs on a device: calls with arrays of NumPy, launches among host steps, branches and loops, errors, threads."""

import gc
import threading
import weakref

import numpy as np
import pytest

from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.executable import Executable
from onnxc.runtime.gpu.arrays import DeviceArray
from onnxc.runtime.program import (
    Binding,
    BindLate,
    BindMost,
    BindSizes,
    Constant,
    Guard,
    If,
    Parameter,
    Release,
    Symbol,
    TensorSpec,
    While,
)  # fmt: skip
from onnxc.runtime.texts import encode_texts
from tests.runtime.gpu.foreign import WithInterface
from tests.runtime.gpu.programs import AFFINE, PICK, affine, executable, fake_driver, step
from tests.runtime.programs import FLAG, SCALAR, SYMBOLS, Program, X, body, host, program, vector
from tests.support.arrays import assert_same
from tests.support.fake_driver import FakeDriver


def one(fake: FakeDriver, content: Program, *inputs: object, weights: np.ndarray | None = None) -> np.ndarray:
    exe = executable(fake, content, weights)
    (result,) = exe.run(dict(zip((info.name for info in content.inputs), inputs, strict=True))).values()
    assert isinstance(result, np.ndarray)
    return result


def problem_of(exe: Executable) -> str:
    """The code of the error that a call raises, or "" if it gives what is right."""
    try:
        y = exe(X)
    except DeviceError as problem:
        return problem.code
    assert_same(y, affine(X))
    return ""


@pytest.mark.parametrize("size", [0, 1, 3, 128, 129, 100_000])
def test_a_call_gives_the_values_of_the_kernels(fake: FakeDriver, size: int) -> None:
    x = np.linspace(-1, 1, size, dtype=np.float32)
    y = executable(fake, AFFINE)(x)
    assert_same(y, affine(x))
    assert y.flags.owndata


def test_nan_and_infinities_pass_through(fake: FakeDriver) -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
    assert_same(executable(fake, AFFINE)(x), affine(x))


def test_launches_have_the_grids_addresses_and_bytes_of_the_segment(fake: FakeDriver) -> None:
    executable(fake, AFFINE)(np.zeros(300, np.float32))
    multiply, add = fake.launches
    assert [(x.kernel.name, x.grid, x.block) for x in fake.launches] == [
        ("multiply", (3, 1, 1), (128, 1, 1)), ("add", (3, 1, 1), (128, 1, 1)),
    ]  # fmt: skip
    assert (multiply.shared_bytes, add.shared_bytes) == (64 << 10, 0)
    assert multiply.values[1] == add.values[1]
    assert multiply.values[2] == add.values[0]
    assert multiply.values[3] == add.values[3] == 300
    assert multiply.trailing == add.trailing == (0, 0)
    assert len(multiply.parameter_bytes) == 3 * 8 + 4 + 16
    assert multiply.stream == add.stream


def test_nothing_is_launched_for_an_empty_grid(fake: FakeDriver) -> None:
    executable(fake, AFFINE)(np.zeros(0, np.float32))
    assert fake.launches == []


def test_weights_are_copied_once_and_a_call_copies_its_arrays_alone(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE, np.zeros(1000, np.float32))
    assert fake.copied_bytes == {"HtoD": 64 + 4000, "DtoH": 0, "DtoD": 0}
    exe(np.zeros(64, np.float32))
    assert fake.copied_bytes == {"HtoD": 64 + 4000 + 256, "DtoH": 256, "DtoD": 0}


def test_shapes_that_change_from_call_to_call(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    for size in (3, 1000, 0, 5, 1000, 100_000, 3, 3, 3):
        x = np.arange(size, dtype=np.float32)
        assert_same(exe(x), affine(x))
    assert exe.stats.calls == exe.stats.launches == 9
    assert exe.stats.arena_bytes == 512 << 10


def test_arrays_that_are_too_large_for_staging(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxc.runtime.gpu.direct.LARGEST_STAGED_BYTES", 100)
    exe = executable(fake, AFFINE)
    for size in (3, 100, 3, 100):
        x = np.arange(size, dtype=np.float32)
        y = np.empty_like(x)
        assert_same(exe(x), affine(x))
        exe.run({"x": x}, out={"y": y})
        assert_same(y, affine(x))


def test_several_outputs_come_in_the_order_of_the_program(fake: FakeDriver) -> None:
    content = program(body(3, [0], [2, 1], [step("both", [0], [1, 2])]), outputs=[vector("squares"), vector("sums")])
    found = executable(fake, content).run({"x": X})
    assert_same(found["squares"], X * X)
    assert_same(found["sums"], X + X)


@pytest.mark.parametrize("layout", ["as it is", "every second", "the input"])
def test_outputs_are_written_into_arrays_of_the_host(fake: FakeDriver, layout: str) -> None:
    x = X.copy()
    y = {"as it is": np.empty(3, np.float32), "every second": np.empty(6, np.float32)[::2], "the input": x}[layout]
    assert executable(fake, AFFINE).run({"x": x}, out={"y": y})["y"] is y
    assert_same(np.ascontiguousarray(y), affine(X))


def test_an_array_of_another_shape_is_refused_as_an_output(fake: FakeDriver) -> None:
    with pytest.raises(InputError, match="the output is f32") as refused:
        executable(fake, AFFINE).run({"x": X}, out={"y": np.empty(4, np.float32)})
    assert refused.value.code == "output-shape"


def test_illegal_data_raises_and_the_next_call_is_fine(fake: FakeDriver) -> None:
    exe = executable(fake, PICK)
    for _ in range(3):
        with pytest.raises(InputError, match=r"index 200 is outside of an axis of size 100\n  --> node 1") as refused:
            exe(np.array([1, 200, 300], np.float32))
        assert refused.value.code == "index-out-of-range"
        assert_same(exe(X), X)


def test_illegal_data_raises_before_a_host_step_reads_what_came_of_it(fake: FakeDriver) -> None:
    content = program(body(3, [0], [2], [step("pick", [0], [1]), host("neg", [1], [2])]))
    exe = executable(fake, content)
    with pytest.raises(InputError, match="index 200"):
        exe(np.array([1, 200, 300], np.float32))
    assert_same(exe(X), -X)


def test_an_array_of_2_to_the_31_elements_is_refused(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [BindSizes(0, (0,)), host("constant", [], [1], value={"array": ["f32", [0], ""]}), step("pick", [1], [2])]
    numbers = Parameter("k", "i64", ("1",), "i64[1]")
    content = program(
        body(3, [0], [2], steps, bindings=[]), [numbers], symbols=[Symbol("?k", 0, None), Symbol("K", 0, None)]
    )
    monkeypatch.setattr(fake.memory, "allocate", lambda nbytes, on_device, make=fake.memory.allocate: make(64, True))
    with pytest.raises(DeviceError, match=r"2\*\*31 elements") as refused:
        one(fake, content, np.array([2**31]))
    assert refused.value.code == "too-many-elements"


@pytest.mark.parametrize("size", [0, 1, 3])
def test_host_steps_and_launches_follow_each_other(fake: FakeDriver, size: int) -> None:
    steps = [host("neg", [0], [1]), step("affine", [1], [2]), host("abs", [2], [3]), step("affine", [3], [4])]
    assert_same(one(fake, program(body(5, [0], [4], steps)), X[:size]), affine(np.abs(affine(-X[:size]))))


def test_a_value_stays_on_the_device_between_launches(fake: FakeDriver) -> None:
    steps = [step("affine", [0], [1]), step("both", [1], [2, 3]), step("affine", [2], [4]), Release((1, 2, 3))]
    assert_same(one(fake, program(body(5, [0], [4], steps)), X), affine(2 * affine(X)))
    # What comes and goes passes through 256 bytes of staging memory.
    assert fake.copied_bytes == {"HtoD": 64 + 256, "DtoH": 256, "DtoD": 0}


def test_a_value_that_several_host_steps_read_is_copied_once(fake: FakeDriver) -> None:
    steps = [step("affine", [0], [1]), host("neg", [1], [2]), host("abs", [1], [3]), host("add", [2, 3], [4])]
    assert_same(one(fake, program(body(5, [0], [4], steps)), X), np.abs(affine(X)) - affine(X))
    assert fake.copied_bytes["DtoH"] == X.nbytes


def test_an_array_that_several_launches_read_is_copied_once(fake: FakeDriver) -> None:
    steps = [host("neg", [0], [1]), step("affine", [1], [2]), step("both", [1], [3, 4]), host("add", [2, 3], [5])]
    assert_same(one(fake, program(body(6, [0], [5], steps)), X), affine(-X) - 2 * X)
    assert fake.copied_bytes["HtoD"] == 64 + X.nbytes


def test_a_launch_reads_a_copy_of_what_a_host_step_gives_as_a_view(fake: FakeDriver) -> None:
    reverse = host("slice", [0], [1], starts=[{"size": "s[0] - 1"}], shape=[{"size": "s[0]"}], steps=[-1])
    content = program(body(4, [0], [2], [reverse, step("both", [1], [2, 3])]))
    assert_same(one(fake, content, X), 2 * X[::-1])


def test_constants_are_read_where_they_are(fake: FakeDriver) -> None:
    weights = np.array([10.0, 20.0, 30.0], np.float32)
    constant = Constant(1, 64, TensorSpec("f32", ("3",)))
    content = program(body(4, [0], [3], [step("affine", [1], [2]), host("add", [1, 2], [3])], constants=[constant]))
    assert_same(one(fake, content, X, weights=weights), weights + affine(weights))
    assert fake.copied_bytes == {"HtoD": 64 + weights.nbytes, "DtoH": X.nbytes, "DtoD": 0}


def test_texts_stay_on_the_host(fake: FakeDriver) -> None:
    texts = np.array(["a", "ü", ""], object)
    content = program(
        body(3, [0], [1], [step("affine", [0], [2])], constants=[Constant(1, 64, TensorSpec("string", ("3",)))])
    )
    assert_same(one(fake, content, X, weights=encode_texts(texts)), texts)


@pytest.mark.parametrize("results", [[0], [1], [2, 2], [2, 0, 2]])
def test_results_are_the_callers_own(fake: FakeDriver, results: list[int]) -> None:
    content = body(3, [0], results, [step("affine", [0], [2])], constants=[Constant(1, 0, TensorSpec("f32", ("2",)))])
    exe = executable(fake, program(content, outputs=[vector(f"y{k}") for k in range(len(results))]))
    x = X.copy()
    found = list(exe.run({"x": x}).values())
    before = [y.copy() for y in found]
    for y in found:
        assert y.flags.owndata
        y += 1
    assert_same(x, X)
    for y, again in zip(before, exe.run({"x": x}).values(), strict=True):
        assert_same(again, y)


def test_defaults_among_the_weights_are_not_copied_in_calls(fake: FakeDriver) -> None:
    weights = np.array([10.0, 20.0, 30.0], np.float32)
    content = program(body(2, [0], [1], [step("affine", [0], [1])]), [vector("x", "3", default=64)])
    exe = executable(fake, content, weights)
    assert_same(exe(), affine(weights))
    assert fake.copied_bytes["HtoD"] == 64 + weights.nbytes
    assert_same(exe(X), affine(X))


def test_a_guard_on_the_sizes_of_inputs(fake: FakeDriver) -> None:
    guard = Guard("s[0]", "3", "equal", "the sizes differ")
    exe = executable(fake, program(body(2, [0], [1], [guard, step("affine", [0], [1])])))
    assert_same(exe(X), affine(X))
    with pytest.raises(InputError, match="the sizes differ"):
        exe(X[:2])
    assert_same(exe(X), affine(X))


def test_data_on_the_device_become_sizes(fake: FakeDriver) -> None:
    steps = [
        step("affine", [0], [1]), host("cast", [1], [2], dtype={"dtype": "i64"}), BindSizes(2, (1,)),
        host("iota", [], [3], shape=[{"size": "s[1]"}], axis=0, dtype={"dtype": "f32"}),
    ]  # fmt: skip
    assert_same(one(fake, program(body(4, [0], [3], steps)), np.ones(1, np.float32)), np.arange(3, dtype=np.float32))


def counted(room: str, shape: str = "s[0]") -> Program:
    """The first `k` elements of an affine vector of 3, launched for all of them where room is small."""
    steps = [
        BindMost(1, 0, "3", room), step("affine", [0], [2]), BindLate((1,), (0,), (2,), (TensorSpec("f32", (shape,)),)),
    ]  # fmt: skip
    inputs = [vector("x", "3"), Parameter("k", "i64", ("1",), "i64[1]")]
    return program(body(3, [0, 1], [2], steps, bindings=[]), inputs)


@pytest.mark.parametrize("room", ["12*s[0]", "1000000000*s[0]"])
@pytest.mark.parametrize("k", [0, 1, 3])
def test_what_was_launched_for_the_most_is_as_large_as_data_says(fake: FakeDriver, k: int, room: str) -> None:
    assert_same(one(fake, counted(room), X, np.array([k])), affine(X)[:k])
    launched = 3 if room == "12*s[0]" else k
    assert [launch.values[-1] for launch in fake.launches] == [launched] * 2 * (launched > 0)


def test_an_array_on_the_device_that_was_launched_for_the_most_is_shorter(fake: FakeDriver) -> None:
    exe, given = executable(fake, counted("0")), WithInterface(fake, X)
    for k in (3, 2, 0):
        found = exe(given, np.array([k]))
        assert isinstance(found, DeviceArray)
        assert (found.shape, found.nbytes) == ((k,), 4 * k)
        assert_same(found.numpy(), affine(X)[:k])


def test_data_that_make_a_size_below_0_are_refused_late(fake: FakeDriver) -> None:
    with pytest.raises(InputError, match="the inputs make a size of -1") as refused:
        one(fake, counted("0", "s[0] - 1"), X, np.array([0]))
    assert refused.value.code == "impossible-size"
    with pytest.raises(InputError, match="N is -1 by the data, expected 0 or more"):
        one(fake, counted("0"), X, np.array([-1]))


@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_that_the_device_decides(fake: FakeDriver, flag: bool) -> None:
    inner = [body(2, [0], [1], [step(entry, [0], [1])]) for entry in ("affine", "pick")]
    steps = [
        step("pick", [0], [1]), host("reduce", [1], [2], kind="max", axes=[0]), host("less", [1, 2], [3]),
        host("reduce", [3], [4], kind="or", axes=[0]), If(4, (1,), (5,), *inner),
    ]  # fmt: skip
    x = np.array([1, 2 if flag else 1], np.float32)
    assert_same(one(fake, program(body(6, [0], [5], steps)), x), affine(x) if flag else x)


def test_a_loop_carries_on_the_device_and_stacks_there(fake: FakeDriver) -> None:
    inner = body(5, [0, 1], [2, 3, 3, 1], [host("equal", [0, 0], [2]), step("affine", [1], [3])],
                 bindings=[Binding(1, 0, 0)])  # fmt: skip
    spec = TensorSpec("f32", ("s[1]", "s[0]"))
    loop = While(1, 2, (0,), (), (3, 4, 5), (spec, spec), inner, 1, ())
    outputs = [vector("y"), *(Parameter(n, "f32", ("K", "N"), "f32[K, N]") for n in ("after", "before"))]
    exe = executable(fake, program(body(6, [0, 1, 2], [3, 4, 5], [loop]), [vector("x"), SCALAR, FLAG], outputs))
    expected = [X]
    for _ in range(4):
        expected.append(affine(expected[-1]))
    copied = fake.copied_bytes.copy()
    y, after, before = exe.run({"x": X, "k": np.array(4), "flag": np.array(True)}).values()
    assert_same(y, expected[-1])
    assert_same(after, np.stack(expected[1:]))
    assert_same(before, np.stack(expected[:-1]))
    moved = {way: fake.copied_bytes[way] - copied[way] for way in copied}
    # The input once, both stacks by element, and the three results.
    assert moved == {"HtoD": X.nbytes, "DtoD": 8 * X.nbytes, "DtoH": 9 * X.nbytes}


def test_a_loop_of_no_iterations(fake: FakeDriver) -> None:
    inner = body(4, [0, 1], [2, 3, 3], [host("equal", [0, 0], [2]), step("affine", [1], [3])],
                 bindings=[Binding(1, 0, 0)])  # fmt: skip
    loop = While(1, 2, (0,), (), (3, 4), (TensorSpec("f32", ("s[1]", "s[0]")),), inner, 1, ())
    outputs = [vector("y"), Parameter("all", "f32", ("K", "N"), "f32[K, N]")]
    exe = executable(fake, program(body(5, [0, 1, 2], [3, 4], [loop]), [vector("x"), SCALAR, FLAG], outputs))
    y, stacked = exe.run({"x": X, "k": np.array(0), "flag": np.array(True)}).values()
    assert_same(y, X)
    assert_same(stacked, np.empty((0, 3), np.float32))


def test_an_arena_that_grows_in_mid_call(fake: FakeDriver) -> None:
    longer = host("concatenate", [1] * 500, [2], Binding(2, 0, 1), axis=0)
    inner = body(2, [0], [1], [step("affine", [0], [1])])
    steps = [step("affine", [0], [1]), longer, If(3, (2,), (4,), inner, inner)]
    content = program(body(5, [0, 3], [4], steps), [vector("x"), FLAG])
    assert_same(one(fake, content, X, np.array(True)), affine(np.tile(affine(X), 500)))


def test_kernels_report_in_memory_of_the_device_and_a_call_copies_it(fake: FakeDriver) -> None:
    exe = executable(fake, PICK)
    for _ in range(3):
        with pytest.raises(InputError, match="index 200"):
            exe(np.array([1, 200], np.float32))
        assert_same(exe(X), X)
    status = {int(launched.values[1]) for launched in fake.launches}
    assert len(status) == 1
    assert all(map(fake.memory.is_on_device, status))
    # Six calls: the status block, and an output that passes through 256 bytes of staging memory.
    assert fake.copied_bytes["DtoH"] == 6 * (64 + 256)


def test_an_arena_grows_by_half_and_then_holds_what_grows_a_little(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    exe(np.zeros(1 << 20, np.float32))
    assert exe.stats.arena_bytes == 4 << 20
    for size in range((1 << 20) + 1, (1 << 20) + 10):
        x = np.full(size, 2.0, np.float32)
        assert_same(exe(x), affine(x))
        assert exe.stats.arena_bytes == 6 << 20


def test_an_arena_is_as_small_as_it_may_be_where_memory_is_short(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    exe(np.zeros(1 << 20, np.float32))
    x = np.full((1 << 20) + 1, 3.0, np.float32)
    given, out = WithInterface(fake, x), WithInterface(fake, np.zeros_like(x))
    # With what the arena of 4 MiB gives back, 5 MiB are free.
    fake.memory.limit_bytes = fake.memory.device_bytes + (1 << 20)
    exe.run({"x": given}, out={"y": out})
    assert exe.stats.arena_bytes == 9 << 19
    assert_same(out.numpy(), affine(x))


def test_an_arena_is_not_freed_while_the_launch_before_uses_it(fake: FakeDriver) -> None:
    inner = body(2, [0], [1], [step("affine", [0], [1])])
    steps = [step("affine", [0], [3]), If(2, (1,), (4,), inner, inner)]
    content = program(
        body(5, [0, 1, 2], [3, 4], steps), [vector("x"), vector("z", "K"), FLAG], [vector("y"), vector("w", "K")]
    )
    z = np.arange(5000, dtype=np.float32)
    y, w = executable(fake, content).run({"x": X, "z": z, "flag": np.array(True)}).values()
    assert_same(y, affine(X))
    assert_same(w, affine(z))


def test_a_program_of_host_steps_alone(fake: FakeDriver) -> None:
    assert_same(one(fake, program(body(2, [0], [1], [host("neg", [0], [1])])), X), -X)


def test_out_of_memory_names_the_sizes_and_the_next_call_is_fine(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    fake.memory.limit_bytes = 1 << 20
    with pytest.raises(DeviceError, match=r"the arena of this call needs 41943040 bytes of device memory; .* free of 1048576") as refused:  # fmt: skip # noqa: E501
        exe(np.zeros(10_000_000, np.float32))
    assert refused.value.code == "out-of-device-memory"
    assert_same(exe(X), affine(X))
    assert_same(exe(X), affine(X))


@pytest.mark.parametrize("function", ["cuMemAlloc_v2", "cuMemHostAlloc", "cuStreamCreate", "cuEventCreate"])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_call_whose_allocations_fail_raises_and_the_next_one_is_fine(function: str, after: int) -> None:
    fake = fake_driver()
    exe = executable(fake, AFFINE)
    # An allocation on the device is tried again when the pools have given up what they keep.
    fake.fail(function, 2, after, times=2 if function == "cuMemAlloc_v2" else 1)
    made = {"cuMemAlloc_v2": 3, "cuMemHostAlloc": 3, "cuStreamCreate": 1, "cuEventCreate": 2}[function]
    assert problem_of(exe) == ("out-of-device-memory" if after < made else "")
    assert_same(exe(X), affine(X))
    fake.check()


@pytest.mark.parametrize("after", [0, 1, 2, 3, 4, 5])
def test_a_launch_that_fails_raises_and_the_next_call_is_fine(fake: FakeDriver, after: int) -> None:
    exe = executable(fake, AFFINE)
    fake.fail("cuLaunchKernelEx", 701, after)
    # The second call is captured, which launches twice; the ones after it are replayed.
    expected = ["launch-resources" if call == after // 2 else "" for call in range(4)]
    if after >= 4:
        expected = [""] * 4
    assert [problem_of(exe) for _ in range(4)] == expected


@pytest.mark.parametrize(
    "function", ["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuStreamBeginCapture_v2",
                 "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuCtxSetCurrent"]
)  # fmt: skip
def test_a_driver_call_that_fails_in_a_call_raises_and_the_next_call_is_fine(function: str) -> None:
    fake = fake_driver()
    exe = executable(fake, AFFINE)
    fake._current.clear()
    fake.fail(function, 999)
    assert sorted(problem_of(exe) for _ in range(4)) == ["", "", "", "device-lost"]
    fake.check()


def test_what_a_failed_call_left_behind_is_not_told_of_the_next_one(fake: FakeDriver) -> None:
    exe = executable(fake, program(body(3, [0], [2], [step("pick", [0], [1]), step("affine", [1], [2])])))
    fake.fail("cuLaunchKernelEx", 701, after=1)
    with pytest.raises(DeviceError):
        exe(np.array([200], np.float32))
    assert_same(exe(X), affine(X))


def test_a_lost_device_is_told_in_every_call(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    exe(X)
    fake.lose()
    for _ in range(2):
        with pytest.raises(DeviceError, match=r"illegal memory access.*restart the process") as refused:
            exe(X)
        assert refused.value.code == "device-lost"


def test_calls_in_threads_have_streams_and_memory_of_their_own(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    barrier, wrong = threading.Barrier(4), []

    def call(seed: int) -> None:
        barrier.wait()
        for size in np.random.default_rng(seed).integers(0, 300, 60):
            x = np.full(size, seed, np.float32)
            if not np.array_equal(exe(x), affine(x)):
                wrong.append((seed, size))

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert exe.stats.calls == 240


def test_another_librarys_context_is_current_again_after_a_call(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    with fake.in_context(0xBEEF):
        assert_same(exe(X), affine(X))


@pytest.mark.parametrize(
    "content", [AFFINE, program(body(3, [0], [2], [step("affine", [0], [1]), host("neg", [1], [2])]))]
)
def test_everything_is_given_back(fake: FakeDriver, content: Program) -> None:
    exe = executable(fake, content)
    for _ in range(3):
        exe(X)
    alive = weakref.ref(exe)
    del exe
    gc.collect()
    assert alive() is None
    assert (fake.memory.live, fake.streams.executables, fake.modules, fake.streams.events) == (0, {}, {}, {})
    # The stream for copies is the device's.
    assert fake.streams.live <= 1


def test_the_symbols_of_the_frame_follow_the_call(fake: FakeDriver) -> None:
    assert [symbol.name for symbol in SYMBOLS] == ["N", "K"]
    exe = executable(fake, AFFINE, graphs=False)
    for size in (2, 3, 2):
        assert_same(exe(X[:size]), affine(X[:size]))
    assert {launched.values[-1] for launched in fake.launches} == {2, 3}
