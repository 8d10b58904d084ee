"""Sequences that loops fill: stacked where they are only joined, with the same results; left alone elsewhere."""

from itertools import pairwise

import numpy as np
import pytest

import onnxc
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Module, walk
from onnxc.compiler.ir.verifier import verify_module
from onnxc.compiler.passes.loops.stack_sequences import stack_sequences
from tests.support.models import model_from_text

LISTED = """<ir_version: 10, opset_import: ["" : 21]>
m (float[T, N, 3] x, bool go) => ({results}) {{
  shape = Shape (x)
  zero = Constant <value = int64 {{0}}> ()
  rounds = Gather (shape, zero)
  yes = Constant <value = bool {{1}}> ()
  start = Constant <value = float {{0.5}}> ()
  {before}
  empty = {initial}
  last, all = Loop (rounds, {keep}, start, empty) <
    body = b (int64 i, bool c, float v, seq(float[N, 3]) s) => (bool d, float w, seq(float[N, 3]) longer) {{
    d = Identity (c)
    row = Gather (x, i)
    w = Add (v, v)
    {element}
    longer = {insert}
  }}>
  {behind}
}}
"""
GIVEN = {
    "results": "float y, float[A, B, C] joined",
    "before": "",
    "initial": "SequenceEmpty ()",
    "keep": "yes",
    "element": "e = Sub (row, v)",
    "insert": "SequenceInsert (s, e)",
    "behind": "y = Identity (last)\n joined = ConcatFromSequence <axis = 0, new_axis = 1> (all)",
}


def lowered(**changes: str) -> Module:
    text = LISTED.format(**(GIVEN | changes))
    return lower_model(check_model(read_model(model_from_text(text))))


def host_functions(module: Module) -> list[str]:
    return [op.text("function") for op in walk(module.main.body) if op.name == "host"]


def fed(rounds: int, rows: int) -> dict[str, np.ndarray]:
    x = np.random.default_rng(0).standard_normal((rounds, rows, 3)).astype(np.float32)
    x[:, :1, :1] = np.nan
    x[:, :1, 1:2] = -0.0
    x[:, :1, 2:] = np.inf
    return {"x": x, "go": np.array(True)}


def expect_the_same(module: Module, stacked: Module, rounds: int, rows: int) -> None:
    feed = fed(rounds, rows)
    for actual, expected in zip(interpret(stacked, feed), interpret(module, feed), strict=True):
        np.testing.assert_array_equal(actual, expected)


def joined(axis: int, new: int) -> str:
    return f"y = Identity (last)\n joined = ConcatFromSequence <axis = {axis}, new_axis = {new}> (all)"


@pytest.mark.parametrize(("rounds", "rows"), [(1, 1), (4, 2), (3, 0)])
@pytest.mark.parametrize(("axis", "new"), [(0, 1), (1, 1), (2, 1), (-1, 1), (0, 0), (1, 0), (-2, 0)])
@pytest.mark.parametrize("keep", ["yes", "go"])
def test_a_sequence_that_is_only_joined_is_stacked(rounds: int, rows: int, axis: int, new: int, keep: str) -> None:
    results = "float y, float[A, B, C] joined" if new else "float y, float[A, B] joined"
    module = lowered(results=results, behind=joined(axis, new), keep=keep)
    stacked = stack_sequences(module)
    verify_module(stacked)
    assert "sequence_insert" in host_functions(module)
    assert host_functions(stacked) == []
    expect_the_same(module, stacked, rounds, rows)


def test_a_sequence_is_joined_twice_and_others_with_it() -> None:
    module = lowered(
        results="float[A, B, C] one, float[D, E] two, float[F, G, H] sum",
        behind="""one = ConcatFromSequence <axis = 0, new_axis = 1> (all)
        two = ConcatFromSequence <axis = 0> (all)
        sum = Add (one, x)""",
    )
    stacked = stack_sequences(module)
    verify_module(stacked)
    assert host_functions(stacked) == []
    expect_the_same(module, stacked, 3, 2)


@pytest.mark.parametrize(
    "changes",
    [
        {"initial": "SequenceConstruct (first)", "before": "first = Gather (x, zero)"},
        {"insert": "SequenceInsert (s, e, zero)"},
        {"element": "n = SequenceLength (s)\n k = CastLike (n, v)\n e = Sub (row, k)"},
        {"behind": "n = SequenceLength (all)\n y = CastLike (n, start)\n" + joined(0, 1).split("\n")[1]},
        {"behind": "y = Identity (last)\n at = SequenceAt (all, zero)\n joined = Add (at, x)"},
    ],
    ids=["not-empty", "in-front", "counted-inside", "counted-behind", "not-joined"],
)
def test_other_sequences_stay(changes: dict[str, str]) -> None:
    module = lowered(**changes)
    assert stack_sequences(module) is module


