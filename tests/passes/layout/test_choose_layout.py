"""Channels last: which transposes are left, that nothing else changes, and that the meaning stays."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, composite

from benchmarks.inputs import make_inputs
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Module, Op, Value, walk
from onnxc.compiler.ir.primitives.contractions import channels_innermost
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.ir.verifier import verify_module
from onnxc.compiler.passes.layout import moved_layouts
from onnxc.compiler.passes.layout.choose_layout import choose_layout
from onnxc.compiler.passes.layout.moved_layouts import Layout
from onnxc.compiler.passes.lower.precision_policy import Precision
from onnxc.compiler.passes.pipeline import run_pipeline, verify_step
from onnxc.compiler.passes.pipelines import OPTIMIZE, target_pipeline
from onnxc.compiler.passes.simplify.canonicalize import canonicalize
from onnxc.compiler.passes.simplify.eliminate_common_subexpressions import eliminate_common_subexpressions
from onnxc.compiler.passes.simplify.eliminate_dead_code import eliminate_dead_code
from tests.models.builders import BUILDERS
from tests.models.light_models import FOLDER, NAMES
from tests.models.writer import STYLES, Style
from tests.passes.golden import M, N, Pair, assert_same_meaning, built, check_pair, f32
from tests.support.arrays import assert_near

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
SIZES = (1, 2, 5)
IMAGE = f32(N, 4, M, 6)

PRECISIONS: tuple[Precision, Precision] = ("fp32", "bf16")
LAYOUT = (choose_layout, canonicalize, eliminate_common_subexpressions, eliminate_dead_code)

Make = Callable[[Builder, Value], Value | tuple[Value, ...]]


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(0, 0.5, shape).astype(np.float32)


def convolve(
    b: Builder,
    x: Value,
    filters: int,
    kernel: int = 3,
    *,
    stride: int = 1,
    groups: int = 1,
    dilation: int = 1,
    spread: int = 1,
    last: bool = False,
) -> Value:
    """A convolution of any rank that keeps the sizes of the input where stride and spread are 1."""
    rank, channels = x.rank - 2, x.shape[-1 if last else 1]
    assert isinstance(channels, int)
    w = b.constant(weights(filters, channels // groups, *[kernel] * rank))
    pad = [dilation * (kernel - 1) // 2] * rank
    spread_axes, steps = [spread] * rank, [stride] * rank
    dimensions = channels_innermost(rank) if last else None
    return b.convolution(x, w, steps, pad, pad, [dilation] * rank, groups, spread_axes, dimensions=dimensions)


def per_channel(b: Builder, x: Value, axis: int = 1) -> Value:
    channels = x.shape[axis]
    assert isinstance(channels, int)
    return b.broadcast(b.constant(weights(channels)), (axis,), x.shape)


def relu(b: Builder, x: Value) -> Value:
    return b.max(x, 0.0)


def pool(b: Builder, x: Value, *, arg: bool = False) -> Value:
    return b.reduce_window(x, "max", (1, 1, 2, 2), (1, 1, 2, 2), (0, 0, 1, 0), (0, 0, 0, 1), (1, 1, 1, 1), arg=arg)


# What becomes of one program


def block(b: Builder, x: Value) -> Value:
    y = relu(b, b.add(convolve(b, x, 4), per_channel(b, x)))
    return b.add(convolve(b, y, 4, 1), y)


def block_moved(b: Builder, x: Value) -> Value:
    stored = b.transpose(x, TO_LAST)
    y = relu(b, b.add(convolve(b, stored, 4, last=True), per_channel(b, stored, 3)))
    return b.transpose(b.add(convolve(b, y, 4, 1, last=True), y), TO_FIRST)


def gate(b: Builder, x: Value) -> Value:
    y = convolve(b, x, 4)
    mean = b.reduce(y, "sum", (2, 3), keepdims=True)
    return b.mul(y, b.broadcast_to(b.tanh(convolve(b, mean, 4, 1)), y.shape))


def gate_moved(b: Builder, x: Value) -> Value:
    y = convolve(b, b.transpose(x, TO_LAST), 4, last=True)
    mean = b.reshape(b.reduce(y, "sum", (1, 2)), (N, 1, 1, 4))
    scale = b.tanh(convolve(b, mean, 4, 1, last=True))
    return b.transpose(b.mul(y, b.broadcast_to(scale, y.shape)), TO_FIRST)


def classifier(b: Builder, x: Value) -> Value:
    features = b.reshape(convolve(b, x, 2), (N, 2 * 4 * 6))
    return b.dot(features, b.constant(weights(48, 5)), "nk,km->nm")


def classifier_moved(b: Builder, x: Value) -> Value:
    features = b.reshape(convolve(b, b.transpose(x, TO_LAST), 2, last=True), (N, 48))
    rows = weights(48, 5).reshape(2, 4, 6, 5).transpose(1, 2, 0, 3).reshape(48, 5)
    return b.dot(features, b.constant(np.ascontiguousarray(rows)), "nk,km->nm")


def crop(b: Builder, x: Value) -> Value:
    seen = b.transpose(x, TO_FIRST)
    return b.transpose(b.exp(b.gather(seen, b.constant(np.array([0, 1, 3, 5], np.int64)), 3)), TO_LAST)


def crop_moved(b: Builder, x: Value) -> Value:
    return b.exp(b.gather(x, b.constant(np.array([0, 1, 3, 5], np.int64)), 2))


def enlarged(b: Builder, x: Value) -> Value:
    return b.exp(b.gather(b.transpose(x, TO_FIRST), b.constant(np.zeros(9, np.int64)), 3))


PAIRS = {
    "crop": Pair((f32(N, 4, 6, 3),), crop, crop_moved, sizes=SIZES),
    "more than there is": Pair((f32(N, 4, 6, 3),), enlarged),
    "residual": Pair((IMAGE,), block, block_moved, sizes=SIZES, rounds=True),
    "gate": Pair((IMAGE,), gate, gate_moved, sizes=SIZES, rounds=True),
    "classifier": Pair((f32(N, 4, 4, 6),), classifier, classifier_moved, sizes=SIZES, rounds=True),
    "no convolution": Pair((IMAGE,), lambda b, x: b.exp(b.transpose(x, TO_FIRST))),
    "nothing to sum": Pair((f32(N, 3),), lambda b, x: convolve(b, x, 2)),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=list(PAIRS))
def test_channels_lie_last_between_convolutions(pair: Pair) -> None:
    check_pair(tidied, pair)


def tidied(module: Module) -> Module:
    return run_pipeline(module, LAYOUT, [verify_step])


# What lies between two convolutions


def gathered(b: Builder, x: Value) -> Value:
    places = b.constant(np.array([0, 0, 1, 3, 5], np.int64))
    return b.gather(b.gather(x, places, 3), b.div(b.iota((2 * M,), 0, I64), 2), 2)


def repeated(b: Builder, x: Value) -> Value:
    spread = b.broadcast(x, (0, 1, 2, 4), (N, 4, M, 2, 6, 2))
    return b.reshape(spread, (N, 4, 2 * M, 12))


def repeated_in_two_steps(b: Builder, x: Value) -> Value:
    rows = b.reshape(b.broadcast(x, (0, 1, 2, 4), (N, 4, M, 2, 6)), (N, 4, 2 * M, 6))
    return b.reshape(b.broadcast(rows, (0, 1, 2, 3), (N, 4, 2 * M, 6, 3)), (N, 4, 2 * M, 18))


def normalized(b: Builder, x: Value) -> Value:
    shape = x.shape[1:]
    scale, bias = (b.constant(weights(4, 3, 6) + number) for number in (1, 2))
    assert scale.shape == shape
    return b.layer_norm(x, scale, bias, 1, 1e-5)


def spatial_norm(b: Builder, x: Value) -> Value:
    ones = b.full(x.shape[2:], 1.0, F32)
    return b.rms_norm(x, ones, 2, 1e-5)


def split_and_joined(b: Builder, x: Value) -> Value:
    halves = [b.slice_axis(x, 1, start, 2) for start in (0, 2)]
    return b.concatenate([relu(b, halves[1]), halves[0], b.reverse(halves[1], 3)], 1)


def shuffled(b: Builder, x: Value) -> Value:
    split = b.reshape(x, (N, 2, 2, M, 6))
    return b.reshape(b.transpose(split, (0, 2, 1, 3, 4)), (N, 4, M, 6))


def selected(b: Builder, x: Value) -> Value:
    found = pool(b, x, arg=True)
    return b.select(b.less(found, 3), pool(b, x), 0.5)


def padded(b: Builder, x: Value) -> Value:
    return b.pad(x, (0, 1, M, 0), (0, 0, 1, 2), 0.25)


def by_place(b: Builder, x: Value) -> Value:
    counted = b.cast(b.iota(x.shape, 2, I64), F32)
    return b.mul(b.add(x, counted), b.broadcast(b.constant(weights(6)), (3,), x.shape))


def sorted_channels(b: Builder, x: Value) -> Value:
    values, _ = b.sort(x, 1)
    return b.add(values, b.top_k(x, 4, 1)[0])


def local_response(b: Builder, x: Value) -> Value:
    total = b.reduce_window(b.square(x), "sum", (1, 3, 1, 1), (1, 1, 1, 1), (0, 1, 0, 0), (0, 1, 0, 0), (1, 1, 1, 1))
    return b.div(x, b.pow(b.add(b.mul(total, 0.1), 1.0), 0.75))


def mixed_rows(b: Builder, x: Value, *, first: bool = True) -> Value:
    """Each channel of [N, C, M, 6] by itself, by a matrix on either side."""
    matrix = b.constant(weights(6, 6))
    return b.dot(x, matrix, "ncab,bd->ncad") if first else b.dot(matrix, x, "bd,ncab->ncad")


def looked_up(b: Builder, x: Value) -> Value:
    table = b.constant(np.arange(8, dtype=np.float32) ** 2)
    return b.gather(table, b.cast(b.min(b.abs(b.round(x)), 7.0), I64), 0)


def mixed_subsets(b: Builder, x: Value) -> Value:
    """Graph convolution: each subset of the channels by a matrix of its own, and the sum of them."""
    return b.dot(b.reshape(x, (N, 2, 2, M, 6)), b.constant(weights(2, 6, 6)), "nkcab,kbd->ncad")


def mixed_by_image(b: Builder, x: Value) -> Value:
    """By a matrix that is another for each image and row of pixels, and that only the call knows."""
    return b.dot(x, b.reduce(b.mul(x, 0.5), "sum", (1,)), "ncab,nad->ncbd")


BETWEEN: dict[str, tuple[Make, int]] = {
    "pointwise": (lambda b, x: b.gelu(b.sub(b.tanh(x), per_channel(b, x))), 0),
    "per place": (by_place, 0),
    "casts": (lambda b, x: b.cast(b.cast(x, I64), F32), 0),
    "window": (pool, 0),
    "places of extrema": (selected, 0),
    "response across channels": (local_response, 0),
    "pad": (padded, 0),
    "split, reverse and concatenate": (split_and_joined, 0),
    "gather along both axes": (gathered, 0),
    "look up": (looked_up, 0),
    "repeat": (repeated, 0),
    "repeat one axis at a time": (repeated_in_two_steps, 0),
    "softmax over channels": (lambda b, x: b.softmax(x, 1), 0),
    "log_softmax over rows of few channels": (lambda b, x: b.log_softmax(x, 3), 2),
    "running sum": (lambda b, x: b.scan_axis(x, "sum", 1), 0),
    "sort": (sorted_channels, 0),
    "mean over space": (lambda b, x: b.sub(x, b.broadcast_to(b.mean(x, (2, 3), keepdims=True), x.shape)), 0),
    "mean over channels": (lambda b, x: b.sub(x, b.broadcast_to(b.mean(x, (1,), keepdims=True), x.shape)), 0),
    "sum over rows": (lambda b, x: b.unsqueeze(b.reduce(x, "sum", (2,)), (3,)), 0),
    "shuffled channels": (shuffled, 1),
    "norm over space": (spatial_norm, 2),
    "rows of pixels of few channels mixed": (lambda b, x: relu(b, mixed_rows(b, x)), 1),
    "rows of pixels mixed from the left": (lambda b, x: mixed_rows(b, x, first=False), 0),
    "neighbours in a graph": (mixed_subsets, 0),
    "a matrix of each image": (mixed_by_image, 0),
}


def sandwich(middle: Make) -> Make:
    def make(b: Builder, x: Value) -> Value:
        y = middle(b, convolve(b, x, 4))
        assert isinstance(y, Value)
        return convolve(b, y, 2)

    return make


@pytest.mark.parametrize("name", BETWEEN)
def test_what_lies_between_convolutions_is_computed_as_it_lies(name: str) -> None:
    middle, left = BETWEEN[name]
    before = built((IMAGE,), sandwich(middle))
    after = tidied(before)
    # One for the input of the graph, and one for its result.
    assert transposes(after) == left + 2
    assert_same_meaning(before, after, (3, 1, 4), rounds=True, odd=False)


@pytest.mark.parametrize(("channels", "left"), [(1, 2), (63, 4), (64, 2)])
@pytest.mark.parametrize("axis", [2, 3])
@pytest.mark.parametrize("kind", ["softmax", "running sum", "sort"])
def test_lines_of_pixels_lie_beside_each_other_by_many_channels(kind: str, axis: int, channels: int, left: int) -> None:
    """Of one channel the two orders are one; of few, lines are as the program has them."""
    along = {
        "softmax": Builder.softmax,
        "running sum": lambda b, x, at: b.scan_axis(x, "sum", at),
        "sort": Builder.sort,
    }

    def make(b: Builder, x: Value) -> Value:
        y = along[kind](b, convolve(b, x, channels), axis)
        return convolve(b, y[0] if isinstance(y, tuple) else y, 2)

    before = built((f32(N, 4, 5, 6),), make)
    after = tidied(before)
    assert transposes(after) == left
    assert_same_meaning(before, after, (1, 2), rounds=True, odd=False)


def test_layer_norm_over_all_but_the_batch_takes_its_factors_as_they_lie() -> None:
    before = built((f32(N, 4, 3, 6),), sandwich(normalized))
    after = tidied(before)
    assert transposes(after) == 2
    assert_same_meaning(before, after, SIZES, rounds=True, odd=False)


def test_an_index_over_channels_has_no_channels_left_to_move() -> None:
    before = built((IMAGE,), lambda b, x: b.arg_reduce(convolve(b, x, 5), "max", 1))
    after = tidied(before)
    assert transposes(after) == 1
    assert_same_meaning(before, after, SIZES, rounds=False, odd=False)


@pytest.mark.parametrize(
    ("kind", "type", "product"),
    [
        ("channels of both", IMAGE, lambda b, y: b.dot(y, y, "ncab,ndab->ncd")),
        ("channels of both in a batch", IMAGE, lambda b, y: b.dot(y, y, "ncab,ncdb->ncad")),
        ("summed channels", IMAGE, lambda b, y: b.dot(y, b.constant(weights(4, 4)), "ncab,cd->ndab")),
        ("pixels before channels", IMAGE, lambda b, y: b.dot(y, b.constant(weights(6, 6)), "ncab,bd->nacd")),
        ("images in the middle", IMAGE, lambda b, y: b.dot(y, b.constant(weights(6, 6)), "ncab,bd->cnad")),
        ("three axes", f32(N, 4, M), lambda b, y: b.dot(y, b.full((M, 3), 0.5, F32), "nca,ad->ncd")),
    ],
)
def test_other_products_write_their_results_as_they_are_seen(
    kind: str, type: TensorType, product: Callable[[Builder, Value], Value]
) -> None:
    before = built((type,), lambda b, x: product(b, convolve(b, x, 4)))
    after = tidied(before)
    (kept,) = [op for op in walk(after.main.body) if op.name == "dot"]
    (was,) = [op for op in walk(before.main.body) if op.name == "dot"]
    assert kept.text("equation").split("->")[1] == was.text("equation").split("->")[1]
    assert transposes(after) == 1
    assert_same_meaning(before, after, SIZES, rounds=True, odd=False)


def transposes(module: Module) -> int:
    return Counter(op.name for op in walk(module.main.body))["transpose"]


def convolutions(module: Module) -> list[Op]:
    return [op for op in walk(module.main.body) if op.name == "convolution"]


def are_innermost(module: Module) -> bool:
    return all(op.text("dimensions") == channels_innermost(op.result.rank - 2) for op in convolutions(module))


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("stride", "dilation", "spread"), [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2)])
def test_convolutions_of_every_kind_mean_the_same(
    groups: int, rank: int, stride: int, dilation: int, spread: int
) -> None:
    type = f32(N, 4, *(M, 5, 3)[:rank])

    def make(b: Builder, x: Value) -> Value:
        y = convolve(b, x, 8, groups=groups, stride=stride, dilation=dilation, spread=spread)
        return convolve(b, relu(b, y), 4, groups=groups)

    before = built((type,), make)
    after = tidied(before)
    assert are_innermost(after)
    assert transposes(after) == 2
    assert_same_meaning(before, after, SIZES, rounds=False, odd=False)


@pytest.mark.parametrize(
    ("dimensions", "x", "w", "moves"),
    [
        ("n01c,01io->n01c", (N, M, 5, 4), (3, 2, 4, 8), 0),
        ("c1n0,1oi0->0nc1", (4, 5, N, M), (2, 8, 4, 3), 2),
        ("0cn,i0o->n0c", (M, 4, N), (4, 3, 8), 1),
    ],
)
def test_axes_in_any_order_are_put_in_one(dimensions: str, x: tuple[Dim, ...], w: tuple[int, ...], moves: int) -> None:
    rank = len(x) - 2

    def make(b: Builder, image: Value) -> Value:
        ones, pad, steps = [1] * rank, [1] * rank, [2, 1][:rank]
        return b.convolution(image, b.constant(weights(*w)), steps, pad, pad, ones, dimensions=dimensions)

    before = built((f32(*x),), make)
    after = tidied(before)
    assert are_innermost(after)
    assert transposes(after) == moves
    assert_same_meaning(before, after, SIZES, rounds=False, odd=False)


@pytest.mark.parametrize("type", [f32(N, 4, M, 6), f32(N, 4, M)])
def test_a_sum_with_what_lies_otherwise_settles(type: TensorType) -> None:
    before = built((type,), lambda b, x: relu(b, b.add(convolve(b, x, 4), x)))
    after = tidied(before)
    assert transposes(after) == 2
    assert_same_meaning(before, after, SIZES, rounds=False, odd=False)


@pytest.mark.parametrize(("channels", "moves"), [(15, 3), (16, 2)])
def test_rows_of_pixels_are_mixed_where_channels_fill_a_vector(channels: int, moves: int) -> None:
    """Channels that lie last are the columns of that product; of few of them it had better read planes."""
    before = built((IMAGE,), lambda b, x: convolve(b, relu(b, mixed_rows(b, convolve(b, x, channels))), channels))
    after = tidied(before)
    assert transposes(after) == moves
    assert_same_meaning(before, after, SIZES, rounds=True, odd=False)


def test_an_image_is_not_turned_for_a_gate_of_its_channels() -> None:
    """What is convolved is the mean of each channel, and what is multiplied by that is no convolution's result."""

    def make(b: Builder, x: Value) -> Value:
        image = b.exp(x)
        gate = convolve(b, b.mean(image, (2, 3), keepdims=True), 4)
        return b.mul(image, b.broadcast_to(gate, image.shape))

    before = built((IMAGE,), make)
    after = tidied(before)
    assert transposes(after) == 0
    assert_same_meaning(before, after, SIZES, rounds=True, odd=False)


