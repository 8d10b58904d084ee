"""Sequences: made, changed, read, split, joined, and carried around loops."""

import numpy as np
import pytest

from onnxc.compiler.diagnostics import DiagnosedModelError
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.module import walk
from onnxc.runtime.errors import InputError
from tests.operators.host_models import TARGETS, run_text
from tests.support.arrays import assert_same
from tests.support.models import model_from_text

A = np.arange(6, dtype=np.float32).reshape(2, 3)
HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'

# A sequence that only the call knows: Identity of an input.
GIVEN = "g (seq(float[N, 3]) s, int64 p) => "


def host_functions(text: str) -> list[str]:
    """The host functions that a model needs."""
    module = lower_model(check_model(read_model(model_from_text(HEADER + text))))
    used = {*module.main.body.results}
    needed = []
    for op in reversed([*walk(module.main.body)]):
        if used & {*op.results}:
            used |= {*op.operands}
            needed += [op.text("function")] if op.name == "host" else []
    return needed


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("position", "place"), [(0, 0), (-1, 1), (1, 1), (-2, 0)])
def test_at_counts_negative_positions_from_the_end(target: str, position: int, place: int) -> None:
    (y,) = run_text(
        GIVEN + "(float[M, 3] y) { y = SequenceAt(s, p) }", {"s": [A, A + 1], "p": np.array(position)}, target
    )
    assert_same(y, [A, A + 1][place])


@pytest.mark.parametrize("position", [2, -3])
def test_at_refuses_positions_outside(position: int) -> None:
    with pytest.raises(InputError, match=r"SequenceAt: position .* outside a sequence of 2"):
        run_text(GIVEN + "(float[M, 3] y) { y = SequenceAt(s, p) }", {"s": [A, A], "p": np.array(position)})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("position", "order"), [(0, "xab"), (1, "axb"), (2, "abx"), (-1, "axb"), (-2, "xab")])
def test_insert(target: str, position: int, order: str) -> None:
    values = {"a": A, "b": A + 1, "x": np.zeros((5, 3), np.float32)}
    text = "g (seq(float[N, 3]) s, float[K, 3] x, int64 p) => (seq(float[M, 3]) y) { y = SequenceInsert(s, x, p) }"
    (y,) = run_text(text, {"s": [A, A + 1], "x": values["x"], "p": np.array(position)}, target)
    assert isinstance(y, tuple)
    for found, name in zip(y, order, strict=True):
        assert_same(found, values[name])


@pytest.mark.parametrize("target", TARGETS)
def test_insert_and_erase_take_the_end_by_default(target: str) -> None:
    text = """g (seq(float[N, 3]) s, float[K, 3] x) => (int64 n, seq(float[M, 3]) y) {
        longer = SequenceInsert(s, x)
        n = SequenceLength(longer)
        y = SequenceErase(longer)
    }"""
    n, y = run_text(text, {"s": [A], "x": A + 1}, target)
    assert_same(n, np.array(2))
    assert isinstance(y, tuple)
    assert_same(*y, A)


def test_erase_of_nothing_is_an_error_of_the_call() -> None:
    with pytest.raises(InputError, match="position -1 is outside a sequence of 0"):
        run_text("g (seq(float[N, 3]) s) => (seq(float[N, 3]) y) { y = SequenceErase(s) }", {"s": []})


def test_elements_of_other_types_are_refused() -> None:
    with pytest.raises(DiagnosedModelError, match="does not fit"):
        run_text("g (seq(float[]) s, int64 x) => (seq(float[]) y) { y = SequenceInsert(s, x) }", {})


