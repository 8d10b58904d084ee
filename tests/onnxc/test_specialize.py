"""Sizes with kernels of their own: every size gives what it gave before, and the plan says which call runs what."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

import onnxc
from onnxc.compiler.driver import run_stages
from onnxc.compiler.options import make_options
from onnxc.compiler.planning.check_plan import check_plan
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.runtime.errors import InputError
from onnxc.runtime.executable import Executable
from tests.support.arrays import assert_close, assert_same, assert_within
from tests.support.fake_gpu import FakeRun, compile_for_fake
from tests.support.models import model_from_text

HEADER = '<ir_version: 10, opset_import: ["": 21]>'

CACHED = (
    HEADER
    + """
cached (float[past, 6] cache, float[rows, 6] x) => (float[all, 6] joined, float[rows, all] weights, float[rows, 5] y)
<float[6, 5] w = {0.5, 1, -1, 2, 0, 1, 1, 0.25, 0, 1, -2, 1, 0, 0, 3, 1, 2, 1, 0, 1, -0.5, 1, 1, 1, 0, 2, 0, 1, 1, 4}> {
  joined = Concat <axis = 0> (cache, x)
  large = Exp (joined)
  turned = Transpose <perm = [1, 0]> (large)
  scores = MatMul (x, turned)
  weights = Softmax (scores)
  mixed = MatMul (weights, joined)
  product = MatMul (mixed, w)
  y = Relu (product)
}
"""
)
SIZES = {"rows": [1, 4], "past": [0, 3]}

JOINED = (
    HEADER
    + """
joined (float[N, 3] a, float[M, 3] b) => (float[N, 6] y) {
  both = Concat <axis = 1> (a, b)
  y = Exp (both)
}
"""
)
WINDOWS = (
    HEADER
    + """
