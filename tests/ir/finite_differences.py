"""Gradients of small programs, beside central differences of the same program, both run by the interpreter in f64."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.differentiation.differentiate import gradients
from onnxc.compiler.ir.dim_symbols import evaluate, symbols_of
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import F64
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Function, Module, Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.ir.verifier import verify_module
from tests.support.arrays import assert_within

Make = Callable[..., Value]
"""A program: from (builder, values...) to one value."""

Shape = Sequence[Dim]

STEP = 1e-5
N, M, K = (Size.symbol(name) for name in "NMK")


def program(make: Make, shapes: Sequence[Shape], order: int = 1) -> Module:
    """(x0, x1, ..., seed) -> the program's y, then the gradient of sum(seed * y) for each x.

    Of a higher order: instead of y, the sum of all gradients of the order before it, weighted by what tells them apart.
    """
    build = Builder()
    xs = [build.parameter(f"x{place}", TensorType(F64, tuple(shape))) for place, shape in enumerate(shapes)]
    symbols = sorted({name for shape in shapes for dim in shape for name in symbols_of(dim)})
    y = make(build, *xs)
    for _ in range(order - 1):
        found = gradients(y, xs, build)
        y = build.scalar(0.0, F64)
        for place, gradient in enumerate(found):
            y = build.add(
                y,
                build.reduce(build.mul(_weights(gradient.shape, place, build), gradient), "sum", range(gradient.rank)),
            )
    seed = build.parameter("seed", y.type)
    results = (y, *gradients(y, xs, build, seed))
    names = ("y", *(f"g{place}" for place in range(len(xs))))
    ranges = dict.fromkeys(symbols, (0, None))
    module = Module("m", (Function("main", build.block([*xs, seed], results), names, ranges),))
    verify_module(module)
    return module


def _weights(shape: Shape, place: int, build: Builder) -> Value:
    """Numbers that are no symmetric pattern."""
    total = build.full(shape, 0.3 + place, F64)
    for axis in range(len(shape)):
        total = build.add(total, build.mul(build.unary("sin", build.iota(shape, axis, F64)), 1.7 + axis))
    return total


def assert_gradients(
    make: Make,
    *arrays: np.ndarray,
    shapes: Sequence[Shape] | None = None,
    order: int = 1,
    tolerance: float = 1e-6,
) -> list[np.ndarray]:
    """The gradients for each of `arrays`, which agree with central differences; `shapes` may be symbolic."""
    arrays = tuple(np.asarray(array, np.float64) for array in arrays)
    module = program(make, shapes or [array.shape for array in arrays], order)
    inputs = {f"x{place}": array for place, array in enumerate(arrays)}
    seed_type = module.main.body.parameters[-1].type
    assert isinstance(seed_type, TensorType)
    seed = np.random.default_rng(5).normal(0, 1, _shape_of(seed_type.known_shape, shapes, arrays))

    def run(changed: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        return [np.asarray(value) for value in interpret(module, {**changed, "seed": seed})]

    _, *found = run(inputs)
    for place, (array, gradient) in enumerate(zip(arrays, found, strict=True)):
        assert (gradient.dtype, gradient.shape) == (np.float64, array.shape)
        expected = np.zeros(array.shape)
        for index in np.ndindex(array.shape):
            above, below = (_moved(array, index, by) for by in (STEP, -STEP))
            difference = run({**inputs, f"x{place}": above})[0] - run({**inputs, f"x{place}": below})[0]
            expected[index] = (seed * difference).sum() / (2 * STEP)
        why = f"differences over steps of {STEP}, of x{place}"
        assert_within(gradient, expected, relative=tolerance, absolute=tolerance, why=why)
    return found


def _moved(array: np.ndarray, index: tuple[int, ...], by: float) -> np.ndarray:
    moved = array.copy()
    moved[index] += by
    return moved


def _shape_of(dims: Shape, shapes: Sequence[Shape] | None, arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
    sizes = {}
    for shape, array in zip(shapes or (), arrays, strict=False):
        sizes.update({str(dim): size for dim, size in zip(shape, array.shape, strict=True) if isinstance(dim, Size)})
    return tuple(evaluate(dim, sizes) for dim in dims)


def gradients_at(make: Make, *arrays: np.ndarray) -> list[np.ndarray]:
    """The gradients of the sum of the program's value, as they are."""
    module = program(make, [array.shape for array in arrays])
    inputs = {f"x{place}": array for place, array in enumerate(arrays)}
    type = module.main.body.results[0].tensor
    shape = tuple(evaluate(dim, {}) for dim in type.known_shape)
    return [np.asarray(value) for value in interpret(module, {**inputs, "seed": np.ones(shape)})[1:]]