def test_turns_that_move_nothing_do_not_undo_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of three operands of a concatenation are turned was changed to and fro until the limit of rewrites."""
    looks: list[Layout | None] = []
    common = moved_layouts._common

    def counted(operands: Sequence[Value]) -> Layout | None:
        looks.append(common(operands))
        return looks[-1]

    def make(b: Builder, x: Value) -> Value:
        lines = b.reduce(convolve(b, x, 17), "max", (2, 3))
        turned = [b.transpose(b.reshape(each, (N, 17, 1)), (0, 2, 1)) for each in (lines, b.exp(lines))]
        return b.concatenate([*turned, b.slice(b.reshape(lines, (N, 1, 17)), (0, 0, 0), (N, 1, 17))], 1)

    before = built((IMAGE,), make)
    monkeypatch.setattr(moved_layouts, "_common", counted)
    after = tidied(before)
    assert 1 <= len(looks) < 10
    assert_same_meaning(before, after, SIZES, rounds=False, odd=False)


def test_images_of_one_channel_are_not_transposed() -> None:
    after = tidied(built((f32(N, 1, 28, 28),), lambda b, x: b.reduce(convolve(b, x, 4), "max", (2, 3))))
    assert transposes(after) == 0


def test_sizes_that_a_guard_holds_equal_are_written_in_either_way() -> None:
    """Halved and doubled rows meet the rows themselves, as in a U-net."""

    def make(b: Builder, x: Value) -> Value:
        y = convolve(b, x, 4)
        z = convolve(b, repeated_rows(b, pool(b, y)), 4)
        return convolve(b, b.concatenate([y, z], 1), 4)

    def repeated_rows(b: Builder, x: Value) -> Value:
        shape = x.shape
        spread = b.broadcast(x, (0, 1, 2, 4), (*shape[:3], 2, shape[3], 2))
        return b.slice(b.reshape(spread, (N, 4, 2 * shape[2], 2 * shape[3])), (0,) * 4, (N, 4, 2 * shape[2], 6))

    before = built((IMAGE,), make)
    after = tidied(before)
    assert any(op.name == "guard" for op in walk(after.main.body))
    assert transposes(after) == 2
    assert_same_meaning(before, after, (2, 3, 4), rounds=True, odd=False)


def test_a_second_run_changes_nothing() -> None:
    once = tidied(built((IMAGE,), gate))
    assert Counter(op.name for op in walk(tidied(once).main.body)) == Counter(op.name for op in walk(once.main.body))


# Random networks


@composite
def networks(draw: DrawFn) -> Module:
    """Layers of the kinds above over one image, with residual sums, gates and concatenations."""
    layers = draw(st.lists(st.sampled_from(sorted(LAYERS)), min_size=2, max_size=6))
    groups = draw(st.lists(st.sampled_from([1, 2, 4]), min_size=6, max_size=6))

    def make(b: Builder, x: Value) -> tuple[Value, ...]:
        values = [convolve(b, x, 4)]
        for layer, count in zip(layers, groups, strict=False):
            values.append(LAYERS[layer](b, values[-1], values[draw(st.integers(0, len(values) - 1))], count))
        return values[-1], b.reduce(values[-1], "sum", (2, 3))

    return built((IMAGE,), make)


Layer = Callable[[Builder, Value, Value, int], Value]
LAYERS: dict[str, Layer] = {
    "convolution": lambda b, x, y, g: convolve(b, x, 4, groups=g),
    "dilated": lambda b, x, y, g: convolve(b, x, 4, groups=g, dilation=2),
    "sum": lambda b, x, y, g: b.add(x, relu(b, y)),
    "image": lambda b, x, y, g: b.mul(x, b.broadcast_to(b.reduce(y, "max", (1,), keepdims=True), x.shape)),
    "gate": lambda b, x, y, g: b.mul(x, b.broadcast_to(b.tanh(b.reduce(y, "sum", (2, 3), keepdims=True)), x.shape)),
    "join": lambda b, x, y, g: convolve(b, b.concatenate([x, y], 1), 4, groups=g),
    "cut": lambda b, x, y, g: b.concatenate([b.slice_axis(y, 1, 1, 2), b.slice_axis(x, 1, 0, 2)], 1),
    "softmax": lambda b, x, y, g: b.softmax(b.add(x, y), 1),
    "tokens": lambda b, x, y, g: tokens(b, x),
    "shuffle": lambda b, x, y, g: shuffled(b, x),
    "spatial": lambda b, x, y, g: b.add(spatial_norm(b, x), y),
    "graph": lambda b, x, y, g: relu(b, mixed_rows(b, x, first=g == 1)),
}


def tokens(b: Builder, x: Value) -> Value:
    """Pixels as rows of channels, multiplied by a matrix, and back."""
    rows = b.transpose(b.reshape(x, (N, 4, M * 6)), (0, 2, 1))
    mixed = b.dot(rows, b.constant(weights(4, 4)), "ntc,cd->ntd")
    return b.reshape(b.transpose(mixed, (0, 2, 1)), (N, 4, M, 6))


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(module=networks())
def test_random_networks_mean_the_same(module: Module) -> None:
    after = choose_layout(module)
    verify_module(after)
    assert_same_meaning(module, after, (1, 3), rounds=True, odd=False)
    assert_same_meaning(module, tidied(module), (2,), rounds=True, odd=False)


# Models


def moved(module: Module) -> Module:
    return run_pipeline(module, (*OPTIMIZE, *LAYOUT), [verify_step])


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("name", "inner", "ends"), [("resnet", 0, 1), ("mobile", 0, 1), ("unet", 0, 2), ("convnext", 0, 1), ("mlp", 0, 0)]
)
def test_models_move_activations_at_their_ends_only(name: str, inner: int, ends: int, style: Style) -> None:
    loaded = read_model(BUILDERS[name](style).model)
    module = moved(lower_model(check_model(loaded.proto, loaded.folder)))
    assert_left(module, inner, ends)


@pytest.mark.parametrize("name", ["resnet", "mobile", "unet", "convnext", "vision"])
def test_precision_and_layout_together_are_near_the_model(name: str) -> None:
    model = BUILDERS[name]("dynamo")
    loaded = read_model(model.model)
    before = run_pipeline(lower_model(check_model(loaded.proto, loaded.folder)), OPTIMIZE)
    exact, lowered = (run_pipeline(before, target_pipeline("cuda", p), [verify_step]) for p in PRECISIONS)
    # Casts go where the layout goes.
    assert transposes(exact) == transposes(lowered)
    inputs = make_inputs(model.inputs, model.sizes["prime"])
    for results in zip(*(interpret(module, inputs) for module in (before, exact, lowered)), strict=True):
        meant, moved_result, rounded_result = (np.asarray(result) for result in results)
        assert_near(moved_result, meant, bound=1e-5)
        assert_near(rounded_result, meant, bound=4e-2)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_light_models_move_activations_at_their_ends_only(name: str) -> None:
    loaded = read_model(onnx.load(FOLDER / f"light_{name}.onnx"))
    module = moved(lower_model(check_model(loaded.proto, loaded.folder)))
    # Each of the sixteen units of ShuffleNet shuffles its channels.
    assert_left(module, 16 if name == "shufflenet" else 0, 1)


def assert_left(module: Module, inner: int, ends: int) -> None:
    ops = [op for op in walk(module.main.body) if op.name == "transpose"]
    results: Sequence[Value] = module.main.body.results
    outer = [op for op in ops if op.operands[0].op is None or op.result in results]
    assert (len(ops) - len(outer), len(outer)) == (inner, ends)
    assert are_innermost(module)
