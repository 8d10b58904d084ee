"""Elements that are picked near each other: loaded side by side, and brought to their lanes."""

from collections.abc import Callable

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_text import parse_dim
from onnxc.compiler.ir.dtypes import DTYPES, F32, I64
from onnxc.compiler.ir.module import Value, walk
from onnxc.compiler.ir.primitives.indexed import HELD, INSIDE, NEIGHBORS
from onnxc.compiler.passes.lower.known_indices import known_indices
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make, sample

Build = Callable[[Builder, Value, Callable[..., Value]], Value]

FORMS: dict[str, Build] = {
    "rows": lambda ir, x, at: ir.gather(x, at(), 1),
    "indices in a column": lambda ir, x, at: ir.gather(x, at(-1, 1), 1),
    "indices in a row": lambda ir, x, at: ir.gather(x, at(1, -1), 1),
    "columns": lambda ir, x, at: ir.gather(ir.transpose(x, (1, 0)), at(), 0),
    "rows of columns": lambda ir, x, at: ir.gather(ir.transpose(ir.reshape(x, (x.shape[1], 3)), (1, 0)), at(), 1),
    "a part": lambda ir, x, at: ir.gather(ir.slice(x, (1, 0), (2, x.shape[1])), at(), 1),
    "backwards": lambda ir, x, at: ir.reverse(ir.gather(x, at(), 1), 1),
    "a frame": lambda ir, x, at: ir.pad(ir.gather(x, at(), 1), (1, 3), (0, 5)),
    "cut and framed": lambda ir, x, at: ir.pad(ir.slice_axis(ir.gather(x, at(), 1), 1, 1, 2), (1, 9), (0, 2)),
    "two in frames": lambda ir, x, at: ir.add(
        ir.pad(ir.gather(x, at(), 1), (0, 5), (0, 0)), ir.pad(ir.gather(x, at(), 1), (0, 0), (0, 5))
    ),
    "what is computed": lambda ir, x, at: ir.gather(ir.add(x, x), at(), 1),
    "two that are added": lambda ir, x, at: ir.add(ir.gather(x, at(), 1), ir.reverse(ir.gather(x, at(), 1), 0)),
}