def test_elements_whose_sizes_the_rounds_decide_stay() -> None:
    element = """one = Constant <value_ints = [1]> ()
    start0 = Constant <value_ints = [0]> ()
    end = Add (i, one)
    e = Slice (row, start0, end, start0)"""
    module = lowered(results="float y, float[A, B] joined", element=element, behind=joined(0, 0))
    assert stack_sequences(module) is module


def test_loops_within_loops_are_stacked() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
m (float[T, N] x) => (float[A, B, C] y) {
  shape = Shape <end = 1> (x)
  rounds = Squeeze (shape)
  yes = Constant <value = bool {1}> ()
  empty = SequenceEmpty ()
  all = Loop (rounds, yes, empty) <
    body = b (int64 i, bool c, seq(float[D, N]) s) => (bool d, seq(float[D, N]) longer) {
    d = Identity (c)
    row = Gather (x, i)
    none = SequenceEmpty ()
    rows = Loop (rounds, yes, none) <
      body = n (int64 j, bool cc, seq(float[N]) t) => (bool dd, seq(float[N]) more) {
      dd = Identity (cc)
      other = Gather (x, j)
      e = Mul (row, other)
      more = SequenceInsert (t, e)
    }>
    e2 = ConcatFromSequence <axis = 0, new_axis = 1> (rows)
    longer = SequenceInsert (s, e2)
  }>
  y = ConcatFromSequence <axis = 0, new_axis = 1> (all)
}
"""
    module = lower_model(check_model(read_model(model_from_text(text))))
    stacked = stack_sequences(module)
    verify_module(stacked)
    assert host_functions(stacked).count("sequence_insert") < host_functions(module).count("sequence_insert")
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    (actual,), (expected,) = interpret(stacked, {"x": x}), interpret(module, {"x": x})
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("keep", ["yes", "go"])
def test_a_sequence_of_nothing_is_refused_at_the_call(keep: str) -> None:
    executable = onnxc.compile(model_from_text(LISTED.format(**(GIVEN | {"keep": keep}))))
    feed = fed(3, 2)
    _, rows = executable.run(None, feed)
    assert rows.shape == (3, 2, 3)
    nothing = fed(0, 2) if keep == "yes" else feed | {"go": np.array(False)}
    with pytest.raises(onnxc.OnnxcError, match="ConcatFromSequence: the sequence is empty"):
        executable.run(None, nothing)


BAGS = """<ir_version: 10, opset_import: ["" : 21]>
m (float[N, 16] x, int64[M] offsets) => (y) {
  zero = Constant <value = int64 {0}> ()
  one = Constant <value_ints = [1]> ()
  two = Constant <value_ints = [2]> ()
  line = Constant <value_ints = [-1]> ()
  nothing = Constant <value_floats = [0.0]> ()
  bag_shape = Constant <value_ints = [1, 16]> ()
  sum_axes = Constant <value_ints = [0]> ()
  entries = Size (offsets)
  bags = Sub (entries, one)
  empty = SequenceEmpty ()
  some = Less (zero, bags)
  going = Squeeze (some)
  last, all = Loop ("", going, zero, empty) <
    body = b (int64 i, bool c, int64 bag, seq(float[1, A]) s) => (bool d, int64 after, seq(float[1, B]) longer) {
    at = Reshape (bag, line)
    next = Add (at, one)
    behind = Add (at, two)
    start = Slice (offsets, at, next)
    end = Slice (offsets, next, behind)
    is_empty = Equal (start, end)
    row = If (is_empty) <
      then_branch = t () => (none) { none = Expand (nothing, bag_shape) },
      else_branch = e () => (total) {
        rows = Slice (x, start, end)
        total = ReduceSum (rows, sum_axes)
      }>
    longer = SequenceInsert (s, row)
    after_line = Add (at, one)
    after = Squeeze (after_line)
    more = Less (after, bags)
    d = Squeeze (more)
  }>
  y = ConcatFromSequence <axis = 0> (all)
}
"""


@pytest.mark.parametrize("offsets", [[0, 2, 2, 5, 6], [0, 6], [1, 1]])
def test_bags_of_embeddings_are_stacked(offsets: list[int]) -> None:
    """As PyTorch's exporter writes them: the rows of a bag lie between two entries of a vector."""
    module = lower_model(check_model(read_model(model_from_text(BAGS))))
    stacked = stack_sequences(module)
    assert not host_functions(stacked)
    x = np.arange(96, dtype=np.float32).reshape(6, 16)
    expected = np.stack([x[start:end].sum(axis=0) for start, end in pairwise(offsets)])
    (got,) = interpret(stacked, {"x": x, "offsets": np.array(offsets)})
    np.testing.assert_array_equal(got, expected)
