"""From every sharding of a value to every other: what each device holds afterwards."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Function, Module
from onnxc.compiler.ir.sharding import Axes, Mesh, Sharding
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.sharding.exchange import Exchange, local_shape
from onnxc.compiler.sharding.partition import Share
from onnxc.runtime.devices.device_threads import run_on_devices
from tests.sharding.virtual_devices import SECONDS

GRID = Mesh((("d0", 2), ("d1", 2)))
CHOICES: tuple[Axes, ...] = ((), ("d0",), ("d1",), ("d0", "d1"), ("d1", "d0"))


def shardings(*, partial: bool) -> Iterator[Sharding]:
    for dims in itertools.product(CHOICES, repeat=2):
        for parts in ((), ("d0",), ("d1",), ("d0", "d1")) if partial else ((),):
            sharding = Sharding(dims, parts, "sum" if parts else "")
            if sharding.problem(GRID, 2) is None:
                yield sharding


def converted(shape: tuple[int, int], source: Sharding, target: Sharding) -> Module:
    build = Builder()
    x = build.parameter("x", TensorType(F32, local_shape(shape, source, GRID)))
    device = build.parameter("device", TensorType(I64, ()))
    y = Exchange(build, GRID, device, range(GRID.devices)).convert(x, shape, source, target)
    return Module("m", (Function("main", build.block([x, device], [y]), ("y",)),))


def held(whole: np.ndarray, sharding: Sharding, device: int) -> np.ndarray:
    """What a device holds; of parts all is in the first."""
    block = Share(whole, sharding).of_device(GRID, device)
    return block if GRID.block(device, sharding.partial) == 0 else np.zeros_like(block)


def run(shape: tuple[int, int], source: Sharding, target: Sharding) -> list[np.ndarray]:
    whole = np.arange(1, 1 + shape[0] * shape[1], dtype=np.float32).reshape(shape)
    module = converted(shape, source, target)

    def on(device: int) -> np.ndarray:
        (result,) = interpret(module, {"x": held(whole, source, device), "device": np.array(device)})
        return np.asarray(result)

    return run_on_devices(GRID.devices, on, SECONDS)


def expect(shape: tuple[int, int], source: Sharding, target: Sharding) -> None:
    """Each device holds its block; beyond the end of an axis anything may be."""
    whole = np.arange(1, 1 + shape[0] * shape[1], dtype=np.float32).reshape(shape)
    inside = np.ones(shape, np.float32)
    for device, made in enumerate(run(shape, source, target)):
        block, mask = (Share(array, target).of_device(GRID, device) for array in (whole, inside))
        np.testing.assert_array_equal(made * mask, block, f"{source} to {target} on {device}")


@pytest.mark.parametrize("shape", [(4, 8), (5, 6), (3, 1)])
@pytest.mark.parametrize("source", list(shardings(partial=True)), ids=str)
def test_any_sharding_becomes_any_other(shape: tuple[int, int], source: Sharding) -> None:
    for target in shardings(partial=False):
        expect(shape, source, target)


def test_parts_stay_parts_where_they_are_asked_for() -> None:
    parts = Sharding(((), ()), ("d0",), "sum")
    divided = Sharding(((), ("d1",)), ("d0",), "sum")
    made = run((2, 4), parts, divided)
    assert [array.tolist() for array in made] == [
        [[1, 2], [5, 6]], [[3, 4], [7, 8]], [[0, 0], [0, 0]], [[0, 0], [0, 0]],
    ]  # fmt: skip
