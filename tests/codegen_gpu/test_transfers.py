"""The transfers that are found in a plan are those that a call makes."""

from collections.abc import Sequence

import numpy as np
import pytest

from onnxc.compiler.codegen_gpu.transfers import ReportedCopy, find_transfers
from onnxc.compiler.planning.check_plan import check_plan
from onnxc.compiler.planning.kernel_plan import Transfer, walk_steps
from tests.support.arrays import assert_close
from tests.support.fake_gpu import FakeRun, compile_for_fake
from tests.support.models import model_from_text

HEADER = '<ir_version: 10, opset_import: ["" : 21]>'

NATIVE = HEADER + "g (float[N, 4] x) => (float[N, 4] y) { z = Exp (x) y = Softmax (z) }"

# Kernels, a host step over what they make, kernels over what it makes.
MIDDLE = (
    HEADER
    + """
g (float[N] x) => (float[N] y) {
  a = Exp (x)
  text = Cast <to = 8> (a)
  f = Cast <to = 1> (text)
  y = Mul (f, f)
}
"""
)

HOST_ON_INPUT = HEADER + "g (float[N] x) => (string[N] y) { y = Cast <to = 8> (x) }"

LOOP = (
    HEADER
    + """
g (int64 trips, bool keep, float[3] x) => (float[3] y) {
  y = Loop (trips, keep, x) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w) {
    w = Exp (v)
    total = ReduceSum <keepdims = 0> (w)
    one = Constant <value = float {100.0}> ()
    d = Less (total, one)
  }>
}
"""
)

BRANCH = (
    HEADER
    + """
g (bool c, float[3] x) => (float[3] y) {
  y = If (c) <then_branch = t () => (float[3] p) { p = Exp (x) }, else_branch = e () => (float[3] q) { q = Neg (x) }>
}
"""
)

# Heads are wider than sums in registers, and of numbers that tensor cores do not multiply.
WIDE_HEADS = """
<ir_version: 11, opset_import: ["" : 23]>
g (float[N, 2, 5, 300] q, float[N, 2, 6, 300] k, float[N, 2, 6, 3] v) => (float[N, 2, 5, 3] y) {
  y = Attention (q, k, v)
}
"""

DOUBLE_HEADS = """
<ir_version: 11, opset_import: ["" : 23]>
g (double[N, 2, 5, 8] q, double[N, 2, 6, 8] k, double[N, 2, 6, 8] v) => (double[N, 2, 5, 8] y) {
  y = Attention (q, k, v)
}
"""


def transfers(text: str) -> tuple[FakeRun, tuple[ReportedCopy, ...]]:
    run = compile_for_fake(model_from_text(text).SerializeToString())
    return run, find_transfers(run.plan)


def directions(found: Sequence[ReportedCopy]) -> list[tuple[str, bool, bool]]:
    return [(transfer.direction, transfer.is_certain, transfer.in_loop) for transfer in found]


def test_kernels_alone_make_none() -> None:
    assert transfers(NATIVE)[1] == ()


@pytest.mark.parametrize(("text", "dtype", "width", "value_width"), [
    (WIDE_HEADS, np.float32, 300, 3),
    (DOUBLE_HEADS, np.float64, 8, 8),
])  # fmt: skip
def test_attention_without_a_kernel_of_its_own_makes_none(
    text: str, dtype: np.typing.DTypeLike, width: int, value_width: int
) -> None:
    run, found = transfers(text)
    assert found == ()
    random = np.random.default_rng(0)
    shapes = ((3, 2, 5, width), (3, 2, 6, width), (3, 2, 6, value_width))
    q, k, v = (random.standard_normal(shape).astype(dtype) for shape in shapes)
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / np.sqrt(width)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = (weights / weights.sum(-1, keepdims=True) @ v).astype(dtype)
    assert_close(run.executable(q, k, v), expected, terms=width)
    run.driver.check()


def test_a_host_step_in_the_middle_makes_two() -> None:
    run, found = transfers(MIDDLE)
    down, *rest = found
    assert down.direction == "download"
    assert down.is_certain
    assert str(down.bytes) == "4*N"
    assert "strings_from_numbers" in down.reason
    (up,) = [transfer for transfer in rest if transfer.direction == "upload"]
    assert "numbers_from_strings" in up.reason
    x = np.array([-np.inf, 0, 0], np.float32)
    np.testing.assert_array_equal(run.executable(x), [0, 1, 1])
    run.driver.check()


def test_an_input_for_a_host_step_is_copied_where_it_is_on_the_device() -> None:
    assert directions(transfers(HOST_ON_INPUT)[1]) == [("download", False, False)]


def test_the_condition_of_a_loop_comes_down_in_each_iteration() -> None:
    run, found = transfers(LOOP)
    conditions = [transfer for transfer in found if transfer.in_loop]
    assert ("download", True, True) in directions(conditions)
    assert all("control flow" in transfer.reason for transfer in conditions if transfer.direction == "download")
    result = run.executable(np.array(3, np.int64), np.array(True), np.zeros(3, np.float32))
    assert_close(result, np.exp(np.exp(np.exp(np.zeros(3, np.float32)))))


def test_a_branch_needs_its_condition_alone() -> None:
    _, found = transfers(BRANCH)
    assert [transfer.value for transfer in found] == ["c: bool[]"]


@pytest.mark.parametrize("text", [NATIVE, MIDDLE, HOST_ON_INPUT, LOOP, BRANCH])
def test_every_transfer_has_a_reason(text: str) -> None:
    assert all(transfer.reason and transfer.value for transfer in transfers(text)[1])


@pytest.mark.parametrize("text", [NATIVE, MIDDLE, HOST_ON_INPUT, LOOP, BRANCH])
def test_the_certain_ones_are_steps_of_the_plan(text: str) -> None:
    run, found = transfers(text)
    steps = [step for step in walk_steps(run.plan.body.steps) if isinstance(step, Transfer)]
    assert ["download" if step.to == "host" else "upload" for step in steps] == [
        transfer.direction for transfer in found if transfer.is_certain
    ]
    check_plan(run.plan)
