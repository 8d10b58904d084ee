"""Pipeline stages on several GPUs: the fake driver and a fake NCCL; what stages send never goes through the host."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper

import onnxc
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.gpu import several
from tests.sharding.annotated import (
    CONFIG,
    SIZES_OF_BOTH,
    annotate,
    counting_stages,
    graph_model,
    picking_stages,
    set_stage,
)
from tests.sharding.test_devices import told, weight, whole
from tests.sharding.test_stages import exchanges, mlp, node_of, segments, transfers, transformer
from tests.support.arrays import assert_close
from tests.support.fake_gpus import FakeRun, compile_for_fakes

node = helper.make_node

F32 = 4
SENT, REDUCED = "ncclSend", "ncclAllReduce"


def expect_close(run: FakeRun, model: ModelProto, *inputs: np.ndarray) -> None:
    """Twice: the second call uses memory of the first again."""
    expected = np.asarray(whole(model)(*inputs))
    for _ in range(2):
        actual = np.asarray(run.executable(*inputs))
        run.driver.check()
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        assert_close(actual, expected, terms=64, magnitude=2.0**12)


def downloaded(run: FakeRun, *inputs: np.ndarray) -> int:
    """The bytes that a call copies to the host."""
    before = run.driver.copied_bytes["DtoH"]
    run.executable(*inputs)
    return run.driver.copied_bytes["DtoH"] - before


@pytest.mark.parametrize("stages", [2, 4])
def test_each_stage_sends_its_value_on_and_the_last_alone_copies_to_the_host(stages: int) -> None:
    model = mlp(stages, devices=stages)
    run = compile_for_fakes(model, CONFIG, devices=f"cuda:{stages}", microbatches=1)
    expect_close(run, model, weight(5, 64))
    assert run.nccl.moved == [(SENT, 5 * 64 * F32)] * (stages - 1) * 2
    assert downloaded(run, weight(5, 64)) == 5 * 64 * F32
    assert transfers(run.executable) == [(k, k + 1, "256*N") for k in range(stages - 1)]


@pytest.mark.parametrize(("rows", "parts"), [(5, [2, 3]), (4, [2, 2]), (1, [1])])
def test_a_call_goes_through_in_parts(rows: int, parts: list[int]) -> None:
    model = mlp()
    run = compile_for_fakes(model, CONFIG, microbatches=2)
    expect_close(run, model, weight(rows, 64))
    assert run.nccl.moved == [(SENT, part * 64 * F32) for part in parts] * 2
    assert run.executable.stats.launches == 2 * len(parts) * 2
    assert run.executable.stats.calls == 2


def test_nothing_is_sent_where_there_are_no_rows() -> None:
    model = mlp()
    run = compile_for_fakes(model, CONFIG)
    expect_close(run, model, weight(0, 64))
    assert run.nccl.moved == []


def tensor_parallel_stages() -> ModelProto:
    """A block of attention and one of two layers, each of two devices."""
    model = transformer(4)
    stages = {("n", "q", "k", "v", "projected"): 0, ("m", "h", "f"): 1}
    for names, stage in stages.items():
        for name in names:
            set_stage(node_of(model, name), stage)
    for name in "qkv":
        annotate(node_of(model, name), f"w{name}", {1: 2}, (0, 1))
    annotate(node_of(model, "projected"), "wo", {0: 2}, (0, 1))
    annotate(node_of(model, "h"), "w1", {1: 2}, (2, 3))
    annotate(node_of(model, "f"), "w2", {0: 2}, (2, 3))
    return model


@pytest.mark.parametrize(("microbatches", "parts"), [(1, [3]), (3, [1, 1, 1])])
def test_stages_of_several_devices_exchange_inside_and_send_between(microbatches: int, parts: list[int]) -> None:
    """An all_reduce in each stage, and each device sends to its counterpart: in order of devices, not of time."""
    model = tensor_parallel_stages()
    run = compile_for_fakes(model, CONFIG, devices="cuda:4", microbatches=microbatches)
    expect_close(run, model, weight(3, 5, 16))
    of_part = [(name, part * 5 * 16 * F32) for part in parts for name in (REDUCED, REDUCED, SENT, SENT)]
    assert sorted(run.nccl.moved) == sorted(of_part * 2)
    assert downloaded(run, weight(3, 5, 16)) == 3 * 5 * 16 * F32
    assert [len(exchanges(each)) for each in segments(run.executable)] == [1, 1]


def test_what_is_divided_alike_on_both_sides_is_sent_divided() -> None:
    """Each device sends half of the columns."""
    model = mlp(devices=4)
    annotate(model.graph.node[0], "w0", {1: 2}, (0, 1))
    annotate(model.graph.node[2], "w1", {0: 2}, (2, 3))
    run = compile_for_fakes(model, CONFIG, microbatches=1)
    expect_close(run, model, weight(5, 64))
    assert sorted(run.nccl.moved) == sorted([(SENT, 5 * 32 * F32), (SENT, 5 * 32 * F32), (REDUCED, 5 * 64 * F32)] * 2)


def test_stages_may_have_unequal_numbers_of_devices() -> None:
    model = mlp(devices=3)
    annotate(model.graph.node[0], "x0", {}, (1,))
    annotate(model.graph.node[2], "w1", {1: 2}, (0, 2))
    run = compile_for_fakes(model, CONFIG, microbatches=1)
    expect_close(run, model, weight(5, 64))
    sent = [(SENT, 5 * 64 * F32)] * 2 + [("ncclAllGather", 5 * 32 * F32)]
    assert sorted(run.nccl.moved) == sorted(sent * 2)


def test_devices_may_send_each_other_values_in_any_order() -> None:
    """Device 0 sends to the last segment before device 1 sends what the one before that waits for."""
    model = mlp(4)
    for layer, stage in enumerate((0, 1, 0, 1)):
        set_stage(model.graph.node[2 * layer], stage)
    model.graph.node.append(node("Add", ["x4", "x1"], ["y"]))
    set_stage(model.graph.node[-1], 1)
    model.graph.output[0].name = "y"
    run = compile_for_fakes(model, CONFIG, microbatches=3)
    # Values grow with each layer.
    expect_close(run, model, weight(5, 64) / 64)
    assert sorted(transfers(run.executable)) == [(0, 1, "256*N")] * 3 + [(1, 0, "256*N")]
    assert sum(nbytes for _, nbytes in run.nccl.moved) == 2 * 4 * 5 * 64 * F32


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.bool_, np.uint8])
def test_values_of_any_type_are_sent(dtype: type[np.generic]) -> None:
    """A scalar among them."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        node("Where", ["c", "x", "s"], ["a"]),
        node("Where", ["t", "s", "u"], ["b"]),
        node("Where", ["c", "b", "a"], ["y"]),
    ]
    model = graph_model(nodes, {}, {}, {}, 2)
    shapes = {"x": (kind, [3]), "s": (kind, []), "u": (kind, []), "c": (9, [3]), "t": (9, [])}
    model.graph.input.extend(helper.make_tensor_value_info(name, *said) for name, said in shapes.items())
    model.graph.output.append(helper.make_tensor_value_info("y", kind, [3]))
    for each, stage in zip(model.graph.node, (0, 0, 1), strict=True):
        set_stage(each, stage)
    run = compile_for_fakes(model, CONFIG)
    x, s, u = np.array([1, 0, 1]).astype(dtype), np.array(0).astype(dtype), np.array(1).astype(dtype)
    c = np.array([True, False, False])
    made = np.asarray(run.executable(x, s, u, c, np.array(False)))
    np.testing.assert_array_equal(made, np.array([1, 0, 0]).astype(dtype), strict=True)
    run.driver.check()
    assert sorted(run.nccl.moved) == [(SENT, np.dtype(dtype).itemsize), (SENT, 3 * np.dtype(dtype).itemsize)]