windows (float[1, 1, N] x) => (float[1, 1, K] y) <float[1, 1, 3] w = {1, 2, 4}> { y = Conv (x, w) }
"""
)
ADDED = HEADER + "added (float[N] a, float[M] b) => (float[K] y) { y = Add (a, b) }"


def cached_inputs(rows: int, past: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(rows + 100 * past)
    return {name: draw.normal(size=(size, 6)).astype(np.float32) for name, size in (("cache", past), ("x", rows))}


def plan_of(model: ModelProto, target: str = "cpu", **options: object) -> KernelPlan:
    """The plan, proved to be sound."""
    made = make_options(target, cache=False, **options)  # type: ignore[arg-type]
    plan = next(noun for name, noun in run_stages(model, made) if name == "plan")
    assert isinstance(plan, KernelPlan)
    check_plan(plan)
    return plan


def assert_same_results(found: Mapping[str, object], expected: Mapping[str, object]) -> None:
    why = "a softmax makes of what its scores, sums of 6 products up to 30, are rounded by a share of its weights"
    for name, value in expected.items():
        assert_within(np.asarray(found[name]), np.asarray(value), why=why, relative=1e-5, absolute=1e-6)


@pytest.fixture(scope="module")
def on_cpu() -> Executable:
    return onnxc.compile(model_from_text(CACHED), specialize=SIZES)


@pytest.fixture(scope="module")
def on_gpu() -> FakeRun:
    return compile_for_fake(model_from_text(CACHED), specialize=SIZES)


@pytest.fixture(scope="module")
def oracle() -> Executable:
    return onnxc.compile(model_from_text(CACHED), "interpreter", specialize=SIZES)


@pytest.mark.parametrize("rows", [0, 1, 2, 4, 5])
@pytest.mark.parametrize("past", [0, 3, 7])
def test_every_size_has_the_same_values_on_the_cpu(
    rows: int, past: int, on_cpu: Executable, oracle: Executable
) -> None:
    inputs = cached_inputs(rows, past)
    assert_same_results(on_cpu.run(inputs), oracle.run(inputs))


@pytest.mark.parametrize(("rows", "past"), [(0, 3), (1, 0), (1, 3), (4, 3), (4, 7), (2, 5)])
def test_every_size_has_the_same_values_on_a_gpu(rows: int, past: int, on_gpu: FakeRun, oracle: Executable) -> None:
    inputs = cached_inputs(rows, past)
    assert_same_results(on_gpu.executable.run(inputs), oracle.run(inputs))


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
def test_the_plan_says_which_calls_run_which_kernel(target: str) -> None:
    lines = str(plan_of(model_from_text(CACHED), target, specialize=SIZES)).splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("    launch"))
    assert lines[first : first + 6] == [
        "    launch (input 0, input 1) -> output 0",
        "      where past = 0 and rows = 1: k1",
        "      where past = 0 and rows = 4: k2",
        "      where past = 3 and rows = 1: k3",
        "      where past = 3 and rows = 4: k4",
        "      else: k0 sizes (past, rows)",
    ]


def test_symbols_that_stand_only_in_a_sum_are_told_apart() -> None:
    """Exp is of f32[past + rows, 6]: 0 + 4 and 3 + 1 are the same kernel, of 4 rows."""
    plan = plan_of(model_from_text(CACHED), specialize=SIZES)
    kernels = [kernel for kernel in plan.kernels if [op.name for op in kernel.block.ops] == ["exp"]]
    shapes = [list(map(str, kernel.block.results[0].shape)) for kernel in kernels]
    assert shapes == [["s0 + s1", "6"], ["1", "6"], ["4", "6"], ["7", "6"]]


def test_a_symbol_that_is_not_listed_stays_one() -> None:
    plan = str(plan_of(model_from_text(CACHED), specialize={"rows": [1]}))
    assert "where rows = 1: k1 sizes (past)" in plan
    assert "else: k0 sizes (past, rows)" in plan


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
def test_weights_are_there_once(target: str) -> None:
    general, special = (plan_of(model_from_text(CACHED), target, specialize=sizes) for sizes in (None, SIZES))
    assert special.weights == general.weights
    assert len(special.kernels) > len(general.kernels)


@pytest.mark.parametrize("symbol", ["N", "M"])
def test_sizes_that_must_be_equal_are_special_together(symbol: str) -> None:
    exe = onnxc.compile(model_from_text(JOINED), specialize={symbol: [2]})
    assert "where N = 2 and M = 2: k1" in str(exe.report())
    for rows in (1, 2):
        a, b = np.full((rows, 3), 0.5, np.float32), np.full((rows, 3), 2, np.float32)
        assert_close(exe(a, b), np.exp(np.concatenate([a, b], axis=1)))


def test_a_size_that_no_call_gets_through_with_has_no_kernel() -> None:
    """One element is less than the window: the size of the result would be -1."""
    exe = onnxc.compile(model_from_text(WINDOWS), specialize={"N": [1, 5]})
    plan = str(exe.report())
    assert "where N = 5" in plan
    assert "where N = 1" not in plan
    assert_same(exe(np.ones((1, 1, 5), np.float32)), np.full((1, 1, 3), 7, np.float32))
    with pytest.raises(InputError):
        exe(np.ones((1, 1, 1), np.float32))


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
def test_a_size_beyond_all_memory_has_no_kernel(target: str) -> None:
    """CACHED has six elements of four bytes in each row."""
    plan = str(plan_of(model_from_text(CACHED), target, specialize={"rows": [1, 1 << 62]}))
    assert "where rows = 1:" in plan
    assert f"where rows = {1 << 62}" not in plan


def test_sizes_that_contradict_each_other_have_no_kernel() -> None:
    exe = onnxc.compile(model_from_text(ADDED), specialize={"N": [1, 2], "M": [3]})
    plan = str(exe.report())
    assert "where N = 1 and M = 3" in plan
    assert "where N = 2 and M = 3" not in plan
    a, b = np.ones(1, np.float32), np.arange(3, dtype=np.float32)
    assert_same(exe(a, b), b + 1)
    assert_same(exe(b, a), b + 1)


def test_the_report_of_code_for_a_gpu_says_when_a_kernel_runs(on_gpu: FakeRun) -> None:
    report = on_gpu.executable.report()
    assert isinstance(report, dict)
    joined, *_ = report["launches"]
    whens = [step.get("when") for step in joined["steps"]]
    assert whens == [*(f"past = {past} and rows = {rows}" for past in (0, 3) for rows in (1, 4)), None]


def test_an_artifact_keeps_its_kernels(on_cpu: Executable, tmp_path: Path) -> None:
    on_cpu.save(tmp_path / "m.onnxc")
    loaded = onnxc.load(tmp_path / "m.onnxc")
    for rows in (1, 2):
        inputs = cached_inputs(rows, 3)
        assert_same_results(loaded.run(inputs), on_cpu.run(inputs))


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"specialize": {"K": [1]}}, "specialize names 'K', the symbolic sizes of the inputs are past, rows"),
        (
            {"specialize": {"past": [1]}, "shapes": {"cache": (2, 6)}},
            "specialize names 'past', the symbolic sizes of the inputs are rows",
        ),
    ],
)
def test_a_size_that_no_input_has_is_refused(given: dict[str, object], text: str, target: str) -> None:
    with pytest.raises(InputError, match=text) as refused:
        onnxc.compile(model_from_text(CACHED), target, **given)  # type: ignore[arg-type]
    assert refused.value.code == "unknown-dim"
