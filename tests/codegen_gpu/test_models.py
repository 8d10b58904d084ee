"""Whole models compiled for a GPU and run on a fake one: each is compiled once and called at several sizes.

The oracle is the same model compiled for the CPU; low precisions are held against what the
interpreter loses at the same precision.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

import onnxc
from benchmarks.inputs import InputSpec, make_inputs
from onnxc.compiler.codegen_gpu.transfers import find_transfers
from onnxc.compiler.ir.dim_symbols import evaluate, symbols_of
from onnxc.runtime.device_code import DeviceKernel
from onnxc.runtime.program import Launch
from tests.models.builders import Built, decoder, encoder, llama, mlp, mobile, resnet
from tests.support.fake_driver import Launched
from tests.support.fake_gpu import FakeRun, compile_for_fake
from tests.support.models import model_from_text

ROOT = Path(__file__).parents[2]

HEADER = '<ir_version: 10, opset_import: ["" : 21]>'

QUANTISED = (
    HEADER
    + """
quantised (float[batch, 6] x, uint8[6, 5] w) => (float[batch, 5] y) {
  scale = Constant <value_float = 0.05> ()
  zero = Constant <value = uint8 {128}> ()
  q = QuantizeLinear (x, scale, zero)
  sums = MatMulInteger (q, w, zero, zero)
  wide = Cast <to = 1> (sums)
  small = Mul (wide, scale)
  r = QuantizeLinear (small, scale, zero)
  y = DequantizeLinear (r, scale, zero)
}
"""
)

LONG_LINES = (
    HEADER
    + """
long (float[batch, words] x, int64[updates, 1] rows, float[updates, words] u) => (
    float[batch, five] best, int64[batch, five] where, float[batch, words] sums, float[batch, words] added) {
  k = Constant <value_ints = [5]> ()
  axis = Constant <value = int64 {1}> ()
  best, where = TopK <axis = 1> (x, k)
  sums = CumSum (x, axis)
  added = ScatterND <reduction = "add"> (x, rows, u)
}
"""
)

HOST_IN_THE_MIDDLE = (
    HEADER
    + """
middle (float[length] x) => (float[found] y, float[length] z) {
  a = Mul (x, x)
  half = Constant <value_float = 0.5> ()
  large = Greater (a, half)
  places = NonZero (large)
  flat_shape = Constant <value_ints = [-1]> ()
  flat = Reshape (places, flat_shape)
  picked = Gather (a, flat)
  text = Cast <to = 8> (picked)
  back = Cast <to = 1> (text)
  y = Sqrt (back)
  z = Exp (x)
}
"""
)

LOOP = (
    HEADER
    + """
loop (int64 trips, float[batch, 3] x) => (float[batch, 3] y, float[n, batch, 3] all) {
  keep = Constant <value = bool {1}> ()
  y, all = Loop (trips, keep, x) <
    body = b (int64 i, bool c, float[batch, 3] v) => (bool d, float[batch, 3] w, float[batch, 3] s) {
    d = Identity (c)
    w = Sin (v)
    s = Add (w, v)
  }>
}
"""
)


def drawn(built: Built, *names: str) -> list[Mapping[str, np.ndarray]]:
    """Inputs at the named sizes of a model."""
    return [make_inputs(built.inputs, built.sizes[name], seed) for seed, name in enumerate(names)]


def built_case(
    build: Callable[[str], Built], style: str, *sizes: str
) -> tuple[ModelProto, Sequence[Mapping[str, np.ndarray]]]:
    made = build(style)
    return made.model, drawn(made, *sizes)


def quantised() -> tuple[ModelProto, Sequence[Mapping[str, np.ndarray]]]:
    specs = (InputSpec("x", "float32", ("batch", 6), "normal", 0), InputSpec("w", "uint8", (6, 5), "integers", 256))
    return model_from_text(QUANTISED), [make_inputs(specs, {"batch": size}, size) for size in (1, 4, 17)]


def middle() -> tuple[ModelProto, Sequence[Mapping[str, np.ndarray]]]:
    spec = (InputSpec("x", "float32", ("length",), "normal", 0),)
    feeds = [make_inputs(spec, {"length": size}, size) for size in (1, 7, 40)]
    return model_from_text(HOST_IN_THE_MIDDLE), [*feeds, {"x": np.zeros(3, np.float32)}, {"x": np.zeros(0, np.float32)}]


def long_lines() -> tuple[ModelProto, Sequence[Mapping[str, np.ndarray]]]:
    feeds = []
    for batch, words, updates in ((1, 8300, 3), (3, 9, 70)):
        draw = np.random.default_rng(words)
        x, u = (draw.normal(size=(count, words)).astype(np.float32) for count in (batch, updates))
        feeds.append({"x": x, "rows": draw.integers(0, batch, (updates, 1)), "u": u})
    return model_from_text(LONG_LINES), feeds


def loop() -> tuple[ModelProto, Sequence[Mapping[str, np.ndarray]]]:
    spec = (InputSpec("x", "float32", ("batch", 3), "normal", 0),)
    feeds = [
        {"trips": np.array(trips, np.int64), **make_inputs(spec, {"batch": batch}, batch)}
        for trips, batch in ((0, 2), (1, 1), (4, 5))
    ]
    return model_from_text(LOOP), feeds


CASES: Mapping[str, Callable[[], tuple[ModelProto, Sequence[Mapping[str, np.ndarray]]]]] = {
    "mlp": lambda: built_case(mlp, "dynamo", "one", "prime", "large"),
    "resnet": lambda: built_case(resnet, "dynamo", "one", "prime"),
    "mobile": lambda: built_case(mobile, "legacy", "one", "prime"),
    "encoder": lambda: built_case(encoder, "dynamo", "one", "prime"),
    "decoder": lambda: built_case(decoder, "dynamo", "one", "empty", "prime"),
    "llama": lambda: built_case(llama, "dynamo", "one", "prime"),
    "quantised": quantised,
    "long_lines": long_lines,
    "middle": middle,
    "loop": loop,
}


def worst_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference, as a part of the largest magnitude."""
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    if found.size == 0:
        return 0.0
    wide, expected = found.astype(np.float64), wanted.astype(np.float64)
    return float(np.abs(wide - expected).max() / max(np.abs(expected).max(), 1e-6))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_one_compilation_serves_every_size(name: str) -> None:
    model, feeds = CASES[name]()
    source = model.SerializeToString()
    run, oracle = compile_for_fake(source), onnxc.compile(source, threads=1)
    for feed in feeds:
        found, wanted = run.executable.run(feed), oracle.run(feed)
        assert found.keys() == wanted.keys()
        for output, value in wanted.items():
            assert worst_error(np.asarray(found[output]), np.asarray(value)) <= 1e-5, output
    assert (run.executable.stats.compilations, run.executable.stats.calls) == (1, len(feeds))
    run.driver.check()


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("name", ["mlp", "encoder"])
def test_kernels_of_low_precision_lose_no_more_than_each_op_alone_would(name: str, precision: str) -> None:
    """The error against fp32 is at most half as large again as that of the interpreter, which rounds after every op."""
    model, feeds = CASES[name]()
    source = model.SerializeToString()
    run = compile_for_fake(source, precision=precision)
    rounded, exact = onnxc.compile(source, "interpreter", precision=precision), onnxc.compile(source, threads=1)
    for feed in feeds[:2]:
        found, after_each, wanted = (executable.run(feed) for executable in (run.executable, rounded, exact))
        for output, value in wanted.items():
            allowed = 1.5 * worst_error(np.asarray(after_each[output]), np.asarray(value))
            assert 0 < worst_error(np.asarray(found[output]), np.asarray(value)) <= allowed, output
    pointer = {"fp16": "*fp16", "bf16": "*bf16"}[precision]
    assert any(pointer in kernel.parameters for kernel in kernels(run))
    run.driver.check()


