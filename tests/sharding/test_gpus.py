"""Annotated models on several GPUs: the fake driver and a fake NCCL, in which exchanges run in the order of streams."""

import time
from collections.abc import Callable, Sequence
from ctypes import byref, c_int
from dataclasses import replace
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import onnxc
from onnxc.runtime.cpu import CACHE_LINE_BYTES
from onnxc.runtime.devices.shards import Shards
from onnxc.runtime.errors import DeviceError, InputError, UnsupportedError
from onnxc.runtime.gpu import nccl as gpu_nccl
from onnxc.runtime.gpu import several
from onnxc.runtime.gpu.engine import DeviceEngine
from tests.sharding.annotated import CONFIG, annotate, attention_nodes, graph_model
from tests.sharding.test_devices import (
    FOUR,
    column_then_row,
    exchanges,
    gathered,
    mlp,
    sequence_parallel,
    weight,
    whole,
)
from tests.sharding.test_models import DECODERS, decoder, decoder_feeds
from tests.support.arrays import assert_close
from tests.support.fake_driver import FakeDriver
from tests.support.fake_gpus import FakeRun, compile_for_fakes, divided_artifact, run_on_fakes
from tests.support.fake_nccl import FakeNccl

node = helper.make_node

F32 = 4

# What is copied to a device is rounded to so many bytes.
LINE_BYTES = 256


def scattered() -> ModelProto:
    """The sums of columns are divided along the second axis."""
    model = column_then_row()
    annotate(model.graph.node[3], "y", {1: 4}, FOUR)
    return model


def uneven() -> ModelProto:
    """Blocks of 2 of 7 columns, the last of them short."""
    model = mlp(hidden=7)
    annotate(model.graph.node[0], "w1", {1: 4}, FOUR)
    annotate(model.graph.node[3], "w2", {0: 4}, FOUR)
    return model


def attention() -> ModelProto:
    """Heads are divided: 4 of 4 floats, one for each device."""
    constants = {f"w{name}": weight(16, 16) / 4 for name in "qkvo"}
    constants |= {"split": np.array([0, 0, 4, 4]), "join": np.array([0, 0, 16])}
    model = graph_model(attention_nodes("x", "y"), {"x": [2, 3, 16]}, {"y": [2, 3, 16]}, constants, 4)
    for each in model.graph.node:
        if each.op_type == "MatMul" and each.input[1].startswith("w"):
            annotate(each, each.input[1], {int(each.input[1] != "wo"): 4}, FOUR)
    return model


def experts() -> ModelProto:
    """Groups of tokens are divided, then experts, then groups again."""
    nodes = [
        node("Transpose", ["x"], ["sent"], perm=[1, 0, 2]),
        node("MatMul", ["sent", "up"], ["made"]),
        node("Transpose", ["made"], ["y"], perm=[1, 0, 2]),
    ]
    model = graph_model(nodes, {"x": [4, 4, 8]}, {"y": [4, 4, 8]}, {"up": weight(4, 8, 8)}, 4)
    first, product, last = model.graph.node
    annotate(first, "x", {0: 4}, FOUR)
    annotate(first, "sent", {1: 4}, FOUR)
    annotate(product, "sent", {0: 4}, FOUR)
    annotate(product, "made", {0: 4}, FOUR)
    annotate(last, "made", {1: 4}, FOUR)
    return model


def images() -> ModelProto:
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        node("Relu", ["c"], ["r"]),
        node("GlobalAveragePool", ["r"], ["y"]),
    ]
    model = graph_model(nodes, {"x": [4, 3, 6, 6]}, {"y": [4, 8, 1, 1]}, {"w": weight(8, 3, 3, 3)}, 4)
    annotate(model.graph.node[0], "x", {0: 4}, FOUR)
    return model


REDUCED, SCATTERED, GATHERED, EXCHANGED = "ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "all_to_all"