def test_what_is_known_of_a_sequence_leaves_no_host_step() -> None:
    text = """g (float[N] a, float[M] b) => (float[K] y, int64 n) {
        s = SequenceConstruct(a, b)
        one = Constant<value = int64 {1}>()
        zero = Constant<value = int64 {0}>()
        t = SequenceInsert(s, b, zero)
        u = SequenceErase(t, one)
        y = ConcatFromSequence<axis = 0>(u)
        n = SequenceLength(u)
    }"""
    assert host_functions(text) == []
    a, b = np.arange(2, dtype=np.float32), np.arange(3, dtype=np.float32)
    y, n = run_text(text, {"a": a, "b": b}, "cpu")
    assert_same(y, np.concatenate([b, b]))
    assert_same(n, np.array(2))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("split", "sizes"), [(np.array(2), [2, 2, 1]), (np.array([4, 0, 1]), [4, 0, 1]), (np.array(9), [5])]
)
def test_split_by_data(target: str, split: np.ndarray, sizes: list[int]) -> None:
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    kind = f"int64[{split.size}]" if split.ndim else "int64"
    text = f"g (float[N, M] x, {kind} c) => (seq(float[N, K]) y) {{ y = SplitToSequence<axis = -1>(x, c) }}"
    (y,) = run_text(text, {"x": x, "c": split}, target)
    assert isinstance(y, tuple)
    bounds = np.cumsum([0, *sizes])
    for place, found in enumerate(y):
        assert_same(found, x[:, bounds[place] : bounds[place + 1]])
    assert len(y) == len(sizes)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", ["3", "N"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_split_into_single_elements(target: str, size: str, keepdims: int) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    text = f"g (float[2, {size}] x) => (seq(float[]) y) {{ y = SplitToSequence<axis = 1, keepdims = {keepdims}>(x) }}"
    (y,) = run_text(text, {"x": x}, target)
    assert isinstance(y, tuple)
    for place, found in enumerate(y):
        assert_same(found, x[:, place : place + 1] if keepdims else x[:, place].copy())


ALIKE = {
    "a vector of ones": ("split = ConstantOfShape<value = int64[1] {1}>(n)", 1, [0, 1, 2, 3]),
    "a vector of twos": ("split = ConstantOfShape<value = int64[1] {2}>(half)", 2, [0, 2]),
    "one": ("split = Constant<value_int = 1>()", 1, [0, 1, 2, 3]),
}


@pytest.mark.parametrize("split", ALIKE)
def test_parts_that_are_alike_have_a_known_size(split: str) -> None:
    made, size, starts = ALIKE[split]
    text = f"""g (float[N, 3] x, int64 p) => (float[K, 3] y) {{
        n = Shape<start = 0, end = 1>(x) two = Constant<value_int = 2>() half = Div(n, two) {made}
        s = SplitToSequence(x, split) y = SequenceAt(s, p) }}"""
    module = lower_model(check_model(read_model(model_from_text(HEADER + text))))
    assert module.main.body.results[0].shape == (size, 3)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    for place, start in enumerate(starts):
        (y,) = run_text(text, {"x": x, "p": np.array(place)}, "cpu")
        assert_same(y, x[start : start + size])


def test_the_last_part_of_a_scalar_split_may_be_smaller() -> None:
    text = """g (float[N, 3] x, int64 p) => (float[K, 3] y) {
        two = Constant<value_int = 2>() s = SplitToSequence(x, two) y = SequenceAt(s, p) }"""
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    (y,) = run_text(text, {"x": x, "p": np.array(1)}, "cpu")
    assert_same(y, x[2:])


@pytest.mark.parametrize("split", [np.array(0), np.array([1, 1])])
def test_split_sizes_that_do_not_fit(split: np.ndarray) -> None:
    kind = f"int64[{split.size}]" if split.ndim else "int64"
    with pytest.raises(InputError, match="SplitToSequence: split is"):
        run_text(
            f"g (float[N] x, {kind} c) => (seq(float[K]) y) {{ y = SplitToSequence(x, c) }}",
            {"x": np.zeros(3, np.float32), "c": split},
        )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("axis", "is_new"), [(0, 0), (-1, 0), (0, 1), (1, 1), (-1, 1)])
def test_concat_from_a_sequence_of_the_call(target: str, axis: int, is_new: int) -> None:
    attributes = f"axis = {axis}, new_axis = {is_new}"
    text = f"g (seq(float[N, 3]) s) => (float y) {{ y = ConcatFromSequence<{attributes}>(s) }}"
    text = text.replace("(float y)", f"(float[{', '.join('PQR'[: 2 + is_new])}] y)")
    (y,) = run_text(text, {"s": [A, A + 1]}, target)
    assert_same(y, np.stack([A, A + 1], axis) if is_new else np.concatenate([A, A + 1], axis))


def test_concat_of_nothing_is_an_error_of_the_call() -> None:
    with pytest.raises(InputError, match="the sequence is empty"):
        run_text("g (seq(float[N]) s) => (float[M] y) { y = ConcatFromSequence<axis = 0>(s) }", {"s": []})


