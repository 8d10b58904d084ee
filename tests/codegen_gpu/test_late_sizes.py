"""Sizes that kernels compute, and kernels that load them: models whose calls wait for no size before the end."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

import onnxc
from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.codegen_gpu.serves_less import serves_less
from onnxc.compiler.codegen_gpu.source.kernel_source import (
    Argument,
    DeviceStep,
    KernelCode,
    KernelParameter,
    KernelSource,
)
from onnxc.compiler.codegen_gpu.source.loaded_sizes import can_compute, with_counted_sizes
from onnxc.compiler.codegen_gpu.transfers import find_transfers
from onnxc.compiler.ir.dim_functions import bcast, maximum, minimum
from onnxc.compiler.ir.dims import Dim, Size, floordiv, mod
from onnxc.compiler.planning.check_plan import check_plan
from onnxc.compiler.planning.kernel_plan import BindLate, BindMost, Kernel, walk_steps
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.runtime import steps
from onnxc.runtime.executable import Executable
from onnxc.runtime.gpu import direct
from onnxc.runtime.gpu.arrays import DeviceArray
from tests.codegen_gpu.support import SM_90, make
from tests.runtime.gpu.foreign import WithInterface
from tests.support.arrays import assert_close, assert_within
from tests.support.fake_gpu import FakeRun, compile_for_fake
from tests.support.models import model_from_text

COUNT, BATCH = Size.symbol("s1"), Size.symbol("s0")

HEADER = '<ir_version: 10, opset_import: ["" : 21]>'

Feed = Mapping[str, np.ndarray]

# Of the sums over boxes.
MOST_TERMS = 30

# Boxes of several images and classes, gathered with their scores; the best of them, and their mean.
DETECTOR = """
detector (float[IMAGES, BOXES, 4] b, float[IMAGES, 3, BOXES] s, float least) => (
    float[found, 4] boxes, float[found] scores, int64[found] classes, float[few] best, int64[few] where,
    float[4] mean) {
  most = Constant <value = int64 {5}> ()
  overlap = Constant <value_float = 0.5> ()
  kept = NonMaxSuppression (b, s, most, overlap, least)
  image_and_box = Constant <value_ints = [0, 2]> ()
  rows = Gather <axis = 1> (kept, image_and_box)
  boxes = GatherND (b, rows)
  scores = GatherND (s, kept)
  one = Constant <value = int64 {1}> ()
  classes = Gather <axis = 1> (kept, one)
  size = Shape (scores)
  three = Constant <value_ints = [3]> ()
  k = Min (size, three)
  best, where = TopK (scores, k)
  axes = Constant <value_ints = [0]> ()
  sums = ReduceSum <keepdims = 0> (boxes, axes)
  hundredth = Constant <value_float = 0.01> ()
  mean = Mul (sums, hundredth)
}
"""

# The most that are left of each class is an input, or computed from one.
LIMITED = DETECTOR.replace("float least)", "float least, int64 most)").replace(
    "  most = Constant <value = int64 {5}> ()\n", ""
)
LIMITED_BY_DOUBLE = LIMITED.replace("int64 most)", "int64[1] half)").replace(
    "  overlap =", "  most = Add (half, half)\n  overlap =", 1
)

COMPRESSED = """
compressed (float[rows, 3] x, bool[rows] wanted) => (float[kept, 3] y, float[3, kept] turned, int64[2] shape) {
  y = Compress <axis = 0> (x, wanted)
  turned = Transpose <perm = [1, 0]> (y)
  shape = Shape (y)
}
"""

PLACES = "places (float[4, 6] x) => (int64[2, found] y) { y = NonZero (x) }"

DISTINCT = "distinct (int64[n] x) => (int64[k] y, int64[k] counts) { y, first, inverse, counts = Unique (x) }"

# Of what was found first, what is found again.
TWICE = """
twice (float[n] x, float low, float high) => (float[some] y, float[fewer] z) {
  above = Greater (x, low)
  y = Compress (x, above)
  under = Less (y, high)
  z = Compress (y, under)
}
"""

# One mask, for boxes and their scores.
MASKED = """
masked (float[n, 4] b, float[n] s, float low) => (float[k, 4] y) {
  wanted = Greater (s, low)
  places = NonZero (wanted)
  rows = Transpose <perm = [1, 0]> (places)
  boxes = GatherND (b, rows)
  scores = Compress <axis = 0> (s, wanted)
  axes = Constant <value_ints = [1]> ()
  column = Unsqueeze (scores, axes)
  y = Mul (boxes, column)
}
"""

# None of none, as exporters write it around a suppression.
NONE_OF_NONE = """
none (float[n, 4] b, float[n] s, float low) => (float[few, 4] y) {
  wanted = Greater (s, low)
  boxes = Compress <axis = 0> (b, wanted)
  scores = Compress <axis = 0> (s, wanted)
  elements = Size (boxes)
  zero = Constant <value = int64 {0}> ()
  is_empty = Equal (elements, zero)
  kept = If (is_empty) <
    then_branch = nothing () => (int64[m] none) {
      no = Constant <value_ints = [0]> ()
      none = ConstantOfShape <value = int64[1] {0}> (no)
    },
    else_branch = some () => (int64[m] places) {
      first = Constant <value_ints = [0]> ()
      both = Constant <value_ints = [0, 1]> ()
      images = Unsqueeze (boxes, first)
      classes = Unsqueeze (scores, both)
      most = Constant <value = int64 {9223372036854775807}> ()
      overlap = Constant <value_float = 0.5> ()
      found = NonMaxSuppression (images, classes, most, overlap)
      two = Constant <value = int64 {2}> ()
      places = Gather <axis = 1> (found, two)
    }
  >
  start = Constant <value_ints = [0]> ()
  end = Constant <value_ints = [100]> ()
  best = Slice (kept, start, end)
  y = Gather (boxes, best)
}
"""

# Of each image what is found, filled up or cut down to two.
IMAGES = """
images (bool[3, 4] x) => (int64[3, 1, 2] y) {
  images = Constant <value = int64 {3}> ()
  always = Constant <value = bool {1}> ()
  y = Loop (images, always) <
    body = one (int64 i, bool c) => (bool d, int64[1, 2] filled) {
      d = Identity (c)
      image = Gather (x, i)
      found = NonZero (image)
      size = Shape <start = 1> (found)
      two = Constant <value_ints = [2]> ()
      none = Constant <value_ints = [0]> ()
      more = Sub (two, size)
      pads = Concat <axis = 0> (none, none, none, more)
      filled = Pad (found, pads)
    }
  >
}
"""

# The same of images whose number a call decides.
BATCH_OF_IMAGES = IMAGES.replace("bool[3, 4]", "bool[batch, 4]").replace("int64[3, 1, 2]", "int64[batch, 1, 2]")
BATCH_OF_IMAGES = BATCH_OF_IMAGES.replace(
    "images = Constant <value = int64 {3}> ()", "rows = Shape <start = 0, end = 1> (x)\n  images = Squeeze (rows)"
)

# How many are found, and the best of them, or nothing.
IN_A_BRANCH = """
branch (float[n] x, bool wanted) => (float[2] y) {
  y = If (wanted) <
    then_branch = some () => (float[2] first) {
      zero = Constant <value_float = 0.0> ()
      above = Greater (x, zero)
      kept = Compress (x, above)
      pair = Constant <value_ints = [0, 2]> ()
      padded = Pad (kept, pair, zero)
      axes = Constant <value_ints = [0]> ()
      sum = ReduceSum (padded, axes)
      most = ReduceMax (padded, axes)
      first = Concat <axis = 0> (sum, most)
    },
    else_branch = none () => (float[2] nothing) {
      nothing = Constant <value_floats = [0.0, 1.0]> ()
    }
  >
}
"""

# What each round finds is kept as it is.
FOUND_IN_ROUNDS = BATCH_OF_IMAGES.replace("int64[batch, 1, 2] y", "int64[found] y").replace(
    "y = Loop", "none_yet = Constant <value_ints = [-1]> ()\n  y = Loop"
)
FOUND_IN_ROUNDS = FOUND_IN_ROUNDS.replace("(images, always) <", "(images, always, none_yet) <").replace(
    "(int64 i, bool c) => (bool d, int64[1, 2] filled)",
    "(int64 i, bool c, int64[old] all) => (bool d, int64[new] more)",
)
FOUND_IN_ROUNDS = (
    FOUND_IN_ROUNDS[: FOUND_IN_ROUNDS.index("size = Shape <start = 1>")]
    + """
      flat = Constant <value_ints = [-1]> ()
      places = Reshape (found, flat)
      more = Concat <axis = 0> (all, places)
    }
  >
}
"""
)

# A step on the host reads what was found, and kernels go on with what it makes.
HOST_BEHIND = """
behind (float[n] x) => (float[found] z, string[found] t) {
  zero = Constant <value_float = 0.0> ()
  above = Greater (x, zero)
  y = Compress (x, above)
  t = Cast <to = 8> (y)
  back = Cast <to = 1> (t)
  z = Add (back, back)
}
"""


def compiled(text: str) -> tuple[FakeRun, Executable]:
    """A model on the fake device, and on the CPU."""
    source = model_from_text(HEADER + text).SerializeToString()
    return compile_for_fake(source), onnxc.compile(source, threads=1)


def boxes(images: int, count: int, least: float) -> Feed:
    draw = np.random.default_rng(count)
    low = draw.random((images, count, 2))
    corners = np.concatenate([low, low + draw.random((images, count, 2))], 2)
    scores = draw.random((images, 3, count))
    return {
        "b": corners.astype(np.float32),
        "s": scores.astype(np.float32),
        "least": np.array(least, np.float32),
    }


def of_boxes(text: str, images: str, boxes: str) -> str:
    """A detector of so many images and boxes."""
    return text.replace("IMAGES", images).replace("BOXES", boxes)


def limited(images: int, count: int, most: int) -> Feed:
    return boxes(images, count, -1.0) | {"most": np.array(most)}


def rows(count: int, kept: int) -> Feed:
    wanted = np.random.default_rng(count).permutation(np.arange(count) < kept)
    return {"x": np.arange(3 * count, dtype=np.float32).reshape(count, 3), "wanted": wanted}


def masked(count: int, low: float) -> Feed:
    draw = np.random.default_rng(count)
    boxes, scores = draw.random((count, 4)).astype(np.float32), draw.random(count).astype(np.float32)
    return {"b": boxes, "s": scores, "low": np.array(low, np.float32)}


def numbers(count: int, low: float, high: float) -> Feed:
    x = np.random.default_rng(count).permutation(count).astype(np.float32)
    return {"x": x, "low": np.array(low, np.float32), "high": np.array(high, np.float32)}


STATIC = of_boxes(DETECTOR, "2", "7")
SYMBOLIC = of_boxes(DETECTOR, "images", "boxes")

# None, one, some and all are found; none could be; more than a program of a kernel takes.
CASES: Mapping[str, tuple[str, Sequence[Feed]]] = {
    "static": (STATIC, [boxes(2, 7, least) for least in (2.0, 0.98, 0.5, -1.0)]),
    "symbolic": (SYMBOLIC, [boxes(*each) for each in ((1, 1, -1.0), (2, 40, 0.9), (2, 40, 2.0), (1, 0, 0.0))]),
    "limited": (of_boxes(LIMITED, "2", "7"), [limited(2, 7, most) for most in (5, 0, 1, 7, -3, 2**63 - 1, -(2**63))]),
    "limited, symbolic": (
        of_boxes(LIMITED, "images", "boxes"),
        [limited(*each) for each in ((2, 40, 6), (1, 0, 4), (0, 3, 4), (2, 40, 100))],
    ),
    "limited by a double": (
        of_boxes(LIMITED_BY_DOUBLE, "images", "7"),
        [boxes(2, 7, -1.0) | {"half": np.array([half])} for half in (0, 1, 9, -1)],
    ),
    "compressed": (COMPRESSED, [rows(*each) for each in ((5, 0), (5, 1), (5, 5), (0, 0), (3000, 1), (3000, 2900))]),
    "places": (PLACES, [{"x": (np.arange(24) < k).astype(np.float32).reshape(4, 6)} for k in (0, 1, 11, 24)]),
    "distinct": (DISTINCT, [{"x": np.arange(n) % k} for n, k in ((0, 1), (9, 1), (9, 9), (1300, 7))]),
    "masked": (MASKED, [masked(*each) for each in ((9, 2.0), (9, 0.5), (9, -1.0), (0, 0.5))]),
    "images": (IMAGES, [{"x": rows(12, kept)["wanted"].reshape(3, 4)} for kept in (0, 1, 6, 12)]),
    "none of none": (NONE_OF_NONE, [masked(*each) for each in ((9, 2.0), (9, 0.5), (150, -1.0), (0, 0.5))]),
    "twice": (
        TWICE,
        [numbers(*each) for each in ((40, 50, 0), (40, 20, 22), (40, -1, 99), (0, 0, 0), (2000, 9, 1500))],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_types_and_shapes_are_those_of_the_cpu_and_no_size_is_waited_for(name: str) -> None:
    text, feeds = CASES[name]
    run, oracle = compiled(text)
    check_plan(run.plan)
    assert find_transfers(run.plan) == ()
    assert any(isinstance(step, BindMost) for step in run.plan.body.steps)
    for feed in feeds:
        # Again when memory has what the first call left.
        for _ in range(2):
            found, wanted = run.executable.run(feed), oracle.run(feed)
            assert found.keys() == wanted.keys()
            for output, value in wanted.items():
                assert_close(np.asarray(found[output]), np.asarray(value), terms=MOST_TERMS)
    run.driver.check()


# What is done with the rows y: f32[k, 8] that were found, by kernels of every kind; f32[1, 8, k] is u.
BEHIND: Mapping[str, tuple[str, str]] = {
    "pointwise": ("float[8, k] z", "t = Transpose <perm = [1, 0]> (y)  z = Exp (t)"),
    "concatenate": ("float[q, 8] z", "z = Concat <axis = 0> (y, x, y)"),
    "product of rows": ("float[k, k] z", "t = Transpose <perm = [1, 0]> (y)  z = MatMul (y, t)"),
    "product over rows": ("float[8, 8] z", "t = Transpose <perm = [1, 0]> (y)  z = MatMul (t, y)"),
    "attention": (
        "float[1, k, 8] z",
        "t = Transpose <perm = [0, 2, 1]> (u)  s = MatMul (t, u)  p = Softmax (s)  z = MatMul (p, t)",
    ),
    "convolution": ("float[1, 8, k] z", "z = Conv <pads = [1, 1]> (u, filters)"),
    "window": ("float[1, 8, p] z", "z = MaxPool <kernel_shape = [2], strides = [2], pads = [1, 1]> (u)"),
    "softmax": ("float[k, 8] z", "z = Softmax <axis = 0> (y)"),
    "sum": ("float z", "z = ReduceSum <keepdims = 0> (y)"),
    "scan": ("float[k, 8] z", "z = CumSum (y, zero)"),
    "ordering": ("float[k, 8] z, int64[k, 8] i", "n = Shape <end = 1> (y)  z, i = TopK <axis = 0> (y, n)"),
    "scatter": (
        "float[k, 8] z",
        "n = NonZero (y)  d = Transpose <perm = [1, 0]> (n)  v = Neg (y)  e = GatherND (v, d)  z = ScatterND (y, d, e)",
    ),
    "all but the first": ("float[q, 8] z", "z = Slice (y, one, last, first)"),
    "the last five": ("float[q, 8] z", "z = Slice (y, fifth, last, first)"),
    "at most three": ("float[q, 8] z", "z = Slice (y, first, three, first)"),
    "filled up to four": (
        "float[4, 8] z",
        """n = Shape <end = 1> (y)  m = Sub (four, n)  some = Max (m, first)
        p = Concat <axis = 0> (first, first, some, first)  w = Pad (y, p)  z = Slice (w, first, four, first)""",
    ),
    "recurrence": ("float[k, 1, 1, 4] z", "b = Unsqueeze (y, one)  z = LSTM <hidden_size = 4> (b, W, R)"),
}


@pytest.mark.parametrize("kind", BEHIND)
def test_kernels_of_a_kind_do_for_less_what_they_do_for_the_most(kind: str) -> None:
    results, nodes = BEHIND[kind]
    weights = ", float[8, 8, 3] filters, float[1, 16, 8] W, float[1, 16, 4] R"
    numbers = {"first": 0, "one": 1, "three": 3, "four": 4, "fifth": -5, "last": 2**63 - 1}
    constants = " ".join(f"{name} = Constant <value_ints = [{number}]> ()" for name, number in numbers.items())
    constants += "  zero = Constant <value = int64 {0}> ()"
    found = "y = Compress <axis = 0> (x, wanted)  columns = Transpose <perm = [1, 0]> (y)"
    image = "u = Unsqueeze (columns, first)"
    head = f"behind (float[rows, 8] x, bool[rows] wanted{weights}) => ({results})"
    run, oracle = compiled(f"{head} {{ {constants}  {found}  {image}  {nodes} }}")
    assert find_transfers(run.plan) == ()
    draw = np.random.default_rng(1)
    shapes = {"filters": (8, 8, 3), "W": (1, 16, 8), "R": (1, 16, 4)}
    given = {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    for count, kept in ((5, 0), (5, 1), (70, 66), (300, 2)):
        x = draw.normal(size=(count, 8)).astype(np.float32)
        feed = {"x": x, "wanted": draw.permutation(np.arange(count) < kept), **given}
        values, wanted = run.executable.run(feed), oracle.run(feed)
        for output, value in wanted.items():
            why = "sums in tf32 three times, functions of the libraries"
            assert_within(np.asarray(values[output]), np.asarray(value), why=why, relative=1e-5, absolute=1e-4)
    run.driver.check()


INNER: Mapping[str, tuple[str, Sequence[Feed], int]] = {
    "rounds": (
        BATCH_OF_IMAGES,
        [{"x": rows(4 * n, k)["wanted"].reshape(n, 4)} for n, k in ((3, 5), (1, 0), (0, 0))],
        1,
    ),
    "a branch": (
        IN_A_BRANCH,
        [{"x": numbers(n, 0, 0)["x"] - 3, "wanted": np.array(w)} for n in (0, 1, 9, 3000) for w in (True, False)],
        1,
    ),
    "found in rounds": (FOUND_IN_ROUNDS, [{"x": rows(12, k)["wanted"].reshape(3, 4)} for k in (0, 5, 12)], 0),
}


@pytest.mark.parametrize("name", INNER)
def test_in_loops_and_branches_what_nothing_behind_needs_is_not_waited_for(name: str) -> None:
    text, feeds, late = INNER[name]
    run, oracle = compiled(text)
    check_plan(run.plan)
    steps = [*walk_steps(run.plan.body.steps)]
    assert sum(isinstance(step, BindMost) for step in steps) == late
    assert not any(isinstance(step, BindLate) for step in steps)
    downloads = [copy for copy in find_transfers(run.plan) if copy.direction == "download" and "sizes" in copy.reason]
    assert len(downloads) == 1 - late
    for feed in feeds:
        for _ in range(2):
            for output, wanted in oracle.run(feed).items():
                np.testing.assert_array_equal(np.asarray(run.executable.run(feed)[output]), np.asarray(wanted))


def waits(run: FakeRun, feed: Feed) -> str:
    """The launches (L), waits (W) and copies to the host (H) of a call, in order."""
    letters = {"cuLaunchKernelEx": "L", "cuStreamSynchronize": "W", "cuMemcpyDtoHAsync_v2": "H"}
    start = len(run.driver.calls)
    run.executable.run(feed)
    return "".join(letters.get(call, "") for call in run.driver.calls[start:])


def test_a_call_launches_all_kernels_before_it_reads_a_count() -> None:
    run, _ = compiled(SYMBOLIC)
    feed = boxes(2, 9, 0.5)
    run.executable.run(feed)
    calls = waits(run, feed)
    assert calls.startswith("L" * calls.count("L"))


def test_calls_that_find_other_numbers_are_one_graph() -> None:
    run, oracle = compiled(SYMBOLIC)
    found = set()
    for least in (0.5, -1.0, 0.97, 2.0, 0.9):
        feed, start = boxes(2, 12, least), len(run.driver.calls)
        results, wanted = run.executable.run(feed), oracle.run(feed)
        for output, value in wanted.items():
            assert_close(np.asarray(results[output]), np.asarray(value), terms=MOST_TERMS)
        found.add(np.asarray(wanted["scores"]).size)
    assert len(found) > 3
    assert run.driver.calls.count("cuGraphInstantiateWithFlags") == 1
    # What was counted comes with all else.
    assert run.driver.calls[start:] == ["cuCtxGetCurrent", "cuGraphLaunch", "cuStreamSynchronize"]
    run.driver.check()


def test_large_arrays_are_copied_to_the_host_when_their_size_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "LARGEST_LATE_BYTES", 2000)
    run, oracle = compiled(COMPRESSED)
    # Of each array 36000 bytes may be there, and 120 are.
    feed = rows(3000, 10)
    run.executable.run(feed)
    before = run.driver.copied_bytes["DtoH"]
    for output, value in run.executable.run(feed).items():
        assert_close(np.asarray(value), np.asarray(oracle.run(feed)[output]))
    assert run.driver.copied_bytes["DtoH"] - before < 2000
    run.driver.check()


def test_where_the_most_takes_too_much_room_a_call_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    run, oracle = compiled(COMPRESSED)
    monkeypatch.setattr(steps, "LARGEST_ROOM", 4000)
    for count, kept, waited in ((9, 4, False), (3000, 2, True), (9, 4, False)):
        feed = rows(count, kept)
        run.executable.run(feed)
        calls = waits(run, feed)
        assert ("L" in calls[calls.index("W") :]) is waited
        for output, value in run.executable.run(feed).items():
            assert_close(np.asarray(value), np.asarray(oracle.run(feed)[output]))
    run.driver.check()


def test_a_step_on_the_host_waits_and_finds_what_was_counted() -> None:
    run, oracle = compiled(HOST_BEHIND)
    assert next(transfer.value.split(":")[0] for transfer in find_transfers(run.plan)) == "the result of reshape"
    for feed in ({"x": np.array([1, -2, 3.5], np.float32)}, {"x": -np.ones(5, np.float32)}):
        found, wanted = run.executable.run(feed), oracle.run(feed)
        assert_close(np.asarray(found["z"]), np.asarray(wanted["z"]))
        assert np.asarray(found["t"]).tolist() == np.asarray(wanted["t"]).tolist()
    run.driver.check()


def test_arrays_on_the_device_have_the_size_that_was_counted() -> None:
    run, oracle = compiled(COMPRESSED)
    for kept in (0, 2, 7):
        feed = rows(7, kept)
        wanted = oracle.run(feed)
        given = {name: WithInterface(run.driver, value) for name, value in feed.items()}
        stream = run.driver.streams.create()
        for found in (run.executable.run(given), run.executable.run(given, stream=stream)):
            for output, value in wanted.items():
                array = found[output]
                assert isinstance(array, DeviceArray)
                assert_close(array.numpy(), np.asarray(value))
        out = np.zeros((kept, 3), np.float32)
        run.executable.run(given, out={"y": out})
        assert_close(out, np.asarray(wanted["y"]))
    run.driver.check()


# Kernels


def _code(grid: tuple[Dim, Dim, Dim], *sizes: Dim, divisible: tuple[str, ...] = ()) -> KernelCode:
    parameters = (KernelParameter("y0", "*fp32"), *(KernelParameter(f"n{k}", "i32") for k in range(len(sizes))))
    names = ", ".join(parameter.name for parameter in parameters)
    text = f"@triton.jit\ndef kernel({names}):\n    pass\n"
    arguments = (Argument("output", 0), *(Argument("size", size) for size in sizes))
    return KernelCode((DeviceStep(KernelSource(text, parameters, divisible=divisible), grid, arguments),))


def test_sizes_are_computed_from_what_is_loaded_and_programs_beyond_the_grid_leave() -> None:
    blocks, sizes = floordiv(COUNT * BATCH + 127, 128), (COUNT, BATCH, COUNT * 16, minimum(COUNT, 7) + 2)
    (step,) = with_counted_sizes(_code((blocks, BATCH, 1), *sizes, divisible=("n2",)), ("s1",)).steps
    assert step.source.text == (
        "@triton.jit\n"
        "def kernel(y0, n1, count0_at, own0):\n"
        "    count0 = tl.load(count0_at)\n"
        "    n0 = (count0).to(tl.int32)\n"
        "    n2 = tl.multiple_of((count0 * 16).to(tl.int32), 16)\n"
        "    n3 = (tl.minimum(7, count0) + 2).to(tl.int32)\n"
        "    g0 = (((own0 * count0 + 127) // 128)).to(tl.int32)\n"
        "    if tl.program_id(0) >= g0:\n"
        "        return\n"
        "    pass\n"
    )
    assert [parameter.type for parameter in step.source.parameters] == ["*fp32", "i32", "*i64", "i64"]
    assert [argument.kind for argument in step.arguments] == ["output", "size", "count", "size"]
    assert [argument.value for argument in step.arguments] == [0, BATCH, COUNT, BATCH]
    assert (step.source.divisible, step.grid) == ((), (blocks, BATCH, 1))


def test_kernels_in_which_nothing_is_counted_stay_what_they_are() -> None:
    code = _code((BATCH, 1, 1), BATCH)
    assert with_counted_sizes(code, ("s1",)) == code
    assert with_counted_sizes(code, ()) is code


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (COUNT * BATCH - 3, True),
        (floordiv(COUNT + 7, 8) * mod(COUNT, 4), True),
        (maximum(COUNT, minimum(BATCH, 9)), True),
        (floordiv(maximum(0, COUNT - 1) + 7, 8), True),
        (floordiv(minimum(9, COUNT - 1) + 7, 8), False),
        # A kernel divides towards zero what data says, and not by zero.
        (floordiv(COUNT * Size.symbol("?read"), 8), False),
        (floordiv(COUNT, BATCH), False),
        (bcast(COUNT, BATCH), False),
        (minimum(floordiv(COUNT, BATCH), 5), False),
    ],
)
def test_what_a_kernel_can_compute(size: Dim, expected: bool) -> None:
    assert can_compute(size) is expected


def kernel_of(types: Sequence[str], build: object) -> Kernel:
    (kernel,) = plan_kernels(make(list(types), build), gpu_plan_target(SM_90)).kernels  # type: ignore[arg-type]
    return kernel


def test_kernels_whose_programs_are_fewer_serve_less() -> None:
    kernel = kernel_of(["f32[N, 3]"], lambda ir, x: ir.neg(x))
    assert serves_less(replace(kernel, loads=kernel.symbols), SM_90)


def test_kernels_of_what_is_left_of_a_size_do_not_serve_less() -> None:
    rest = Size.symbol("N") - Size.symbol("M")
    kernel = kernel_of(["f32[N]", "f32[M]"], lambda ir, x, y: ir.neg(ir.slice_axis(x, 0, 0, rest)))
    assert not any(serves_less(replace(kernel, loads=(name,)), SM_90) for name in kernel.symbols)
