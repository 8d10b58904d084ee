"""Loops of known rounds: written out, fused, or left alone, with the same results."""

import numpy as np
import pytest
from onnx import ModelProto

from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Module, walk
from onnxc.compiler.ir.verifier import verify_module
from onnxc.compiler.passes.loops.fuse_recurrences import fuse_recurrences
from onnxc.compiler.passes.loops.take_bounds import take_bounds
from onnxc.compiler.passes.loops.unroll_loops import MOST_ROUNDS, unroll_loops
from onnxc.compiler.passes.lower.count_non_zero import count_non_zero
from onnxc.compiler.passes.notes import collect_notes
from onnxc.compiler.passes.pipeline import run_pipeline
from onnxc.compiler.passes.pipelines import OPTIMIZE
from tests.codegen_gpu.kernels.test_recurrence import feed, layer
from tests.support.models import model_from_text

LOOP = """<ir_version: 10, opset_import: ["" : 21]>
m (float[N, 3] x) => (float[N, 3] y, float[T, N, 3] all) {{
  trips = Constant <value = int64 {{{trips}}}> ()
  keep = Constant <value = bool {{{keep}}}> ()
  y, all = Loop (trips, keep, x) <
    body = b (int64 i, bool c, float[N, 3] v) => (bool d, float[N, 3] w, float[N, 3] s) {{
    d = {condition} (c)
    k = Cast <to = 1> (i)
    w = Add (v, k)
    s = Mul (v, w)
  }}>
}}
"""


def optimised(model: ModelProto) -> Module:
    return run_pipeline(lower_model(check_model(read_model(model))), OPTIMIZE)


def looping(trips: int, keep: int = 1, condition: str = "Identity") -> Module:
    return optimised(model_from_text(LOOP.format(trips=trips, keep=keep, condition=condition)))


def names(module: Module) -> list[str]:
    return [op.name for op in walk(module.main.body)]