@pytest.mark.parametrize(
    ("make", "shape", "moved"),
    [
        (column_then_row, (5, 8), [(REDUCED, 5 * 8 * F32)]),
        (scattered, (5, 8), [(SCATTERED, 5 * 8 * F32), (GATHERED, 5 * 2 * F32)]),
        (gathered, (5, 8), [(GATHERED, 5 * 2 * F32)]),
        (sequence_parallel, (8, 8), [(GATHERED, 2 * 8 * F32), (SCATTERED, 8 * 8 * F32), (GATHERED, 2 * 8 * F32)]),
        (uneven, (3, 8), [(REDUCED, 3 * 8 * F32)]),
        (attention, (2, 3, 16), [(REDUCED, 2 * 3 * 16 * F32)]),
        (experts, (4, 4, 8), [(EXCHANGED, 4 * 8 * F32)] * 2 + [(GATHERED, 4 * 8 * F32)]),
        (images, (4, 3, 6, 6), [(GATHERED, 8 * F32)]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_values_are_those_of_one_device_and_exchanges_those_of_theory(
    make: Callable[[], ModelProto], shape: Sequence[int], moved: list[tuple[str, int]]
) -> None:
    """Twice: the second call uses memory of the first again."""
    model = make()
    run, alone = compile_for_fakes(model, CONFIG, devices="cuda:4"), whole(model)
    for _ in range(2):
        x = weight(*shape)
        actual = np.asarray(run.executable(x))
        run.driver.check()
        assert_close(actual, np.asarray(alone(x)), terms=64, magnitude=8.0)
    assert run.nccl.moved == moved * 2


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("kind", DECODERS)
def test_a_decoder_exchanges_on_gpus_what_it_does_in_threads(kind: str, devices: int) -> None:
    model, feeds = decoder(kind, devices), decoder_feeds(kind)
    run = compile_for_fakes(model, CONFIG, devices=f"cuda:{devices}")
    made, expected = run.executable.run(feeds), whole(model).run(feeds)
    run.driver.check()
    for name in expected:
        assert_close(np.asarray(made[name]), np.asarray(expected[name]), terms=256, magnitude=16.0)
    ours = {"all_reduce": REDUCED, "all_gather": GATHERED}
    of_threads = exchanges(onnxc.compile(model, config=CONFIG))
    assert sorted(run.nccl.moved) == sorted((ours[str(name)], count) for name, count in of_threads)


def test_calls_of_nccl_wait_for_those_of_the_driver() -> None:
    """What one thread enqueues on all streams, another does not run the first of before the last is there."""
    run = compile_for_fakes(column_then_row(), CONFIG)
    asking = Thread(target=run.nccl.nccl.call, args=("to ask", "ncclGetVersion", byref(c_int())), daemon=True)
    with run.driver.lock:
        asking.start()
        asking.join(0.05)
        assert asking.is_alive()
    asking.join(10)
    assert not asking.is_alive()


def test_no_value_that_is_exchanged_goes_through_the_host() -> None:
    run = compile_for_fakes(column_then_row(), CONFIG)
    run.executable(weight(5, 8))
    before = run.driver.copied_bytes["DtoH"]
    run.executable(weight(5, 8))
    assert run.driver.copied_bytes["DtoH"] - before == 5 * 8 * F32


def test_each_device_holds_its_shares_alone() -> None:
    artifact = divided_artifact(column_then_row(), CONFIG)
    assert artifact.division is not None
    # 8 x 4, 4 and 4 x 8 of 8 x 16, 16 and 16 x 8 floats; each share begins a line of the cache.
    held = 8 * 4 * F32 + CACHE_LINE_BYTES + 4 * 8 * F32
    assert [share.nbytes for share in artifact.division.shares] == [held] * 4


def test_results_are_left_as_the_shards_of_each_device() -> None:
    model, x = scattered(), weight(5, 8)
    run = compile_for_fakes(model, CONFIG, outputs="local")
    before = run.driver.copied_bytes["DtoH"]
    made = run.executable(x)
    assert isinstance(made, Shards)
    assert [shard.index[1] for shard in made.shards] == [slice(k, k + 2) for k in range(0, 8, 2)]
    assert_close(made.whole(), np.asarray(whole(model)(x)), terms=64, magnitude=8.0)
    assert run.driver.copied_bytes["DtoH"] - before == 5 * 8 * F32


def counter() -> ModelProto:
    """A state whose rows are divided, which each call adds to."""
    model = graph_model([node("Add", ["s", "x"], ["t"])], {"s": ["N", 6], "x": [6]}, {"t": ["N", 6]}, {}, 4)
    annotate(model.graph.node[0], "t", {0: 4}, FOUR)
    return model


def copied_in_second_call(run: FakeRun, rows: int) -> dict[str, int]:
    """The bytes that a call copies whose state a call before it made."""
    first, added = weight(rows, 6), weight(6)
    state = run.executable(first, added)
    before = dict(run.driver.copied_bytes)
    state = run.executable(state, added)
    copied = {way: run.driver.copied_bytes[way] - before[way] for way in before}
    assert isinstance(state, Shards)
    np.testing.assert_array_equal(state.whole(), first + added + added, strict=True)
    return copied


def test_each_device_is_given_its_block_of_an_input() -> None:
    """Blocks of 32 and of 256 rows, which are whole lines of 256 bytes; what else is copied does not depend on them."""
    run, copied = compile_for_fakes(counter(), CONFIG, outputs="local"), []
    for rows in (125, 1021):
        before = run.driver.copied_bytes["HtoD"]
        run.executable(weight(rows, 6), weight(6))
        copied.append(run.driver.copied_bytes["HtoD"] - before)
    assert copied[1] - copied[0] == 4 * (256 - 32) * 6 * F32
    run.driver.check()


def test_a_state_that_stays_divided_stays_on_the_devices() -> None:
    """Only the other input goes to each of them, in one line; a block that is cut short goes through the host."""
    run = compile_for_fakes(counter(), CONFIG, outputs="local")
    for rows in (128, 1024):
        assert copied_in_second_call(run, rows) == {"HtoD": 4 * LINE_BYTES, "DtoH": 0, "DtoD": 0}
    short = copied_in_second_call(run, 125)
    assert (short["HtoD"] - 4 * LINE_BYTES, short["DtoH"]) == (32 * 6 * F32, 32 * 6 * F32)
    run.driver.check()


def test_shards_on_devices_are_read_wherever_shards_are() -> None:
    """On processors, by an input that is divided in another way, and by devices in another order."""
    x, added = weight(8, 6), weight(6)
    run = compile_for_fakes(counter(), CONFIG, outputs="local")
    state = run.executable(x, added)
    assert isinstance(state, Shards)
    on_cpu = onnxc.compile(counter(), config=CONFIG, outputs="local")(state, added)
    np.testing.assert_array_equal(np.asarray(on_cpu), x + added + added)
    columns = graph_model([node("Neg", ["s"], ["t"])], {"s": ["N", 6]}, {"t": ["N", 6]}, {}, 4)
    annotate(columns.graph.node[0], "s", {1: 4}, FOUR)
    turned = compile_for_fakes(columns, CONFIG, outputs="local")
    np.testing.assert_array_equal(np.asarray(turned.executable(state)), -(x + added))
    first, *others = state.shards
    moved = replace(state, shards=(replace(first, data=others[-1].data), *others))
    np.testing.assert_array_equal(np.asarray(run.executable(moved, added))[:2], (x + added)[6:] + added)
    turned.driver.check()
    run.driver.check()


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> FakeRun:
    """What this machine's driver and NCCL are replaced by."""
    run = run_on_fakes(divided_artifact(column_then_row(), CONFIG))
    driver, nccl = run.driver.driver, run.nccl.nccl
    monkeypatch.setattr(several, "this_driver", lambda: driver)
    monkeypatch.setattr(several, "this_nccl", lambda: nccl)
    return run


def test_a_saved_program_is_run_again(fakes: FakeRun, tmp_path: Path) -> None:
    fakes.executable.save(tmp_path / "m.onnxc")
    x = weight(5, 8)
    for devices in ("cuda:4", None):
        again = onnxc.load(tmp_path / "m.onnxc", devices=devices)
        np.testing.assert_array_equal(np.asarray(again(x)), np.asarray(fakes.executable(x)))
    for devices, code in (("cuda:2", "device-count-differs"), ("cpu:4", "device-kind-differs")):
        with pytest.raises(InputError) as refused:
            onnxc.load(tmp_path / "m.onnxc", devices=devices)
        assert refused.value.code == code


# What goes wrong


def expect_ended(run: FakeRun, code: str, text: str) -> None:
    """A call fails so, and all communicators have ended."""
    ended, x = run.nccl.aborted, weight(5, 8)
    with pytest.raises(DeviceError, match=text) as failed:
        run.executable(x)
    assert failed.value.code == code
    assert run.nccl.aborted == ended + 4


def test_an_error_of_nccl_in_a_call_ends_it_on_all_devices() -> None:
    run = run_on_fakes(divided_artifact(column_then_row(), CONFIG))
    x = weight(5, 8)
    expected = np.asarray(run.executable(x))
    for function in ("ncclAllReduce", "ncclGroupEnd"):
        run.nccl.fail(function, 2)
        expect_ended(run, "nccl-error", rf"{function} failed to enqueue all_reduce: ncclSystemError")
        run.nccl._grouped = None
        np.testing.assert_array_equal(np.asarray(run.executable(x)), expected)
    run.nccl.fail("ncclCommInitAll", 1)
    run.nccl.fail("ncclAllReduce", 6)
    expect_ended(run, "nccl-error", "ncclRemoteError")
    with pytest.raises(DeviceError, match="to connect the CUDA devices 0, 1, 2, 3"):
        run.executable(x)
    np.testing.assert_array_equal(np.asarray(run.executable(x)), expected)


def test_exchanges_that_never_end_end_by_what_nccl_says_or_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNXC_COMM_TIMEOUT", "0.3")
    run = run_on_fakes(divided_artifact(column_then_row(), CONFIG))
    run.driver.stalled = True
    expect_ended(run, "device-stalled", r"the work of device \d did not end within 0.3 s")
    run.nccl.async_error = 6
    expect_ended(run, "nccl-error", r"ncclRemoteError \(6\)")
    run.driver.stalled, run.nccl.async_error = False, 0
    assert np.asarray(run.executable(weight(5, 8))).shape == (5, 8)


def test_a_device_that_does_not_come_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNXC_COMM_TIMEOUT", "0.3")
    run = run_on_fakes(divided_artifact(column_then_row(), CONFIG))
    run.executable(weight(5, 8))
    original = DeviceEngine.run_in

    def late(self: DeviceEngine, *arguments: object) -> object:
        if self.device.properties.ordinal == 2:
            time.sleep(0.6)
        return original(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(DeviceEngine, "run_in", late)
    expect_ended(run, "device-stalled", "device 2 did not come to all_reduce within 0.3 s")


def test_a_machine_without_nccl_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_nccl, "LIBRARIES", ("libonnxc_has_none.so",))
    with pytest.raises(DeviceError, match=r"there is no such library .* install libnccl2") as missing:
        gpu_nccl.load_nccl()
    assert missing.value.code == "nccl-missing"


@pytest.mark.parametrize(
    ("given", "text"),
    [({"version": 20800}, "says version 20800"), ({"without": ("ncclSend",)}, "has no ncclSend")],
)
def test_a_library_that_is_too_old_is_refused(given: dict[str, object], text: str) -> None:
    with pytest.raises(DeviceError, match=text) as old:
        FakeNccl(FakeDriver(), **given).nccl  # type: ignore[arg-type]  # noqa: B018
    assert old.value.code == "nccl-too-old"


def summed(dtype: int) -> ModelProto:
    model = graph_model([node("Einsum", ["x"], ["y"], equation="ij->j")], {}, {}, {}, 4)
    model.graph.input.append(helper.make_tensor_value_info("x", dtype, [8, 4]))
    model.graph.output.append(helper.make_tensor_value_info("y", dtype, [4]))
    annotate(model.graph.node[0], "x", {0: 4}, FOUR)
    return model


def test_types_are_combined_that_nccl_knows() -> None:
    run = compile_for_fakes(summed(TensorProto.INT32), CONFIG)
    x = np.arange(32, dtype=np.int32).reshape(8, 4)
    np.testing.assert_array_equal(np.asarray(run.executable(x)), x.sum(0))
    with pytest.raises(UnsupportedError, match="all_reduce combines i16 by sum") as refused:
        compile_for_fakes(summed(TensorProto.INT16), CONFIG)
    assert refused.value.code == "nccl-type"
    assert gpu_nccl.reduction("bool", "and") == (1, 3)


def test_devices_are_of_the_kind_of_the_target() -> None:
    with pytest.raises(InputError, match="the code is for cpu:N") as refused:
        onnxc.compile(mlp(), config=CONFIG, devices="cuda:4")
    assert refused.value.code == "device-kind-differs"
