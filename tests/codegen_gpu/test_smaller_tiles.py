"""Kernels of one tile for their elements have smaller ones behind it, for what has stack: each computes the same."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.planning.schedules import Schedule, Warps
from tests.codegen_gpu.callers_code import affine
from tests.codegen_gpu.support import Device, make, sample

Arrays = Sequence[np.ndarray]

WHOLE = np.random.default_rng(0).integers(-4, 5, (16, 1, 3, 3)).astype(np.float32)
UPDATES = np.random.default_rng(1).integers(0, 3, (100, 1))


def _windows(ir: Builder, x: Value) -> Value:
    return ir.reduce_window(x, "max", (1, 1, 3, 3), (1,) * 4, (0,) * 4, (0,) * 4, (1,) * 4)


def _channels(dimensions: str | None) -> Callable[[Builder, Value], Value]:
    def build(ir: Builder, x: Value) -> Value:
        w = ir.constant(WHOLE)
        return ir.convolution(x, w, (1, 1), (1, 1), (1, 1), (1, 1), 16, dtype=F32, dimensions=dimensions)

    return build


def _scattered(kind: str) -> Callable[..., Value]:
    return lambda ir, x, i, u: ir.scatter_nd(x, i, u, kind)


def _flat(x: Value, ir: Builder) -> Value:
    return ir.unary("asinh", ir.unary("erf", x))


FORMS: dict[str, tuple[Module, Arrays, list[str]]] = {
    "pointwise": (
        make(["f32[N, 3]"], lambda ir, x: _flat(x, ir)),
        [sample(F32, 700, 3)],
        ["512 elements", "256 elements"],
    ),
    "crossed": (make(["f32[N, 70]"], lambda ir, x: ir.transpose(x, (1, 0))), [sample(F32, 65, 70)], ["32 elements"]),
    "gather": (
        make(["f32[N, 3]", "i64[700]"], lambda ir, x, i: ir.gather(x, i, 0)),
        [sample(F32, 5, 3), np.random.default_rng(0).integers(0, 5, 700)],
        ["512 elements", "256 elements"],
    ),
    "concatenate": (
        make(["f32[N, 3]", "f32[N, 5]"], lambda ir, x, y: ir.concatenate([x, y], 1)),
        [sample(F32, 300, 3), sample(F32, 300, 5, seed=1)],
        ["512 elements", "256 elements"],
    ),
    "window": (make(["f32[N, 3, 9, 11]"], _windows), [sample(F32, 4, 3, 9, 11)], ["256 elements", "128 elements"]),
    "few updates": (
        make(["f32[N, 400]", "i64[7, 1]", "f32[7, 400]"], _scattered("add")),
        [sample(F32, 3, 400), UPDATES[:7], sample(F32, 7, 400, seed=1)],
        ["512 elements", "256 elements"],
    ),
    "last updates": (
        make(["f32[N, 40]", "i64[100, 1]", "f32[100, 40]"], _scattered("set")),
        [sample(F32, 3, 40), UPDATES, sample(F32, 100, 40, seed=1)],
        ["512 elements", "256 elements"],
    ),
    "sorted updates": (
        make(["f32[3, 40]", "i64[100, 1]", "f32[100, 40]"], _scattered("add")),
        [sample(F32, 3, 40), UPDATES, sample(F32, 100, 40, seed=1)],
        ["128 elements", "64 elements"],
    ),
    "elements of a caller's code": (
        make(["f32[N, 3]"], affine),
        [sample(F32, 700, 3)],
        ["512 elements", "256 elements"],
    ),
    "sums of each lane": (
        make(["i32[N, 20]", "i32[20, 40]"], lambda ir, a, b: ir.dot(a, b, "mk,kn->mn")),
        [np.arange(60 * 20, dtype=np.int32).reshape(60, 20), np.arange(800, dtype=np.int32).reshape(20, 40)],
        ["1 x 512", "1 x 256"],
    ),
    "depthwise": (
        make(["f32[N, 9, 11, 16]"], _channels("n01c,oi01->n01c")),
        [sample(F32, 2, 9, 11, 16)],
        ["32 x 16", "16 x 16"],
    ),
    "depthwise, channels first": (
        make(["f32[N, 16, 9, 11]"], _channels(None)),
        [sample(F32, 2, 16, 9, 11)],
        ["1 x 256", "1 x 128"],
    ),
}
"""A module of one kernel, operands, and what is behind its tile."""


def _row(module: Module) -> list[Schedule]:
    """The schedules of the only kernel in the order in which they are tried."""
    (schedule,) = (kernel.schedule for kernel in Device(module).plan.kernels)
    return [schedule, *schedule.fallbacks]


@pytest.mark.parametrize("form", FORMS)
def test_less_of_a_tile_for_as_many_threads_is_behind_it(form: str) -> None:
    module, _, behind = FORMS[form]
    first, *others = _row(module)
    assert [each.brief.split(",")[0] for each in others] == behind
    assert {each.workers for each in others} == {first.workers}


@pytest.mark.parametrize("form", FORMS)
def test_smaller_tiles_compute_the_same(form: str) -> None:
    module, arrays, _ = FORMS[form]
    for schedule in _row(module)[1:]:
        Device(module, schedule=schedule).check(*arrays, bound=1e-5)


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257])
def test_the_smallest_tile_at_odd_sizes(count: int) -> None:
    module = FORMS["pointwise"][0]
    x = sample(F32, count, 3)
    if count > 4:
        x.flat[:4] = np.nan, np.inf, -np.inf, -0.0
    Device(module, schedule=_row(module)[-1]).check(x, bound=1e-5)


@pytest.mark.parametrize(("shape", "behind"), [((), 0), ((1,), 0), ((0,), 0), ((63,), 0), ((127,), 1), ((1023,), 2)])
def test_what_is_small_has_fewer_smaller_tiles(shape: tuple[int, ...], behind: int) -> None:
    module = make([f"f32[{', '.join(map(str, shape))}]"], lambda ir, x: ir.neg(x))
    assert [len(kernel.schedule.fallbacks) for kernel in Device(module).plan.kernels] == [behind]


MORE_WARPS: dict[str, tuple[Module, Arrays]] = {
    "sums of rows": (make(["f32[40, 700]"], lambda ir, x: ir.reduce(x, "sum", (1,))), [sample(F32, 40, 700)]),
    "softmax": (make(["f32[5, 1000]"], lambda ir, x: ir.softmax(x, 1)), [sample(F32, 5, 1000)]),
    "a shared row": (make(["f32[1, 300000]"], lambda ir, x: ir.reduce(x, "max", (1,))), [sample(F32, 1, 300000)]),
    "scan": (make(["f32[3, 1100]"], lambda ir, x: ir.scan_axis(x, "sum", 1, False, False)), [sample(F32, 3, 1100)]),
    "shared lines": (
        make(["f32[1, 70000]"], lambda ir, x: ir.scan_axis(x, "max", 1, False, False)),
        [sample(F32, 1, 70000)],
    ),
    "positions": (
        make(["f32[50000]"], lambda ir, x: ir.true_positions(ir.less(0.0, x), 30000)),
        [sample(F32, 50000)],
    ),
}
"""A module of one kernel whose tile may be no smaller, as a row that is folded, and operands."""


@pytest.mark.parametrize("form", MORE_WARPS)
def test_the_same_tile_in_more_warps_is_behind_what_folds(form: str) -> None:
    module, arrays = MORE_WARPS[form]
    first, *others = _row(module)
    assert isinstance(first.workers, Warps)
    assert [each.workers for each in others] == [Warps(2 * first.workers.count, first.workers.stages)]
    Device(module, schedule=others[0]).check(*arrays, bound=1e-5)