COLLECTED = """g (float[N, 3] x) => (float[K, 3] y, int64 n) {
    start = SequenceEmpty()
    rows = Shape<start = 0, end = 1>(x)
    count = Squeeze(rows)
    yes = Constant<value = bool {1}>()
    all = Loop(count, yes, start) <body = b (int64 i, bool c, seq(float[]) before) => (bool going, seq(float[]) after) {
        going = Identity(c)
        zero = Constant<value_ints = [0]>()
        place = Unsqueeze(i, zero)
        row = Gather(x, place)
        after = SequenceInsert(before, row)
    }>
    n = SequenceLength(all)
    y = ConcatFromSequence<axis = 0>(all)
}"""


@pytest.mark.parametrize("target", TARGETS)
def test_a_loop_fills_an_empty_sequence(target: str) -> None:
    y, n = run_text(COLLECTED, {"x": A}, target)
    assert_same(y, A)
    assert_same(n, np.array(2))


def test_what_fills_a_sequence_in_a_loop_tells_its_type() -> None:
    module = lower_model(check_model(read_model(model_from_text(HEADER + COLLECTED))))
    (loop,) = (op for op in module.main.body.ops if op.name == "while")
    assert str(loop.results[0].type) == "sequence(f32[1, 3])"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("holds", [True, False])
def test_a_branch_may_give_an_empty_sequence(target: str, holds: bool) -> None:
    text = """g (bool c, float[N] x) => (int64 n, seq(float[N]) y) {
        y = If (c) <then_branch = t () => (seq(float[]) a) { a = SequenceEmpty() },
                    else_branch = e () => (seq(float[]) b) { b = SequenceConstruct(x, x) }>
        n = SequenceLength(y)
    }"""
    n, y = run_text(text, {"c": np.array(holds), "x": np.ones(2, np.float32)}, target)
    assert_same(n, np.array(0 if holds else 2))
    assert isinstance(y, tuple)
    assert len(y) == n


@pytest.mark.parametrize("target", TARGETS)
def test_elements_of_different_ranks_come_back_to_a_declared_rank(target: str) -> None:
    text = """g (float x, float[N] v, int64 p) => (float[M] y) <float[K] taken> {
        s = SequenceConstruct(x, v)
        taken = SequenceAt(s, p)
        y = Neg(taken)
    }"""
    inputs = {"x": np.array(1, np.float32), "v": np.array([1, 2], np.float32)}
    (y,) = run_text(text, {**inputs, "p": np.array(1)}, target)
    assert_same(y, np.array([-1, -2], np.float32))
    with pytest.raises(InputError, match="there is code for rank 1"):
        run_text(text, {**inputs, "p": np.array(0)}, target)


# SequenceMap

MAPPED = """g (seq(float[N]) s, {second}) => (seq(float[N]) y, seq(int64[1]) n) {{
    y, n = SequenceMap(s, t) <body = b (float[A] a, float[B] c) => (float[A] sum, int64[1] shape) {{
        sum = Add(a, c)
        shape = Shape(a)
    }}>
}}"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("second", ["seq(float[M]) t", "float[M] t"])
@pytest.mark.parametrize("lengths", [[], [3], [3, 3]])
def test_map_over_a_sequence_of_the_call(target: str, second: str, lengths: list[int]) -> None:
    s = [np.arange(length, dtype=np.float32) + place for place, length in enumerate(lengths)]
    t = s if second.startswith("seq") else np.full(1, 10, np.float32)
    y, n = run_text(MAPPED.format(second=second), {"s": s, "t": t}, target)
    assert isinstance(y, tuple)
    assert isinstance(n, tuple)
    assert len(y) == len(n) == len(s)
    for place, found in enumerate(y):
        assert_same(found, s[place] * 2 if second.startswith("seq") else s[place] + 10)
        assert_same(n[place], np.array([lengths[place]]))


def test_map_over_known_elements_leaves_no_loop() -> None:
    text = """g (float[N] a, float[M] b) => (float[K] y) {
        s = SequenceConstruct(a, b)
        m = SequenceMap(s) <body = f (float[A] x) => (float[A] z) { z = Neg(x) }>
        y = ConcatFromSequence<axis = 0>(m)
    }"""
    assert host_functions(text) == []
    (y,) = run_text(text, {"a": np.ones(1, np.float32), "b": np.ones(2, np.float32)})
    assert_same(y, -np.ones(3, np.float32))
