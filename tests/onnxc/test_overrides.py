"""Options that override what a model declares: sizes, element types, the opset it does not name."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import ModelProto, checker, helper

import onnxc
from onnxc.command_line.main import main
from onnxc.compiler.frontend.overriding.size_ratios import Span
from tests.support.models import model_from_text

HEADER = '<ir_version: 8, opset_import: ["": 18]>'
BATCH = 3

# Models for a batch of one, as exporters write them. A batch of three must give what three calls give.
MADE_FOR_ONE = {
    "a constant shape": """m (float[1, 4, 2] x) => (float[1, 8] y) <int64[2] s = {1, 8}> { y = Reshape (x, s) }""",
    "a shape with a rest": """m (float[1, 4, 2] x) => (float[1, 8] y) <int64[2] s = {1, -1}> { y = Reshape (x, s) }""",
    "a shape that copies": """m (float[1, 4, 2] x) => (float[1, 8] y) <int64[2] s = {0, 8}> { y = Reshape (x, s) }""",
    "a shape that is computed": """m (float[1, 4, 2] x) => (float[1, 8] y) <int64[1] e = {8}> {
      s = Shape <end = 1> (x)  t = Concat <axis = 0> (s, e)  y = Reshape (x, t) }""",
    "heads merged with the batch": """m (float[1, 2, 3, 4] x) => (float[1, 2, 3, 3] y)
      <int64[3] s = {2, 3, 4}, int64[4] t = {1, 2, 3, 3}> {
      a = Reshape (x, s)  b = Transpose <perm = [0, 2, 1]> (a)  c = MatMul (a, b)  y = Reshape (c, t) }""",
    "attention with the sequence first": """m (float[1, 3, 8] x) => (float[1, 3, 8] y)
      <int64[3] s = {3, 2, 4}, int64[2] t = {3, 8}, int64[3] u = {3, 1, 8}> {
      a = Transpose <perm = [1, 0, 2]> (x)  b = Reshape (a, s)  c = Transpose <perm = [1, 0, 2]> (b)
      d = Transpose <perm = [0, 2, 1]> (c)  e = MatMul (c, d)  f = Softmax (e)  g = MatMul (f, c)
      h = Transpose <perm = [1, 0, 2]> (g)  i = Reshape (h, t)  j = Reshape (i, u)
      y = Transpose <perm = [1, 0, 2]> (j) }""",
    "one size twice, slower than the batch and faster": """m (float[1, 4, 2] x) => (float[1, 4, 2] y)
      <int64[2] s = {4, 2}, int64[3] t = {4, 1, 2}, int64[3] u = {1, 4, 2}> {
      a = Transpose <perm = [1, 0, 2]> (x)  b = Reshape (a, s)  c = Reshape (b, t)
      d = Transpose <perm = [1, 0, 2]> (c)  e = Reshape (d, s)  f = Abs (e)  y = Reshape (f, u) }""",
    "a constant beside a batch that is faster": """m (float[1, 4, 2] x) => (float[1, 4, 2] y)
      <int64[2] s = {4, 2}, float[4, 1] w = {1, 2, 3, 4}, int64[3] t = {4, 1, 2}> {
      a = Transpose <perm = [1, 0, 2]> (x)  b = Reshape (a, s)  c = Add (b, w)  d = Reshape (c, t)
      y = Transpose <perm = [1, 0, 2]> (d) }""",
    "a flattened batch that is taken apart by another way": """m (float[1, 4, 4] x) => (float[1, 4, 4] y)
      <int64[1] s = {16}, int64[4] t = {2, 2, 1, 4}, int64[3] u = {1, 4, 4}> {
      a = Transpose <perm = [1, 0, 2]> (x)  b = Reshape (a, s)  c = Reshape (b, t)
      d = Transpose <perm = [2, 0, 1, 3]> (c)  y = Reshape (d, u) }""",
    "a constant for each window": """m (float[1, 4, 3] x) => (float[1, 4, 3] y)
      <int64[2] s = {4, 3}, float[4, 1] w = {1, 2, 3, 4}, int64[3] t = {1, 4, 3}> {
      a = Reshape (x, s)  b = Add (a, w)  y = Reshape (b, t) }""",
    "a token before all others": """m (float[1, 4, 3] x) => (float[1, 5, 3] y)
      <float[1, 1, 3] w = {1, 2, 3}> { y = Concat <axis = 1> (w, x) }""",
    "a slice of all": """m (float[1, 4, 3] x) => (float[1, 3, 3] y)
      <int64[2] s = {0, 1}, int64[2] e = {1, 4}> { y = Slice (x, s, e) }""",
    "a slice of the last": """m (float[1, 4] x) => (float[1, 4] y)
      <int64[1] s = {-1}, int64[1] e = {9}, int64[1] a = {0}> { y = Slice (x, s, e, a) }""",
    "an image made larger": """m (float[1, 1, 2, 2] x) => (float[1, 1, 4, 4] y) <int64[4] s = {1, 1, 4, 4}> {
      y = Resize <mode = "nearest"> (x, , , s) }""",
    "a mask by indices of the flattened": """m (float[1, 4] x) => (float[1, 1, 4] y)
      <int64[1, 1, 4] i = {3, 2, 1, 0}> { a = Flatten <axis = 0> (x)  s = Constant <value_ints = [4]> ()
      b = Reshape (a, s)  y = Gather (b, i) }""",
    "a mask by pairs of indices": """m (float[1, 3] x) => (float[1, 3] y)
      <int64[1, 3, 2] i = {0, 2, 0, 1, 0, 0}> { y = GatherND (x, i) }""",
    "rows that indices of a batch pick from": """m (float[1, 4] x) => (float[1, 1] y)
      <float[1, 4] d = {1, 2, 3, 4}> { i = ArgMax <axis = 1> (x)  y = GatherElements <axis = 1> (d, i) }""",
    "the first of rows that indices of a batch pick from": """m (float[1, 4] x) => (float[1, 1] y)
      <float[3, 4] d = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> {
      i = ArgMax <axis = 1> (x)  y = GatherElements <axis = 1> (d, i) }""",
    "elements of heads that a batch was merged with": """m (float[1, 4, 3] x) => (float[1, 2, 2, 2] y)
      <int64[3] s = {2, 2, 3}, int64[2, 2, 2] i = {0, 1, 2, 0, 1, 1, 2, 2}, int64[4] t = {1, 2, 2, 2}> {
      a = Reshape (x, s)  b = GatherElements <axis = 2> (a, i)  y = Reshape (b, t) }""",
    "constants of heads by indices of a merged batch": """m (float[1, 4, 3] x) => (float[1, 2, 2, 1] y)
      <int64[3] s = {2, 2, 3}, float[2, 2, 3] d = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, int64[4] t = {1, 2, 2, 1}> {
      a = Reshape (x, s)  i = ArgMax <axis = 2> (a)  b = GatherElements <axis = 2> (d, i)  y = Reshape (b, t) }""",
    "a table as long as the indices that a batch was merged with": """m (float[1, 4, 3] x) => (float[1, 4] y)
      <float[4] d = {1, 2, 3, 4}, int64[1] s = {4}, int64[2] t = {4, 1}> {
      i = ArgMax <axis = 2, keepdims = 0> (x)  a = Transpose (i)  b = Reshape (a, s)
      c = GatherElements <axis = 0> (d, b)  e = Reshape (c, t)  y = Transpose (e) }""",
    "a first state": """m (float[2, 1, 2] x, float[1, 3, 2] w, float[1, 3, 1] r) => (float[1, 1, 1] y)
      <float[1, 1, 1] h = {0.5}> { a, y = GRU <hidden_size = 1> (x, w, r, , , h) }""",
    "one part": """m (float[1, 4] x) => (float[1, 4] y) <int64[1] s = {1}> { y = Split <axis = 0> (x, s) }""",
    "a shape within a branch": """m (float[1, 4] x, bool c) => (float[1, 2, 2] y) <int64[3] s = {1, 2, 2}> {
      y = If (c) <then_branch = t () => (float[1, 2, 2] a) { a = Reshape (x, s) },
                  else_branch = e () => (float[1, 2, 2] b) { d = Reshape (x, s)  b = Neg (d) }> }""",
    "values that are declared": """m (float[1, 4] x) => (float[1, 4] y) <float[1, 4] z> { z = Neg (x)  y = Abs (z) }""",
}
SECOND_AXIS = ("a first state",)


@pytest.mark.parametrize("given", [BATCH, "B"])
@pytest.mark.parametrize("name", MADE_FOR_ONE)
def test_a_batch_gives_what_a_call_for_each_gives(name: str, given: int | str) -> None:
    model, axis = model_from_text(f"{HEADER} {MADE_FOR_ONE[name]}"), int(name in SECOND_AXIS)
    declared = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    shape: list[int | str | None] = [None] * len(declared)
    shape[axis] = given
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batched = onnxc.compile(model, "interpreter", shapes={"x": shape})
    single = onnxc.compile(model, "interpreter")
    rng = np.random.default_rng(0)
    feed = {info.name: drawn(rng, info.shape) for info in single.inputs}
    xs = [rng.standard_normal(declared).astype(np.float32) for _ in range(BATCH)]
    expected = np.concatenate([np.asarray(single.run({**feed, "x": x})["y"]) for x in xs], axis)
    got = np.asarray(batched.run({**feed, "x": np.concatenate(xs, axis)})["y"])
    assert got.shape == expected.shape
    assert np.allclose(got, expected, rtol=1e-6, atol=1e-6)


def drawn(rng: np.random.Generator, shape: tuple[int | str, ...] | None) -> np.ndarray:
    """Floats, or for a scalar a bool."""
    return rng.standard_normal(shape).astype(np.float32) if shape else np.array(True)


@pytest.mark.parametrize("given", [6, "B"])
def test_a_batch_as_long_as_the_sequence_is_told_from_it(given: int | str) -> None:
    model = model_from_text(f"""{HEADER} m (float[2, 2, 3] x) => (float[2, 2, 3] y)
      <int64[2] s = {{4, 3}}, int64[3] t = {{2, 2, 3}}, int64 z = {{0}}> {{
      a = Reshape (x, s)  b = Reshape (a, t)  c = CumSum (b, z)  d = Transpose <perm = [1, 0, 2]> (c)
      e = Reshape (d, s)  y = Reshape (e, t) }}""")
    exe = onnxc.compile(model, "interpreter", shapes={"x": [None, given, None]})
    x = np.random.default_rng(0).standard_normal((2, 6, 3)).astype(np.float32)
    assert np.allclose(np.asarray(exe(x)), x.cumsum(0).swapaxes(0, 1), atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 5, 2), ("B", "T", 2), (3, 5, "C"), (1, 1, 2)])
def test_each_part_of_merged_axes_is_followed(shape: tuple[int | str, ...]) -> None:
    model = model_from_text(f"""{HEADER} m (float[1, 4, 2] x) => (float[1, 4, 2] y)
      <int64[1] s = {{8}}, int64[3] t = {{4, 1, 2}}, int64[3] u = {{2, 1, 4}}> {{
      a = Transpose <perm = [1, 0, 2]> (x)  b = Reshape (a, s)  c = Abs (b)  d = Reshape (c, t)
      e = Transpose <perm = [2, 1, 0]> (d)  f = Reshape (e, s)  g = Reshape (f, u)
      y = Transpose <perm = [1, 2, 0]> (g) }}""")
    exe = onnxc.compile(model, "interpreter", shapes={"x": shape})
    sizes = [size if isinstance(size, int) else 3 for size in shape]
    x = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
    assert np.array_equal(np.asarray(exe(x)), np.abs(x))


STRIDED = "m (float[1, 2, 16, 16] x, float[2, 2, 4, 4] w) => "
# What is made of x and w, a convolution of steps of 4, which NumPy computes of x and the convolution.
IMAGES = {
    "behind strides, flattened and back": (
        """(float[1, 2, 4, 4] y) <int64[3] s = {1, 1, 32}, int64[4] t = {1, 2, 4, 4}> {
        a = Conv <strides = [4, 4]> (x, w)  b = Reshape (a, s)  c = Neg (b)  y = Reshape (c, t) }""",
        lambda x, a: -a,
    ),
    "back to the size of the image": (
        """(float[1, 2, 16, 16] y) <int64[4] s = {1, 2, 16, 16}> {
        a = Conv <strides = [4, 4]> (x, w)  y = Resize <mode = "nearest"> (a, , , s) }""",
        lambda x, a: a.repeat(4, 2).repeat(4, 3),
    ),
    "to the size of what it is added to": (
        """(float[1, 2, 8, 8] y) <int64[4] s = {1, 2, 8, 8}> {
        a = Conv <strides = [4, 4]> (x, w)  b = Resize <mode = "nearest"> (a, , , s)
        c = MaxPool <kernel_shape = [1, 1], strides = [2, 2]> (x)  y = Add (b, c) }""",
        lambda x, a: a.repeat(2, 2).repeat(2, 3) + x[:, :, ::2, ::2],
    ),
    "one for each image, spread": (
        """(float[1, 4, 4, 4] y) <int64[4] s = {1, 2, 4, 4}> {
        a = Conv <strides = [4, 4]> (x, w)  b = GlobalMaxPool (a)  c = Resize <mode = "nearest"> (b, , , s)
        y = Concat <axis = 1> (a, c) }""",
        lambda x, a: np.concatenate([a, np.broadcast_to(a.max((2, 3), keepdims=True), a.shape)], 1),
    ),
    "a size that grows as the batch does": (
        """(float[1, 2, 2, 2] y) {
        a = Conv <strides = [4, 4]> (x, w)  y = MaxPool <kernel_shape = [1, 1], strides = [2, 2]> (a) }""",
        lambda x, a: a[:, :, ::2, ::2],
    ),
    "all of it counted from its end": (
        """(float[1, 2, 4, 4] y) <int64[1] s = {-16}, int64[1] e = {999}, int64[1] r = {3}> {
        b = Slice (x, s, e, r)  y = Conv <strides = [4, 4]> (b, w) }""",
        lambda x, a: a,
    ),
    "from the second on to the last": (
        """(float[1, 2, 16, 15] y) <int64[1] s = {1}, int64[1] e = {16}, int64[1] r = {3}> {
        a = Conv <strides = [4, 4]> (x, w)  y = Slice (x, s, e, r) }""",
        lambda x, a: x[..., 1:],
    ),
}


@pytest.mark.parametrize("shape", [(1, 2, 8, 8), (3, 2, 24, 24), (2, 2, 28, 20), (2, 2, 32, 32)])
@pytest.mark.parametrize("name", IMAGES)
def test_an_image_of_another_size_is_followed(name: str, shape: tuple[int, ...]) -> None:
    text, expected = IMAGES[name]
    exe = onnxc.compile(model_from_text(f"{HEADER} {STRIDED} {text}"), "interpreter", shapes={"x": shape})
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(shape).astype(np.float32), rng.standard_normal((2, 2, 4, 4)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (4, 4), (2, 3))[:, :, ::4, ::4]
    wanted = expected(x, np.einsum("nihwyx,oiyx->nohw", windows, w))
    got = np.asarray(exe.run({"x": x, "w": w})["y"])
    assert got.shape == wanted.shape
    assert np.allclose(got, wanted, atol=1e-5)


def test_a_refusal_names_the_constant_that_has_the_old_size() -> None:
    text = "m (int64[1, 20] x) => (int64[1, 20] y) <int64[2] s = {1, 20}> { "
    model = model_from_text(f"""{HEADER} {text}
      k = Constant <value_int = 7> ()  p = Expand (k, s)  y = Add (x, p) }}""")
    with pytest.raises(onnxc.ModelError, match=r'constant "s" : i64\[2\] has the number 20, which is an old size'):
        onnxc.infer(model, shapes={"x": [1, 33]})


def test_a_size_of_one_that_followed_from_another_is_no_batch() -> None:
    text = "m (float[1, 1, 4, 4] x) => (float[1, 1, 1, 1] y) { a = MaxPool <kernel_shape = [4, 4]> (x)  b = Neg (a) "
    model = model_from_text(f"{HEADER} {text} y = GlobalAveragePool (b) }}")
    exe = onnxc.compile(model, "interpreter", shapes={"x": [None, None, 5, 5]})
    x = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    assert np.array_equal(np.asarray(exe(x)), [[[[-21]]]])


def test_an_axis_without_elements_lies_around_no_other() -> None:
    assert Span(2, 24).encloses(Span(4, 12))
    assert not any(Span(begin, end).encloses(Span(1, 0)) for begin in (0, 1) for end in (0, 1))
    assert not Span(0, 0).encloses(Span(4, 12))


def test_what_holds_no_overridden_size_is_looked_through_once() -> None:
    doubled = "".join(f"c{i + 1} = Add (c{i}, c{i}) " for i in range(60))
    model = model_from_text(
        f"{HEADER} m (float[1, 2] x, float[2] c0) => (float[1, 2] y) {{ {doubled} y = Mul (x, c60) }}"
    )
    exe = onnxc.compile(model, "interpreter", shapes={"x": ["B", 2]})
    assert np.array_equal(
        np.asarray(exe(np.ones((3, 2), np.float32), np.ones(2, np.float32))), np.full((3, 2), 2.0**60)
    )


def test_native_code_runs_a_batch() -> None:
    model = model_from_text(f"{HEADER} {MADE_FOR_ONE['heads merged with the batch']}")
    exe = onnxc.compile(model, shapes={"x": ["B", 2, 3, 4]})
    x = np.random.default_rng(0).standard_normal((5, 2, 3, 4)).astype(np.float32)
    assert np.allclose(np.asarray(exe(x)), x @ x.swapaxes(-1, -2), atol=1e-5)


REFUSED = {
    "an element of the batch": (
        "m (float[1, 4] x) => (float[4] y) <int64 i = {0}> { y = Gather <axis = 0> (x, i) }",
        "Gather takes elements of axis 0",
    ),
    "integers joined with a batch": (
        "m (int64[1, 4] x) => (int64[1, 5] y) <int64[1, 1] w = {0}> { y = Concat <axis = 1> (w, x) }",
        'Concat joins "w" : i64',
    ),
    "a slice that turns the batch": (
        """m (float[1, 4] x) => (float[1, 4] y) <int64[1] s = {-1}, int64[1] e = {-2}, int64[1] a = {0},
        int64[1] t = {-1}> { y = Slice (x, s, e, a, t) }""",
        "Slice takes a part of axis 0",
    ),
    "an element of each by index": (
        "m (float[1, 4] x, int64[1, 4] i) => (float[1, 4] y) { y = GatherElements <axis = 0> (x, i) }",
        "GatherElements takes elements of axis 0",
    ),
    "an element beside a batch that is faster": (
        """m (float[1, 4, 2] x) => (float[2] y) <int64[2] s = {4, 2}, int64 i = {1}> {
        a = Transpose <perm = [1, 0, 2]> (x)  b = Reshape (a, s)  y = Gather (b, i) }""",
        "Gather takes elements of axis 0, in which",
    ),
    "a part beside a batch that is faster": (
        """m (float[1, 4, 2] x) => (float[2, 2] y) <int64[2] s = {4, 2}, int64[1] f = {1}, int64[1] e = {3}> {
        a = Transpose <perm = [1, 0, 2]> (x)  b = Reshape (a, s)  y = Slice (b, f, e) }""",
        "Slice takes a part of axis 0",
    ),
    "a softmax over what the batch was merged with": (
        "m (float[1, 4] x) => (float[4] y) <int64[1] s = {4}> { a = Reshape (x, s)  y = Softmax (a) }",
        "Softmax runs over axis 0, which now holds a batch",
    ),
    "a norm of all": (
        "m (float[1, 4] x, float[1, 4] w) => (float[1, 4] y) { y = LayerNormalization <axis = 0> (x, w) }",
        "LayerNormalization runs over axis 0, which now holds a batch",
    ),
    "a batch that is slower and faster": (
        """m (float[1, 4] x) => (float[4] y) <int64[1] s = {4}> {
        a = Reshape (x, s)  b = Transpose (x)  c = Reshape (b, s)  y = Add (a, c) }""",
        "Add brings axes together in which the batch lies differently",
    ),
    "each element that there was": (
        "m (float[4, 6] x) => (float[4, 6] y) <int64[4] i = {3, 2, 1, 0}> { y = Gather (x, i) }",
        "Gather takes each of the 4 elements that axis 0 had",
    ),
    "each element that there was, by tuples": (
        "m (float[4, 6] x) => (float[4, 6] y) <int64[4, 1] i = {3, 2, 1, 0}> { y = GatherND (x, i) }",
        "GatherND takes each of the 4 elements that axis 0 had",
    ),
    "written elements": (
        "m (float[1, 4] x) => (float[1, 4] y) <int64[1, 2] i = {0, 1}, float[1] u = {5}> { y = ScatterND (x, i, u) }",
        "ScatterND writes elements of axis 0",
    ),
    "parts of an axis": (
        "m (float[4, 6] x) => (float[2, 2, 6] y) <int64[3] s = {2, 2, 6}> { y = Reshape (x, s) }",
        "Reshape to [2, 2, 6] was made for [4, 6]",
    ),
    "a size that is not the batch's": (
        "m (float[2, 6] x) => (float[12] y) <int64[1] s = {12}, float[12] w> { z = Reshape (x, s)  y = Add (z, w) }",
        None,
    ),
}


@pytest.mark.parametrize("given", [8, "B"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_told_is_refused_at_the_node(name: str, given: int | str) -> None:
    text, message = REFUSED[name]
    model = model_from_text(f"{HEADER} {text}") if "w>" not in text else with_weights(text)
    rank = len(model.graph.input[0].type.tensor_type.shape.dim)
    with pytest.raises(onnxc.ModelError) as refused:
        onnxc.compile(model, "interpreter", shapes={"x": [given, *[None] * (rank - 1)]})
    told = str(refused.value)
    assert told.count("error[") == 1
    assert 'graph "main", node' in told
    assert 'input "x"' in told
    assert "is overridden by" in told
    assert told.count("export the model with this size left open") == 1
    if message is not None:
        assert refused.value.code == "overridden-size"
        assert message in told


def with_weights(text: str) -> ModelProto:
    """A model whose last initializer is twelve ones."""
    model = model_from_text(f"{HEADER} {text.replace(', float[12] w>', '>').replace('(z, w)', '(z, z)')}")
    model.graph.initializer.append(helper.make_tensor("w", 1, [12], [1.0] * 12))
    model.graph.node[1].input[1] = "w"
    return model


def test_a_shape_that_data_decides_stays_so() -> None:
    model = model_from_text(f"{HEADER} m (float[1, 4] x, int64[2] s) => (float[A, C] y) {{ y = Reshape (x, s) }}")
    exe = onnxc.compile(model, "interpreter", shapes={"x": [8, 4]})
    assert np.asarray(exe(np.zeros((8, 4), np.float32), np.array([16, 2]))).shape == (16, 2)


def test_a_size_of_an_image_may_be_a_symbol() -> None:
    text = "m (float[1, 1, 4, 4] x, float[1, 1, 3, 3] w) => (float[1, 1, 2, 2] y) { y = Conv (x, w) }"
    exe = onnxc.compile(model_from_text(f"{HEADER} {text}"), "interpreter", shapes={"x": [None, None, "H", 6]})
    assert [str(info) for info in exe.outputs] == ["y: f32[1, 1, H - 2, 4]"]


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_two_sizes_of_one_name_get_two_names(target: str) -> None:
    model = model_from_text(HEADER + "m (float[N, N] x) => (float[N, N] y) { y = Neg (x) }")
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    with pytest.raises(onnxc.InputError) as refused:
        onnxc.compile(model, target)(x)
    assert str(refused.value).endswith('compile with shapes={"x": [None, "x_dim1"]}')
    exe = onnxc.compile(model, target, shapes={"x": [None, "x_dim1"]})
    np.testing.assert_array_equal(exe(x), -x, strict=True)


def test_infer_writes_what_options_override() -> None:
    text = "m (float[1, 4] x) => (float[1, 4] y) <float[1, 4] z> { z = Neg (x)  y = Abs (z) }"
    inferred = onnxc.infer(
        model_from_text(f"{HEADER} {text}"), shapes={"x": ["N", 4]}, dtypes="float16", limits={"nesting_depth": 3}
    )
    for info in (*inferred.graph.input, *inferred.graph.value_info, *inferred.graph.output):
        assert info.type.tensor_type.elem_type == 10
        assert info.type.tensor_type.shape.dim[0].dim_param == "N"


# Element types


def test_the_element_type_of_an_input_goes_on_to_the_outputs() -> None:
    model = model_from_text(f"{HEADER} m (float[N] x) => (float[N] y) <float[N] z> {{ z = Neg (x)  y = Abs (z) }}")
    exe = onnxc.compile(model, "interpreter", dtypes={"x": "float64"})
    assert [str(info) for info in exe.outputs] == ["y: f64[N]"]


WEIGHTED = "m (float[N, 2] x) => (float[N, 2] y) <float[2, 2] w = {1, 2, 3, 4}> { y = MatMul (x, w) }"
COUNTED = "m (int64[N] x) => (bool[N] y) <int64 p = {1}> { y = Equal (x, p) }"


@pytest.mark.parametrize(
    ("text", "dtype", "x", "expected"),
    [
        (WEIGHTED, "float16", [[1, 2.5]], np.array([[8.5, 12]], np.float32)),
        (WEIGHTED, "float64", [[1, 2.5]], np.array([[8.5, 12]], np.float32)),
        (WEIGHTED, "uint8", [[255, 1]], np.array([[258, 514]], np.float32)),
        (WEIGHTED, "bool", [[True, False]], np.array([[1, 2]], np.float32)),
        (COUNTED, "int32", [0, 1], np.array([False, True])),
        (COUNTED, "bool", [False, True], np.array([False, True])),
    ],
)
def test_what_meets_a_weight_goes_on_in_its_type(text: str, dtype: str, x: object, expected: np.ndarray) -> None:
    model = model_from_text(f"{HEADER} {text}")
    exe = onnxc.compile(model, "interpreter", dtypes={"x": dtype})
    assert [str(info.dtype) for info in exe.inputs] == [dtype]
    actual = np.asarray(exe(np.array(x, dtype)))
    assert actual.dtype == expected.dtype
    assert np.array_equal(actual, expected)


def test_floats_do_not_become_integers() -> None:
    with pytest.raises(onnxc.ModelError, match="input B is tensor\\(int64\\), and T is tensor\\(float\\) already"):
        onnxc.compile(model_from_text(f"{HEADER} {COUNTED}"), "interpreter", dtypes={"x": "float32"})


OF_FLOATS = {
    "weights": "m (float[2, 3] x) => (float[2, 3] y) <float[3] w = {1, 2, 3}> { y = Mul (x, w) }",
    "a result that is a bool": """m (float[2, 3] x) => (bool[2, 3] y) <float w = {0.25}> { y = Less (x, w) }""",
    "weights that Resize reads too": """m (float[2, 3] x) => (float[2, 6] y, float[2, 3] z)
      <float[2] w = {1, 2}, float[1] v = {3}> { y = Resize <mode = "nearest"> (x, , w)  a = ReduceSum (w)
      b = Mul (a, v)  z = Add (x, b) }""",
    "a constant within": """m (float[2, 3] x) => (float[2, 3] y) {
      c = Constant <value = float[3] {1, 2, 3}> ()  d = Constant <value_float = 0.5> ()  a = Mul (x, c)
      y = Add (a, d) }""",
    "nodes that tell a type": """m (int64[2, 3] i, float[2, 3] x) => (float[2, 3] y) <int64[2] s = {2, 3}> {
      a = Cast <to = 1> (i)  b = ConstantOfShape <value = float[1] {2}> (s)  c = Add (a, b)  y = Mul (c, x) }""",
    "branches that read a weight": """m (float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}> {
      y = If (c) <then_branch = t () => (float[2] a) { a = Mul (x, w) },
        else_branch = e () => (float[2] b) <float[2] v = {3, 4}> { b = Add (x, v) }> }""",
    "a loop": """m (float[2] x) => (float[2] y) <int64 n = {3}, bool c = {1}, float[2] w = {0.5, 2}> {
      y = Loop (n, c, x) <body = b (int64 i, bool k, float[2] s) => (bool l, float[2] t) {
        l = Identity (k)  t = Mul (s, w) }> }""",
    "a function": """m (float[2] x) => (float[2] y) <float[2] w = {0.5, 2}> { y = f.twice (x, w) }
      <domain: "f", opset_import: ["": 18]> twice (a, b) => (c) {
        d = Constant <value = float {1.5}> ()  e = Mul (a, b)  c = Mul (e, d) }""",
    "a weight that is given": "m (float[2] x) => (float[2] y, float[2] w) <float[2] w = {1, 2}> { y = Add (x, w) }",
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", OF_FLOATS)
def test_infer_writes_weights_and_casts_of_another_element_type(name: str, dtype: str) -> None:
    imports = HEADER.replace("18]", '18, "f": 1]') if "f.twice" in OF_FLOATS[name] else HEADER
    model = model_from_text(f"{imports} {OF_FLOATS[name]}")
    assert_written_as_compiled(model, dtype)


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        (WEIGHTED, "float16"),
        (WEIGHTED, "int32"),
        ("m (int64[3] x) => (float[6] y) <float[6] w = {1, 2, 3, 4, 5, 6}> { y = Reshape (w, x) }", "int32"),
        ("m (int64[2] x) => (float[2] y) <float[6] w = {1, 2, 3, 4, 5, 6}> { y = Gather (w, x) }", "int32"),
    ],
)
def test_infer_writes_casts_of_an_input(text: str, dtype: str) -> None:
    model = model_from_text(f"{HEADER} {text.replace('int64[3] x', 'int64[1] x')}")
    assert_written_as_compiled(model, {"x": dtype})


def test_casts_that_an_opset_has_not_are_refused() -> None:
    model = model_from_text(f'<ir_version: 8, opset_import: ["": 12]> {WEIGHTED}')
    with pytest.raises(onnxc.UnsupportedError, match="bf16, f32 are of opset 13 and newer") as refused:
        onnxc.infer(model, dtypes="bfloat16")
    assert refused.value.code == "cast-of-old-opset"
    assert_written_as_compiled(model, "float16")


def assert_written_as_compiled(model: ModelProto, dtypes: str | dict[str, str]) -> None:
    """What `infer` writes is legal, declares what `compile` takes and gives, and computes the same."""
    written = ModelProto.FromString(onnxc.infer(model, dtypes=dtypes).SerializeToString())
    checker.check_model(written, full_check=True)
    assert onnxc.check(written) == ()
    expected, got = onnxc.compile(model, "interpreter", dtypes=dtypes), onnxc.compile(written, "interpreter")
    assert [str(info) for info in got.inputs] == [str(info) for info in expected.inputs]
    assert [str(info) for info in got.outputs] == [str(info) for info in expected.outputs]
    shapes = {info.name: [size if isinstance(size, int) else 2 for size in info.shape] for info in expected.inputs}
    feed = {info.name: np.ones(shapes[info.name], np.int64).astype(info.dtype) for info in expected.inputs}
    feed |= {"x": np.array([6], feed["x"].dtype)} if feed["x"].shape == (1,) else {}
    for name, value in expected.run(feed).items():
        assert np.array_equal(np.asarray(got.run(feed)[name]), np.asarray(value))


TENSORS_OF_ML = {
    "labels": """<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 4]> m (float[N] x) => (float[N] y) {
      y = ai.onnx.ml.LabelEncoder <keys_tensor = float[2] {1, 2}, values_tensor = float[2] {3, 4},
                                   default_tensor = float[1] {0}> (x) }""",
    "trees": """<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 5]> m (float[N, 1] x) => (float[N, 1] y) {
      y = ai.onnx.ml.TreeEnsemble <n_targets = 1, tree_roots = [0], nodes_modes = uint8[1] {0}, nodes_featureids = [0],
        nodes_splits = float[1] {1.5}, nodes_truenodeids = [0], nodes_trueleafs = [1], nodes_falsenodeids = [1],
        nodes_falseleafs = [1], leaf_targetids = [0, 0], leaf_weights = float[2] {3, 4}> (x) }""",
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", TENSORS_OF_ML)
def test_all_floats_change_about_operators_that_hold_tensors(name: str, dtype: str) -> None:
    exe = onnxc.compile(model_from_text(TENSORS_OF_ML[name]), "interpreter", dtypes=dtype)
    shape = (2, 1) if name == "trees" else (2,)
    x = np.array([1, 2], exe.inputs[0].dtype).reshape(shape)
    assert [str(info.dtype) for info in (*exe.inputs, *exe.outputs)] == [dtype] * 2
    assert np.array_equal(np.asarray(exe(x)).astype(np.float32), np.array([3, 4], np.float32).reshape(shape))


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_all_floats_of_a_model_may_have_one_type(dtype: str) -> None:
    text = """m (float[N, 2] x) => (float[N, 2] y) <float[2, 2] w = {1, 2, 3, 4}> {
      a = MatMul (x, w)  b = Cast <to = 11> (a)  c = Cast <to = 1> (b)  k = Constant <value_float = 2.0> ()
      y = Mul (c, k) }"""
    exe = onnxc.compile(model_from_text(f"{HEADER} {text}"), "interpreter", dtypes=dtype)
    result = np.asarray(exe(np.array([[1, 1]], dtype)))
    assert result.dtype == dtype
    assert result.tolist() == [[8.0, 12.0]]


def test_all_floats_change_where_shapes_are_declared_wrong() -> None:
    text = "m (float[N, 2] x) => (float[N] y) <float[N, 1] a> { a = Neg (x)  y = Abs (a) }"
    with pytest.warns(onnxc.ModelWarning) as warned:
        exe = onnxc.compile(model_from_text(f"{HEADER} {text}"), "interpreter", dtypes="float16")
    told = "".join(str(warning.message) for warning in warned)
    assert "a is declared f32[N, 1] and is f32[N, 2]: axis 1 differs" in told
    assert "y is declared f32[N] and is f32[N, 2]: the ranks differ" in told
    assert np.asarray(exe(np.array([[1, 2]], "float16"))).tolist() == [[1, 2]]


def test_all_floats_change_in_a_branch_that_is_ruled_out() -> None:
    text = """m (float[N, 2] x, bool c) => (float[2, N] y) {
      a = If (c) <then_branch = t () => (float[] b) { d = Abs (x)  b = ReduceSum (d) },
                  else_branch = e () => (float[N, 2] b) { b = Identity (x) }>
      s = ReduceSum <keepdims = 0> (x)
      z = If (c) <then_branch = u () => (float[] v) { v = Identity (s) },
                  else_branch = w () => (float[N, 2] v) { v = Neg (a) }>
      y = Transpose <perm = [1, 0]> (z) }"""
    exe = onnxc.compile(model_from_text(f"{HEADER} {text}"), "interpreter", dtypes="float16")
    given = {"x": np.array([[1, 2]], "float16"), "c": np.array(False)}
    assert np.asarray(exe.run(given)["y"]).tolist() == [[-1], [-2]]


@pytest.mark.parametrize("dtype", ["int8", "floats", 3])
def test_all_floats_become_floats(dtype: object) -> None:
    model = model_from_text(f"{HEADER} m (float[N] x) => (float[N] y) {{ y = Neg (x) }}")
    with pytest.raises(onnxc.InputError) as refused:
        onnxc.compile(model, dtypes=dtype)
    assert refused.value.code == "unknown-dtype"


# Opsets


def without_opset() -> ModelProto:
    model = model_from_text(f"{HEADER} m (float[N, 2] x) => (float[N, 2] y) {{ y = Softmax (x) }}")
    del model.opset_import[:]
    return model


def test_a_model_without_opset_is_of_the_one_that_is_given() -> None:
    model = without_opset()
    assert [finding.code for finding in onnxc.check(model)] == ["missing-opset-import"]
    assert onnxc.check(model, opset=11) == ()
    assert onnxc.infer(model, opset=11).opset_import[0].version == 11
    assert onnxc.inline(model, opset=11).opset_import[0].version == 11
    exe = onnxc.compile(model, "interpreter", opset=13)
    assert np.asarray(exe(np.zeros((1, 2), np.float32))).tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize(
    ("opset", "code"), [(0, "opset-range"), (1 << 31, "opset-range"), ("13", "option-type"), (True, "option-type")]
)
def test_an_opset_is_a_positive_number(opset: object, code: str) -> None:
    with pytest.raises(onnxc.InputError) as refused:
        onnxc.compile(without_opset(), opset=opset)
    assert refused.value.code == code


def test_an_opset_does_not_replace_the_one_that_is_imported() -> None:
    model = model_from_text(f"{HEADER} m (float[N] x) => (float[N] y) {{ y = Neg (x) }}")
    onnxc.check(model, opset=18)
    with pytest.raises(onnxc.InputError) as refused:
        onnxc.compile(model, opset=17)
    assert refused.value.code == "opset-contradiction"


def test_an_opset_is_that_of_functions_that_import_nothing() -> None:
    model = model_from_text("""<ir_version: 10, opset_import: ["": 13, "l": 1, "m": 1]>
        g (float[N, 4] x) => (float[N, 4] y) { a = l.F (x) y = m.G (a) }
        <domain: "l", opset_import: ["": 13]> F (a) => (b) { b = Softmax (a) }
        <domain: "m", opset_import: ["": 12]> G (a) => (b) { b = Softmax <axis = 0> (a) }""")
    del model.opset_import[0], model.functions[0].opset_import[:]
    with pytest.raises(onnxc.ModelError, match="missing-opset-import"):
        onnxc.compile(model, "interpreter")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    y = onnxc.compile(model, "interpreter", opset=13)(x)
    # Opset 13 takes the softmax of rows, and opset 12 from axis 0 on that of all.
    rows = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    assert y.dtype == np.float32
    assert np.allclose(y, np.exp(rows) / np.exp(rows).sum(), atol=1e-6)
    assert onnxc.infer(model, opset=13).functions[0].opset_import[0].version == 13


# The command line


def test_the_command_line_overrides_the_same(tmp_path: Path) -> None:
    model = model_from_text(f"{HEADER} m (float[1, 4] x) => (float[1, 4] y) {{ y = Softmax (x) }}")
    del model.opset_import[:]
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    given = ["--opset", "18", "--shape", "x=N,4", "--dtype", "float64"]
    told = CliRunner().invoke(main, ["infer", str(path), *given, "--limit", "nesting_depth=4"])
    assert told.output == "x: f64[N, 4]\ny: f64[N, 4]\n"
    ran = CliRunner().invoke(main, ["run", str(path), *given, "--target", "interpreter", "--dim", "N=5"])
    assert ran.exit_code == 0, ran.output
    assert "float64[5, 4]" in ran.output
    assert CliRunner().invoke(main, ["check", str(path), "--opset", "18"]).exit_code == 0
    lowered = CliRunner().invoke(main, ["compile", str(path), *given, "--stop-after", "lower"])
    assert "f64[N, 4]" in lowered.output


@pytest.mark.parametrize(("size", "written"), [(8, [8, 24]), ("n", [-1, 24])])
def test_infer_writes_lists_of_sizes_anew(size: int | str, written: list[int]) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 4, 6] x, bool c) => (float[1, 24] y) <int64[2] s = {1, 24}> {
       y = If (c) <then_branch = t () => (p) { p = Reshape (x, s) }, else_branch = e () => (q) { q = Flatten (x) }>
    }"""
    inferred = onnxc.infer(model_from_text(text), shapes={"x": [size, 4, 6]})
    (tensor,) = inferred.graph.node[0].attribute[0].g.initializer
    assert np.frombuffer(tensor.raw_data, np.int64).tolist() == written
    x = np.ones((8, 4, 6), np.float32)
    assert onnxc.compile(inferred, "interpreter")(x, np.array(True)).shape == (8, 24)  # type: ignore[union-attr]