INDICES: dict[str, tuple[int, np.ndarray]] = {
    "twice each": (20, np.arange(40) // 2),
    "three for two": (22, np.arange(33) * 2 // 3),
    "the last ones": (20, np.minimum(np.arange(12) + 12, 19)),
    "the first again": (9, np.maximum(np.arange(13) - 4, 0).clip(0, 8)),
    "one": (11, np.full(17, 10)),
    "few": (20, np.array([3, 3, 4])),
    "a row of one vector": (8, np.arange(16) // 2),
    "a row shorter than a vector": (5, np.arange(10) // 2),
}


def _native(type: str, size: int, indices: np.ndarray, build: Build, target: Target) -> Native:
    def built(ir: Builder, x: Value) -> Value:
        return build(ir, x, lambda *shape: ir.constant(indices.reshape(shape or (-1,))))

    module = known_indices(make([f"{type}[3, {size}]"], built))
    assert {op.attributes.get("known") for op in walk(module.main.body) if op.name == "gather"} == {NEIGHBORS}
    return Native(module, target)


@pytest.mark.parametrize("indices", INDICES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_values(target: Target, form: str, indices: str) -> None:
    size, array = INDICES[indices]
    native = _native("f32", size, array, FORMS[form], target)
    native.check(np.arange(3 * size, dtype=np.float32).reshape(3, size) + 1)


@pytest.mark.parametrize("name", ["f64", "f16", "bf16", "i64", "i32", "u32", "i16", "u8", "bool"])
def test_element_types(name: str) -> None:
    dtype = DTYPES[name]
    native = _native(name, 20, np.arange(40) // 2, FORMS["rows"], EVERY_TARGET[0])
    native.check(sample(dtype, 3, 20))


def test_what_is_known_of_indices() -> None:
    given = {
        "steps of two": (np.arange(10) * 2, INSIDE),
        "a step back": (np.array([1, 2, 1]), INSIDE),
        "neighbors": (np.arange(20), NEIGHBORS),
        "a row of one": (np.array([3]), NEIGHBORS),
        "one": (np.array(3), INSIDE),
        "one outside": (np.array([3, 20]), None),
        "one below": (np.array([0, -1]), None),
        "none": (np.zeros((0,)), None),
    }
    for name, (indices, known) in given.items():
        module = make(["f32[3, 20]"], lambda ir, x, i=indices: ir.gather(x, ir.constant(i.astype(np.int64)), 1))
        for _ in range(2):
            module = known_indices(module)
            (op,) = (op for op in walk(module.main.body) if op.name == "gather")
            assert op.attributes.get("known") == known, name


@pytest.mark.parametrize("types", [["f32[3, N]"], ["f32[3, 20]", "i64[4]"]])
def test_nothing_is_known_of_what_a_call_decides(types: list[str]) -> None:
    def build(ir: Builder, x: Value, indices: Value | None = None) -> Value:
        return ir.gather(x, ir.constant(np.array([0, 1])) if indices is None else indices, 1)

    module = known_indices(make(types, build))
    assert all("known" not in op.attributes for op in walk(module.main.body))


@pytest.mark.parametrize(
    ("low", "high", "known"),
    [(0, "N - 1", HELD), (2, "N - 1", HELD), (0, "N - 2", None), (-1, "N - 1", None), (0, "N", None), (0, 3, None)],
)
def test_what_is_held_between_the_ends_of_an_axis(low: int, high: str | int, known: str | None) -> None:
    def build(ir: Builder, x: Value, indices: Value) -> Value:
        last = ir.scalar(high, I64) if isinstance(high, int) else ir.size(parse_dim(high))
        return ir.gather(x, ir.clamp(indices, low, last), 1)

    module = known_indices(make(["f32[3, N]", "i64[K]"], build))
    (op,) = (op for op in walk(module.main.body) if op.name == "gather")
    assert op.attributes.get("known") == known


PICKS: dict[str, Callable[[int], np.ndarray]] = {
    "twice each": lambda size: np.arange(2 * size) // 2,
    "backwards": lambda size: np.arange(size)[::-1],
    "far apart": lambda size: np.arange(3 * size) * 7 % size,
    "near, then far": lambda size: np.concatenate([np.zeros(16), np.arange(19) * (size - 1) // 18]),
    "the last": lambda size: np.full(37, size - 1),
    "one": lambda size: np.array([size // 2]),
    "none": lambda size: np.zeros(0),
}


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("size", [1, 5, 15, 16, 17, 40])
@pytest.mark.parametrize("picks", PICKS)
@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_columns_that_a_call_picks(target: Target, picks: str, size: int, held: bool) -> None:
    def build(ir: Builder, x: Value, indices: Value) -> list[Value]:
        at = ir.clamp(indices, 0, ir.sub(ir.size(x.shape[1]), 1)) if held else indices
        return [ir.gather(x, at, 1), ir.add(ir.gather(x, at, 1), 1.0)]

    native = Native(known_indices(make(["f32[3, N]", "i64[K]"], build)), target)
    native.check(np.arange(3 * size, dtype=np.float32).reshape(3, size) + 1, PICKS[picks](size).astype(np.int64))


@pytest.mark.parametrize("given", [[0, 1, 2, 20], [-1, 0, 1], [2**40] * 17, [0] * 16 + [-(2**62)]])
def test_columns_outside_are_reported(given: list[int]) -> None:
    native = Native(make(["f32[3, N]", "i64[K]"], lambda ir, x, at: ir.gather(x, at, 1)))
    native.check(np.ones((3, 20), np.float32), np.array(given), reports=True)


@pytest.mark.parametrize("given", [[0, 1, 2, 20], [-1, 0, 1], [2**40] * 17, []])
@pytest.mark.parametrize("size", [0, 1, 20])
def test_columns_that_are_held_inside(size: int, given: list[int]) -> None:
    """Nothing is inside of an axis without elements."""

    def build(ir: Builder, x: Value, at: Value) -> Value:
        return ir.gather(x, ir.clamp(at, 0, ir.sub(ir.size(x.shape[1]), 1)), 1)

    native = Native(known_indices(make(["f32[3, N]", "i64[K]"], build)))
    native.check(np.ones((3, size), np.float32), np.array(given, np.int64), reports=not size and len(given) > 0)


@pytest.mark.parametrize("name", ["f64", "f32", "f16", "bf16", "i64", "i32", "u8", "bool", "c64"])
@pytest.mark.parametrize("columns", [1, 3, 16, 40, 1100])
def test_rows_that_are_picked_again(name: str, columns: int) -> None:
    def build(ir: Builder, x: Value, rows: Value, columns: Value) -> Value:
        return ir.gather(ir.gather(x, rows, 1), columns, 2)

    native = Native(make([f"{name}[A, B, C]", "i64[R]", "i64[K]"], build))
    x = sample(DTYPES[name], 2, 5, 20)
    for rows in (np.arange(10) // 2, np.array([3, 3, 3]), np.array([4, 0, 0, 4]), np.arange(5)[::-1].copy()):
        native.check(x, rows, np.arange(columns) % 20)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("columns", [1, 3, 40])
def test_columns_of_few_channels(columns: int, channels: int) -> None:
    def build(ir: Builder, x: Value, weights: Value, columns: Value) -> Value:
        picked = ir.gather(ir.gather(x, ir.constant(np.arange(10) // 2), 1), columns, 2)
        return ir.add(ir.mul(picked, ir.broadcast(weights, (2,), picked.shape)), picked)

    native = Native(make([f"f32[N, 5, 20, {channels}]", "f32[K]", "i64[K]"], build))
    for images in (0, 1, 3):
        native.check(sample(F32, images, 5, 20, channels), sample(F32, columns), np.arange(columns) // 2 % 20)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_rows_are_repeated_by_whoever_wrote_the_one_before(threads: int) -> None:
    def build(ir: Builder, x: Value, rows: Value, columns: Value) -> Value:
        return ir.gather(ir.gather(x, rows, 1), columns, 2)

    module = make(["f32[A, B, C]", "i64[R]", "i64[K]"], build)
    native = Native(module, threads=threads)
    x = np.random.default_rng(0).standard_normal((4, 100, 200)).astype(np.float32)
    for columns in (400, 20_000):
        native.check(x, np.arange(200) // 2, np.arange(columns) * 200 // columns)