def test_texts_go_from_stage_to_stage_on_the_host() -> None:
    nodes = [node("StringConcat", ["x", "x"], ["a"]), node("StringConcat", ["a", "x"], ["y"])]
    model = graph_model(nodes, {}, {}, {}, 2)
    model.graph.input.append(helper.make_tensor_value_info("x", onnx.TensorProto.STRING, [2]))
    model.graph.output.append(helper.make_tensor_value_info("y", onnx.TensorProto.STRING, [2]))
    for stage, each in enumerate(model.graph.node):
        set_stage(each, stage)
    run = compile_for_fakes(model, CONFIG)
    assert np.asarray(run.executable(np.array(["a", "bc"], object))).tolist() == ["aaa", "bcbcbc"]
    assert run.nccl.moved == []


def test_sequences_go_from_stage_to_stage_on_the_host() -> None:
    """Of several tensors, which the first stage makes on its device."""
    nodes = [
        node("Neg", ["x"], ["a"]),
        node("SequenceConstruct", ["a", "x"], ["s"]),
        node("ConcatFromSequence", ["s"], ["c"], axis=0),
        node("Relu", ["c"], ["y"]),
    ]
    model = graph_model(nodes, {"x": ["N", 2]}, {"y": ["M", 2]}, {}, 2)
    for each, stage in zip(model.graph.node, (0, 0, 1, 1), strict=True):
        set_stage(each, stage)
    run = compile_for_fakes(model, CONFIG)
    expect_close(run, model, weight(3, 2))
    assert run.nccl.moved == []


