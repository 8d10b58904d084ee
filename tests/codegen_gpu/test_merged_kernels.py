"""Kernels that read what the one before writes, element by element, are one with it; little work is done again."""

from collections.abc import Callable

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F32, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.kernel_plan import Segment
from tests.codegen_gpu.support import Device, make, sample

Built = Callable[[Builder, Value], list[Value]]


def _launched(device: Device) -> list[tuple[str, int]]:
    """The kind of each launch, and how many values it writes."""
    segments = [step for step in device.plan.body.steps if isinstance(step, Segment)]
    launches = [launch for segment in segments for launch in segment.launches]
    return [(device.plan.kernels[launch.general.kernel].kind, len(launch.outputs)) for launch in launches]


def _two_of_one(ir: Builder, x: Value) -> list[Value]:
    a = ir.unary("tan", x)
    return [ir.unary("erf", a), ir.unary("asinh", a)]


def _both_wanted(ir: Builder, x: Value) -> list[Value]:
    a = ir.unary("tan", x)
    return [a, ir.unary("erf", a)]


def _chain(ir: Builder, x: Value) -> list[Value]:
    a = ir.unary("tan", x)
    b = ir.unary("asinh", a)
    return [ir.add(a, b), ir.mul(ir.unary("erf", b), a), ir.unary("atan", b)]


def _turned(ir: Builder, x: Value) -> list[Value]:
    a = ir.unary("tan", x)
    return [a, ir.add(ir.transpose(a, (1, 0)), a)]


def _summed(ir: Builder, x: Value) -> list[Value]:
    a = ir.exp(x)
    return [ir.reduce(a, "sum", (1,)), ir.reduce(a, "max", (0,))]


CASES = {
    "two of one": (_two_of_one, [("pointwise", 2)]),
    "both wanted": (_both_wanted, [("pointwise", 2)]),
    "a chain": (_chain, [("pointwise", 3)]),
    "elsewhere": (_turned, [("pointwise", 1), ("pointwise", 1)]),
    "done again": (_summed, [("reduction", 1), ("reduction", 1)]),
}


@pytest.mark.parametrize("size", [0, 1, 5, 70])
@pytest.mark.parametrize("name", CASES)
def test_launches_and_values(name: str, size: int) -> None:
    build, launches = CASES[name]
    device = Device(make([f"f32[{size}, {size}]"], build))
    if size > 1:
        assert _launched(device) == launches
    device.check(sample(F32, size, size), bound=1e-6)


def test_sizes_of_a_call() -> None:
    device = Device(make(["f32[N, 8]"], _chain))
    assert _launched(device) == [("pointwise", 3)]
    for rows in (0, 1, 129):
        device.check(sample(F32, rows, 8), bound=1e-6)


def test_what_is_read_in_another_shape_is_written_first() -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        a = ir.unary("tan", x)
        again = ir.reshape(ir.unary("erf", ir.reshape(a, (64,))), (8, 8))
        return [ir.unary("asinh", a), ir.mul(again, a)]

    device = Device(make(["f32[8, 8]"], build))
    device.check(sample(F32, 8, 8), bound=1e-6)
    assert np.isfinite(device(sample(F32, 8, 8))[1]).all()


@pytest.mark.parametrize("sizes", [(3, 1, 2, 5, 0, 4), (1, 1, 1, 1, 1, 1), (0, 0, 0, 0, 0, 0)])
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_what_follows_many_parts_is_computed_as_they_are_joined(dtype: DType, sizes: tuple[int, ...]) -> None:
    def build(ir: Builder, *parts: Value) -> list[Value]:
        joined = ir.concatenate(list(parts), 1)
        scale = ir.iota((sum(sizes),), 0, dtype)
        return [ir.max(ir.add(ir.mul(joined, ir.broadcast(scale, (1,), joined.shape)), 0.5), 0.0)]

    device = Device(make([f"{dtype}[N, {size}]" for size in sizes], build))
    assert _launched(device) == [("concatenate", 1)]
    for rows in (0, 1, 300):
        device.check(*(sample(dtype, rows, size, seed=k) for k, size in enumerate(sizes)), bound=1e-2)


def test_joined_parts_that_others_want_too_are_written() -> None:
    def build(ir: Builder, *parts: Value) -> list[Value]:
        joined = ir.concatenate(list(parts), 0)
        return [joined, ir.exp(joined)]

    device = Device(make(["f32[N]"] * 5, build))
    device.check(*(sample(F32, 7, seed=k) for k in range(5)), bound=1e-6)
