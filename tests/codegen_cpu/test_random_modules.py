"""Random programs of pointwise ops, movements, folds and anchors: compiled ones give what the interpreter gives.

Arithmetic is of integers that wrap, and of floats that are not summed, so that results are equal to the bit.
"""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, composite

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, Size, product
from onnxc.compiler.ir.dtypes import BF16, BOOL, F32, I8, I32, I64, DType
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make, sample

N, M = Size.symbol("N"), Size.symbol("M")
TYPES = ["f32[N, M]", "i32[N, 6, M]", "i32[4, M]", "f32[3, N, 2]", "bool[N, M]", "i8[]", "bf16[M]"]
SHAPES = [(3, 5), (1, 1), (0, 4), (2, 0), (2, 17), (18, 3)]
REPEATS: list[Dim] = [2, 3, N, M]
LARGEST_RANK = 4
LARGEST_FACTOR = 200
"""What the plain numbers in a shape may multiply to."""


class Writer:
    """Draws ops on the values made so far."""

    def __init__(self, draw: DrawFn, ir: Builder, values: tuple[Value, ...]) -> None:
        self.draw, self.ir, self.values = draw, ir, list(values)

    def step(self) -> None:
        """One more op; what is too large is left out."""
        names = [
            "unary",
            "binary",
            "binary",
            "compare",
            "select",
            "cast",
            "transpose",
            "slice",
            "reverse",
            "merge",
            "split",
        ]
        names += ["new_axis", "repeat", "pad", "concatenate", "pick", "fold", "fold", "add_places", "scan", "window"]
        made = getattr(self, f"_{self.draw(st.sampled_from(names))}")(self.draw(st.sampled_from(self.values)))
        if made is not None and made.rank <= LARGEST_RANK and _factor(made.shape) <= LARGEST_FACTOR:
            self.values.append(made)

    def _number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def _axis(self, x: Value) -> int:
        return self._number(0, x.rank - 1)

    def _unary(self, x: Value) -> Value:
        names = ("not",) if x.dtype.is_bool else ("neg", "abs", "sign", "floor")
        return self.ir.unary(self.draw(st.sampled_from(names)), x)

    def _partner(self, x: Value) -> Value:
        """A value of the same type whose shape broadcasts to that of x, or a number."""
        fitting = [y for y in self.values if y.dtype == x.dtype and _fits(y.shape, x.shape)]
        return self.draw(st.sampled_from([*fitting, self.ir.scalar(1, x.dtype)]))

    def _binary(self, x: Value) -> Value:
        names = ("and", "or", "xor") if x.dtype.is_bool else ("add", "sub", "mul", "min", "max")
        return self.ir.binary(self.draw(st.sampled_from(names)), *self._swapped(x, self._partner(x)))

    def _swapped(self, x: Value, y: Value) -> tuple[Value, Value]:
        return (y, x) if self.draw(st.booleans()) else (x, y)

    def _compare(self, x: Value) -> Value:
        return self.ir.binary(self.draw(st.sampled_from(("equal", "less", "less_equal"))), x, self._partner(x))

    def _select(self, x: Value) -> Value | None:
        conditions = [c for c in self.values if c.dtype.is_bool and _fits(c.shape, x.shape)]
        return self.ir.select(self.draw(st.sampled_from(conditions)), x, self._partner(x)) if conditions else None

    def _cast(self, x: Value) -> Value:
        return self.ir.cast(x, self.draw(st.sampled_from((F32, I32, I8, BOOL, BF16, I64))))

    def _transpose(self, x: Value) -> Value:
        return self.ir.transpose(x, self.draw(st.permutations(range(x.rank))))

    def _slice(self, x: Value) -> Value:
        starts, sizes, steps = [], [], []
        for size in x.shape:
            known = size if isinstance(size, int) else 0
            start, step = (self._number(0, known), self._number(1, 3)) if known else (0, 1)
            starts.append(start)
            steps.append(step)
            sizes.append(-(-(known - start) // step) if known else size)
        return self.ir.slice(x, starts, sizes, steps)

    def _reverse(self, x: Value) -> Value | None:
        return self.ir.reverse(x, self._axis(x)) if x.rank else None

    def _merge(self, x: Value) -> Value | None:
        if x.rank < 2:
            return None
        axis = self._number(0, x.rank - 2)
        return self.ir.reshape(x, (*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2 :]))

    def _split(self, x: Value) -> Value | None:
        even = [axis for axis, size in enumerate(x.shape) if isinstance(size, int) and size and size % 2 == 0]
        if not even:
            return None
        axis = self.draw(st.sampled_from(even))
        return self.ir.reshape(x, (*x.shape[:axis], 2, x.shape[axis] // 2, *x.shape[axis + 1 :]))

    def _new_axis(self, x: Value) -> Value:
        return self.ir.unsqueeze(x, [self._number(0, x.rank)])

    def _repeat(self, x: Value) -> Value:
        place = self._number(0, x.rank)
        axes = [axis + (axis >= place) for axis in range(x.rank)]
        size = self.draw(st.sampled_from(REPEATS))
        return self.ir.broadcast(x, axes, (*x.shape[:place], size, *x.shape[place:]))

    def _pad(self, x: Value) -> Value:
        low, high = ([self._number(0, 2) for _ in x.shape] for _ in range(2))
        return self.ir.pad(x, low, high, 1)

    def _concatenate(self, x: Value) -> Value | None:
        if not x.rank:
            return None
        same = [y for y in self.values if y.type == x.type]
        return self.ir.concatenate([x, self.draw(st.sampled_from(same))], self._axis(x))

    def _pick(self, x: Value) -> Value | None:
        known = [axis for axis, size in enumerate(x.shape) if isinstance(size, int) and size]
        if not known:
            return None
        axis = self.draw(st.sampled_from(known))
        size = x.shape[axis]
        assert isinstance(size, int)
        indices = self.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=5))
        return self.ir.gather(x, self.ir.constant(np.array(indices, np.int64)), axis)

    def _fold(self, x: Value) -> Value | None:
        if not x.rank:
            return None
        kinds = (
            ("min", "max") if x.dtype.is_float else ("and", "or") if x.dtype.is_bool else ("sum", "min", "max", "prod")
        )
        axes = self.draw(st.sets(st.integers(0, x.rank - 1), min_size=1))
        keepdims = self.draw(st.booleans())
        return self.ir.reduce(x, self.draw(st.sampled_from(kinds)), sorted(axes), keepdims)

    def _add_places(self, x: Value) -> Value | None:
        if not x.rank or x.dtype.is_bool:
            return None
        return self.ir.add(x, self.ir.iota(x.shape, self._axis(x), x.dtype))

    def _scan(self, x: Value) -> Value | None:
        if not x.rank or x.dtype.is_bool:
            return None
        kind = self.draw(st.sampled_from(("min", "max") if x.dtype.is_float else ("sum", "max")))
        return self.ir.scan_axis(x, kind, self._axis(x), *(self.draw(st.booleans()) for _ in range(2)))

    def _window(self, x: Value) -> Value | None:
        if not x.rank or x.dtype.is_bool:
            return None
        kind = self.draw(st.sampled_from(("min", "max") if x.dtype.is_float else ("sum", "max")))
        window, strides = ([self._number(1, 3) for _ in x.shape] for _ in range(2))
        # Padded by at least the window, so that every size has a result.
        return self.ir.reduce_window(x, kind, window, strides, window, [1] * x.rank, [1] * x.rank)


def _factor(shape: tuple[Dim, ...]) -> int:
    numbers = product(shape)
    if isinstance(numbers, int):
        return numbers
    return sum(abs(factor) for _, factor in numbers.terms)


def _fits(shape: tuple[Dim, ...], target: tuple[Dim, ...]) -> bool:
    """Whether the shape certainly broadcasts to the target, and to nothing larger."""
    if len(shape) > len(target):
        return False
    pairs = zip(shape, target[len(target) - len(shape) :], strict=True)
    return all(size in (1, wanted) for size, wanted in pairs)


@composite
def modules(draw: DrawFn) -> Module:
    def build(ir: Builder, *parameters: Value) -> list[Value]:
        writer = Writer(draw, ir, parameters)
        for _ in range(draw(st.integers(1, 14))):
            writer.step()
        made = writer.values[len(parameters) :]
        kept = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique_by=id)) if made else [parameters[0]]
        return [*dict.fromkeys([*kept, writer.values[-1]])]

    return make(TYPES, build)


def _arrays(rows: int, columns: int) -> list[np.ndarray]:
    shapes: list[tuple[DType, tuple[int, ...]]] = [
        (F32, (rows, columns)), (I32, (rows, 6, columns)), (I32, (4, columns)), (F32, (3, rows, 2)),
        (BOOL, (rows, columns)), (I8, ()), (BF16, (columns,)),
    ]  # fmt: skip
    return [sample(dtype, *shape, seed=seed) for seed, (dtype, shape) in enumerate(shapes)]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(modules(), st.sampled_from(EVERY_TARGET))
def test_random_modules(module: Module, target: Target) -> None:
    native = Native(module, target)
    for rows, columns in SHAPES:
        native.check(*_arrays(rows, columns))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(modules())
def test_kernels_for_known_sizes_give_what_the_general_ones_give(module: Module) -> None:
    """Of SHAPES the first three have kernels of their own, the others run the general ones."""
    native = Native(module, specialize={"N": [3, 1, 0], "M": [5, 1, 4]})
    for rows, columns in SHAPES:
        native.check(*_arrays(rows, columns))