@pytest.mark.parametrize("trips", [1, 4])
def test_a_short_loop_is_written_out(trips: int) -> None:
    module = looping(trips)
    unrolled = unroll_loops(module)
    verify_module(unrolled)
    assert "while" in names(module)
    assert "while" not in names(unrolled)
    x = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    for actual, expected in zip(interpret(unrolled, x), interpret(module, x), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("module", [looping(MOST_ROUNDS + 1), looping(3, condition="Not")], ids=["long", "conditional"])
def test_other_loops_stay(module: Module) -> None:
    assert "while" in names(unroll_loops(module))
    assert "while" in names(fuse_recurrences(module))


@pytest.mark.parametrize(
    ("trips", "reason"),
    [(MOST_ROUNDS + 1, "it has 33 rounds, not 1 to 32"), (0, "it has 0 rounds, not 1 to 32")],
)
def test_a_counted_loop_that_stays_is_noted_with_the_reason(trips: int, reason: str) -> None:
    with collect_notes() as notes:
        unroll_loops(looping(trips))
    assert [note.reason for note in notes] == [f"the host drives a loop in each round: {reason}"]


FOUND = """<ir_version: 10, opset_import: ["" : 21]>
m (float[3, N] x) => (int64[T, K, A] all) {{
  trips = Constant <value = int64 {{3}}> ()
  keep = Constant <value = bool {{1}}> ()
  all = Loop (trips, keep) <
    body = b (int64 i, bool c) => (bool d, int64[L, M] s) {{
    d = Identity (c)
    row = Gather (x, i)
    found = NonZero (row)
    size = Shape <start = 1> (found)
    five = Constant <value_ints = [5]> ()
    more = Sub (five, size)
    none = Constant <value_ints = [0]> ()
    pads = Concat <axis = 0> (none, none, none, more)
    filled = Pad (found, pads)
    s = Identity ({stacked})
  }}>
}}
"""


def test_rounds_that_find_sizes_of_their_own_are_written_out() -> None:
    module = count_non_zero(optimised(model_from_text(FOUND.format(stacked="filled"))))
    unrolled = unroll_loops(module)
    verify_module(unrolled)
    assert "while" not in names(unrolled)
    assert names(unrolled).count("bind_sizes") == 3
    for x in (np.eye(3, 4), np.zeros((3, 0)), np.array([[0] * 7, [1] * 7, [0, 1, 0, 1, 1, 1, 1]])):
        feed = {"x": x.astype(np.float32)}
        (found,), (wanted,) = interpret(unrolled, feed), interpret(module, feed)
        assert (found.dtype, found.shape, found.tolist()) == (wanted.dtype, (3, 1, 5), wanted.tolist())


def test_a_loop_that_stacks_as_much_as_it_finds_stays() -> None:
    module = count_non_zero(optimised(model_from_text(FOUND.format(stacked="found"))))
    with collect_notes() as notes:
        assert "while" in names(unroll_loops(module))
    (reason,) = [note.reason for note in notes]
    assert "the size of what it stacks is only found in each round, i64[1, nonzero" in reason


def test_directions_are_one_recurrence_that_computes_the_same() -> None:
    model = layer("LSTM", 4, "bidirectional", ("lengths", "initial"), {"clip": 0.5})
    module = optimised(model)
    fused = fuse_recurrences(take_bounds(module))
    verify_module(fused)
    assert names(fused).count("recurrence") == 1
    assert not {"while", "guard", "bind_sizes"} & set(names(fused))
    for steps, batch in ((3, 4), (1, 1), (0, 2), (2, 0)):
        inputs = feed(model, steps, batch)
        for actual, expected in zip(interpret(fused, inputs), interpret(module, inputs), strict=True):
            np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(("right", "fused"), [("m", 1), ("v", 0)])
def test_a_recurrence_multiplies_by_what_is_the_same_in_all_rounds(right: str, fused: int) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
m (float[4, 4] x, float[4, 4] m) => (float[4, 4] y) {{
  trips = Constant <value = int64 {{3}}> ()
  y = Loop (trips, , x) <
    body = b (int64 i, bool c, float[4, 4] v) => (bool c, float[4, 4] w) {{ w = MatMul (v, {right}) }}>
}}
"""
    assert names(fuse_recurrences(optimised(model_from_text(text)))).count("recurrence") == fused


def test_a_layer_that_reads_another_is_not_beside_it() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
m (float[L, B, 4] x, float[1, 4, 4] w) => (float[L, D, B, 4] y) {
  r = Constant <value = float[1, 4, 4] {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}> ()
  a = RNN <hidden_size = 4> (x, w, r)
  axes = Constant <value = int64[1] {1}> ()
  b = Squeeze (a, axes)
  y = RNN <hidden_size = 4> (b, w, r)
}
"""
    fused = fuse_recurrences(optimised(model_from_text(text)))
    verify_module(fused)
    assert [len(op.blocks) for op in walk(fused.main.body) if op.name == "recurrence"] == [1, 1]


def test_pairs_that_stand_between_each_other_are_one_recurrence_each() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
m (float[L, B, 4] x, float[L, B, 4] z) => (float[1, B, 4] a, float[1, B, 2] b, float[1, B, 4] c, float[1, B, 2] d) {
  w = Constant <value = float[1, 4, 4] {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}> ()
  v = Constant <value = float[1, 2, 4] {1,2,3,4,5,6,7,8}> ()
  s = Constant <value = float[1, 2, 2] {1,2,3,4}> ()
  n, a = RNN <hidden_size = 4> (x, w, w)
  o, b = RNN <hidden_size = 2> (x, v, s)
  p, c = RNN <hidden_size = 4> (z, w, w)
  q, d = RNN <hidden_size = 2> (z, v, s)
}
"""
    module = optimised(model_from_text(text))
    fused = fuse_recurrences(module)
    verify_module(fused)
    assert [len(op.blocks) for op in walk(fused.main.body) if op.name == "recurrence"] == [2, 2]
    inputs = {
        name: np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 2, 4) * sign for name, sign in (("x", 1), ("z", -1))
    }
    for actual, expected in zip(interpret(fused, inputs), interpret(module, inputs), strict=True):
        np.testing.assert_array_equal(actual, expected)