def test_calls_of_several_threads_give_the_same_bits() -> None:
    model = mlp()
    run = compile_for_fakes(model, CONFIG)
    inputs = [weight(rows, 64) for rows in (1, 5, 8)]
    alone = [np.asarray(run.executable(x)) for x in inputs]
    with ThreadPoolExecutor(len(inputs)) as pool:
        at_once = list(pool.map(lambda x: np.asarray(run.executable(x)), inputs))
    run.driver.check()
    for actual, expected in zip(at_once, alone, strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_a_size_that_data_decides_is_read_from_what_is_sent() -> None:
    nodes = [node("NonZero", ["x"], ["i"]), node("Cast", ["i"], ["f"], to=1), node("Neg", ["f"], ["y"])]
    model = graph_model(nodes, {"x": ["N"]}, {"y": [1, "K"]}, {}, 2)
    set_stage(model.graph.node[0], 0)
    set_stage(model.graph.node[2], 1)
    run = compile_for_fakes(model, CONFIG)
    expect_close(run, model, np.array([0, 3, 0, 4, 5], np.float32))


@pytest.mark.parametrize("kind", SIZES_OF_BOTH)
def test_sizes_that_no_axis_of_what_is_sent_has_are_sent_beside_it(kind: str) -> None:
    model = counting_stages(kind)
    x, z = np.array([0, 3, 0, 4, 5], np.float32), np.array([1, 2, 3, 0, 0], np.float32)
    expect_close(compile_for_fakes(model, CONFIG), model, x, z)


def test_a_saved_pipeline_is_run_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = compile_for_fakes(mlp(), CONFIG)
    driver, nccl = run.driver.driver, run.nccl.nccl
    monkeypatch.setattr(several, "this_driver", lambda: driver)
    monkeypatch.setattr(several, "this_nccl", lambda: nccl)
    run.executable.save(tmp_path / "m.onnxc")
    x = weight(5, 64)
    for devices in ("cuda:2", None):
        again = onnxc.load(tmp_path / "m.onnxc", devices=devices)
        np.testing.assert_array_equal(np.asarray(again(x)), np.asarray(run.executable(x)))
    with pytest.raises(InputError) as refused:
        onnxc.load(tmp_path / "m.onnxc", devices="cuda:4")
    assert refused.value.code == "device-count-differs"


# What goes wrong


def test_an_error_in_a_stage_names_its_device_and_ends_the_others() -> None:
    model = picking_stages()
    run = compile_for_fakes(model, CONFIG)
    with pytest.raises(InputError, match=r"index 9 is outside(.|\n)*on device 1"):
        run.executable(weight(3, 4), np.array([0, 9]))
    expect_close(run, model, weight(3, 4), np.array([0, 2]))


@pytest.mark.parametrize("function", ["ncclSend", "ncclRecv"])
def test_an_error_of_nccl_between_stages_is_that_of_the_receiver(function: str) -> None:
    model = mlp()
    run = compile_for_fakes(model, CONFIG)
    run.nccl.fail(function, 2)
    with pytest.raises(
        DeviceError, match=rf"{function} failed to send a value .*ncclSystemError(.|\n)*on device 1"
    ) as failed:
        run.executable(weight(5, 64))
    assert failed.value.code == "nccl-error"
    assert run.nccl.aborted == 2
    expect_close(run, model, weight(5, 64))


def test_a_stage_that_never_ends_is_ended_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNXC_COMM_TIMEOUT", "0.3")
    model = mlp()
    run = compile_for_fakes(model, CONFIG, microbatches=1)
    run.driver.stalled = True
    with pytest.raises(DeviceError, match=r"device \d did not") as failed:
        run.executable(weight(5, 64))
    assert failed.value.code == "device-stalled"
    run.driver.stalled = False
    expect_close(run, model, weight(5, 64))


def test_a_device_holds_the_weights_of_its_stage_alone() -> None:
    run = compile_for_fakes(mlp(), CONFIG)
    assert told(run.executable)["held_bytes"] == [64 * 64 * F32] * 2
    assert run.driver.copied_bytes["HtoD"] == 2 * 64 * 64 * F32