def kernels(run: FakeRun) -> Sequence[DeviceKernel]:
    assert run.artifact.device is not None
    return run.artifact.device.kernels


@pytest.mark.parametrize("name", ["mlp", "encoder", "decoder", "resnet", "mobile", "llama", "quantised"])
def test_models_of_kernels_alone_are_one_launch_of_a_graph(name: str) -> None:
    run = compile_for_fake(CASES[name]()[0].SerializeToString())
    assert [type(step) for step in run.artifact.program.body.steps] == [Launch]
    assert find_transfers(run.plan) == ()


def test_what_is_copied_inside_of_a_call_is_what_the_report_says() -> None:
    """At every size: what is picked and its number come down for a step on the host, and what this makes goes up."""
    model, feeds = middle()
    run = compile_for_fake(model.SerializeToString())
    expected = [transfer for transfer in find_transfers(run.plan) if transfer.is_certain]
    assert {transfer.direction for transfer in expected} == {"download", "upload"}
    for feed in feeds:
        length, found = feed["x"].size, np.count_nonzero(feed["x"] ** 2 > 0.5)
        before = dict(run.driver.copied_bytes)
        result = run.executable.run(feed)
        copied = {way: run.driver.copied_bytes[way] - before[way] for way in before}
        outputs = sum(np.asarray(value).nbytes for value in result.values())
        sizes = {"length": length}

        def total(direction: str, sizes: Mapping[str, int] = sizes, found: int = found) -> int:
            chosen = (transfer.bytes for transfer in expected if transfer.direction == direction)
            return sum(evaluate(size, {**dict.fromkeys(symbols_of(size), found), **sizes}) for size in chosen)

        # The status block is copied before the step on the host and at the end.
        assert copied["DtoH"] == total("download") + outputs + 2 * 64
        assert copied["HtoD"] == total("upload") + feed["x"].nbytes


def test_an_artifact_runs_where_nothing_for_gpus_can_be_imported(tmp_path: Path) -> None:
    """Saved, loaded and called in a process without triton, torch and cupy; the launches are those of this one."""
    made = encoder("dynamo")
    feed = make_inputs(made.inputs, made.sizes["prime"], 1)
    run = compile_for_fake(made.model.SerializeToString())
    run.executable.save(tmp_path / "m.onnxc")
    np.savez(tmp_path / "feed.npz", **feed)
    run.driver.execute = None
    run.executable.run(feed)
    command = [
        sys.executable,
        "-m",
        "tests.support.bare_process",
        str(tmp_path / "m.onnxc"),
        str(tmp_path / "feed.npz"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["problems"] == []
    assert found["launches"] == [launch_json(launched) for launched in run.driver.launches]
    assert len(found["launches"]) == report_launches(run, made.sizes["prime"])


def launch_json(launched: Launched) -> object:
    """What two processes have in common: all but addresses."""
    values = [value for type, value in zip(launched.kernel.parameters, launched.values, strict=True) if type[0] != "*"]
    shape = [list(launched.grid), list(launched.block), launched.shared_bytes]
    return [launched.number, *shape, values, list(launched.trailing), len(launched.attributes)]


def report_launches(run: FakeRun, sizes: Mapping[str, int]) -> int:
    """How many launches the report expects where rows are few or many."""
    report = run.executable.report()
    assert isinstance(report, dict)
    assert all(size > 1 for size in sizes.values())
    return int(report["totals"]["launches"])
