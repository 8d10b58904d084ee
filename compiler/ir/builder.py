"""The builder: makes ops, typed as they are made, one method per primitive.

It does what makes lowering short: NumPy broadcasting becomes explicit `broadcast` ops, Python numbers become
constants, integer tensors known in sizes fold away, and an equality of sizes that is not decided becomes a guard.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn

import numpy as np

from onnxc.compiler.diagnostics import Location, error, model_error
from onnxc.compiler.ir.dims import Dim, Size, always_broadcast, at_least, bcast, product, symbols_of
from onnxc.compiler.ir.dtypes import I64, DType
from onnxc.compiler.ir.fold_sizes import fold_known
from onnxc.compiler.ir.known_elements import known_elements
from onnxc.compiler.ir.module import Attribute, Attributes, Block, Op, Parameter, Value
from onnxc.compiler.ir.primitive import PRIMITIVES, TypeRuleError
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.ir.types import TensorType, Type

Number = int | float | bool
Operand = Value | Number
GuardKey = tuple[str, Dim, Dim]


class SymbolTable:
    """The symbols of one function and their ranges; hands out new ones."""

    def __init__(self) -> None:
        self.ranges: dict[str, tuple[int, int | None]] = {}
        self._counts: dict[str, int] = {}

    def fresh(self, hint: str) -> str:
        """A name that is not taken yet, `hint` itself where it is free."""
        # Names are never given back, so that the search goes on where the last one for the hint ended.
        name, count = hint, self._counts.get(hint, 0)
        while name in self.ranges:
            count += 1
            name = f"{hint}_{count}"
        self._counts[hint] = count
        self.ranges[name] = (0, None)
        return name


class Builder:
    """Collects ops of one block. `location` is given to each op made while it is set (see `at`)."""

    folds = True
    """Whether ops on known values are replaced by their results."""

    def __init__(self, symbols: SymbolTable | None = None, location: Location | None = None) -> None:
        self.symbols = symbols if symbols is not None else SymbolTable()
        self.location = location
        self.ops: list[Op] = []
        self._guards: set[GuardKey] = set()

    # Blocks, symbols, errors

    @contextmanager
    def at(self, location: Location | None) -> Iterator[None]:
        """Ops made within carry `location`."""
        before, self.location = self.location, location
        try:
            yield
        finally:
            self.location = before

    def nested(self) -> "Builder":
        """A builder for a block within this one: it shares the symbols and the location."""
        return Builder(self.symbols, self.location)

    def block(self, parameters: Sequence[Value], results: Sequence[Value]) -> Block:
        """The block of the ops made so far."""
        return Block(tuple(parameters), tuple(self.ops), tuple(results))

    def adopt(self, nested: "Builder") -> None:
        """Takes over the ops of a builder that is nested in this one; a guard that is there already is left out."""
        self.ops += [op for op in nested.ops if op.name != "guard" or _guard_key(op) not in self._guards]
        self._guards |= nested._guards

    def parameter(self, name: str, type: Type) -> Value:
        """A new parameter for a block."""
        return Parameter(name, type).value

    def fresh_symbol(self, hint: str) -> Dim:
        """A size of its own, named `hint` or alike."""
        return Size.symbol(self.symbols.fresh(hint))

    def fail(self, code: str, message: str, values: Sequence[str] = (), rule: str = "") -> NoReturn:
        """A ModelError at the current location."""
        raise model_error([error(code, message, self.location, values, rule)])

    # Making ops

    def op(
        self,
        name: str,
        operands: Sequence[Value] = (),
        attributes: Attributes | None = None,
        blocks: Sequence[Block] = (),
        result_types: Sequence[Type] | None = None,
    ) -> tuple[Value, ...]:
        """The results of a new op; its types come from the type rule, or from `result_types` where it has none."""
        attributes = dict(attributes or {})
        rule = PRIMITIVES[name].type_rule
        if rule is None:
            assert result_types is not None, name
            types = tuple(result_types)
        else:
            try:
                types = rule([operand.type for operand in operands], attributes, blocks)
            except TypeRuleError as reason:
                self.fail("type-mismatch", f"{name}: {reason}", [str(operand.type) for operand in operands])
        folded = fold_known(name, operands, attributes, types) if self.folds else None
        if folded is not None:
            (type,) = types
            assert isinstance(type, TensorType)
            return (self._known_value(folded[0], type),)
        return self._made(Op(name, tuple(operands), attributes, tuple(blocks), types, self.location))

    def _made(self, op: Op) -> tuple[Value, ...]:
        self.ops.append(op)
        return op.results

    def _one(self, name: str, *operands: Value, **attributes: Attribute) -> Value:
        return self.op(name, operands, attributes)[0]

    def _known_value(self, elements: np.ndarray, type: TensorType) -> Value:
        if elements.dtype != object:
            return self.constant(elements)
        if all(isinstance(element, int) for element in elements.flat):
            return self.constant(elements.astype(np.int64).astype(type.dtype.numpy).reshape(elements.shape))
        flat = self._one("sizes", values=tuple(elements.flat), dtype=type.dtype, scalar=elements.ndim == 0)
        if elements.ndim <= 1:
            return flat
        return self._made(Op("reshape", (flat,), {"shape": elements.shape}, (), (type,), self.location))[0]

    # Generators and sizes

    def constant(self, value: np.ndarray) -> Value:
        """A constant tensor; the array must not change afterwards."""
        return self._one("constant", value=value)

    def scalar(self, value: Number, dtype: DType) -> Value:
        """A constant of rank 0."""
        return self.constant(np.array(value).astype(dtype.numpy))

    def full(self, shape: Sequence[Dim], value: Number, dtype: DType) -> Value:
        """A tensor of one value."""
        return self.broadcast(self.scalar(value, dtype), (), shape)

    def iota(self, shape: Sequence[Dim], axis: int, dtype: DType) -> Value:
        """Each element is its coordinate along `axis`."""
        return self._one("iota", shape=tuple(shape), axis=axis, dtype=dtype)

    def sizes(self, dims: Sequence[Dim], dtype: DType = I64) -> Value:
        """dtype[len(dims)]: the sizes as a tensor."""
        elements = np.empty(len(dims), object)
        elements[:] = dims
        return self._known_value(elements, TensorType(dtype, (len(dims),)))

    def size(self, dim: Dim, dtype: DType = I64) -> Value:
        """dtype[]: one size as a tensor of rank 0."""
        return self._known_value(np.array(dim, object), TensorType(dtype, ()))

    def random_bits(self, shape: Sequence[Dim], seed: int) -> Value:
        """u32[shape]: bits that (seed, element index) decides."""
        return self._one("random_bits", shape=tuple(shape), seed=seed)

    def known(self, value: Value) -> tuple[Dim, ...] | None:
        """The elements of an integer tensor of rank 0 or 1 where they are known in sizes."""
        elements = known_elements(value)
        return None if elements is None or elements.ndim > 1 else tuple(elements.flat)

    def known_array(self, value: Value) -> np.ndarray | None:
        """The elements of a constant."""
        op = value.op
        return op.array() if op is not None and op.name == "constant" else None

    def read_sizes(self, value: Value, hint: str = "size") -> tuple[Dim, ...]:
        """The elements of an integer tensor of rank 0 or 1 as sizes; symbols of their own where data decides them.

        Such a symbol may be of any sign, and its name starts with `?`.
        """
        known = self.known(value)
        if known is not None:
            return known
        count = value.shape[0] if value.rank == 1 else 1
        if value.rank > 1 or not isinstance(count, int):
            self.fail("shape-not-a-vector", f"a shape must be a vector of known length, got {value.type}")
        names = tuple(self.symbols.fresh(f"?{hint}{index}") for index in range(count))
        for name in names:
            del self.symbols.ranges[name]
            self.symbols.ranges[name] = (-(2**63), None)
        self.op("bind_sizes", [self.reshape(self.cast(value, I64), (count,))], {"symbols": names})
        return tuple(Size.symbol(name) for name in names)

    def guard(self, left: Dim, right: Dim, relation: str, message: str) -> None:
        """At the call: an InputError with `message` unless `left` `relation` `right` (equal, broadcast, at_least)."""
        key = (relation, left, right)
        if key not in self._guards:
            self._guards.add(key)
            self.op("guard", (), {"left": left, "right": right, "relation": relation, "message": message})

    def require_equal(self, left: Dim, right: Dim, message: str, code: str = "sizes-differ") -> Dim:
        """One of two sizes that must be equal, the more definite; guarded where that is not decided.

        Raises ModelError where they cannot be equal.
        """
        if left == right:
            return left
        if (isinstance(left, int) and isinstance(right, int)) or at_least(left, right + 1) or at_least(right, left + 1):
            self.fail(code, f"{message}: {left} and {right}")
        self.guard(left, right, "equal", f"{message}: {left} and {right}")
        if isinstance(left, int) or isinstance(right, int):
            return left if isinstance(left, int) else right
        return right if len(symbols_of(right)) < len(symbols_of(left)) else left

    # Broadcasting

    def broadcast_shape(self, *shapes: Sequence[Dim], code: str = "broadcast-mismatch") -> tuple[Dim, ...]:
        """The NumPy broadcast of `shapes`; what is not decided is guarded.

        Raises ModelError with `code` where there is none.
        """
        rank = max(len(shape) for shape in shapes)
        padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
        return tuple(self._broadcast_sizes(sizes, code) for sizes in zip(*padded, strict=True))

    def _broadcast_sizes(self, sizes: Sequence[Dim], code: str) -> Dim:
        total = bcast(*sizes)
        for size in sizes:
            if size in (1, total):
                continue
            if isinstance(size, int) and isinstance(total, int):
                self.fail(code, f"sizes {size} and {total} cannot be broadcast together")
            for other in sizes:
                if not always_broadcast(size, other):
                    message = f"sizes {other} and {size} must be equal or 1"
                    left, right = sorted((other, size), key=str)
                    self.guard(left, right, "broadcast", message)
        return total

    def broadcast_to(self, x: Value, shape: Sequence[Dim]) -> Value:
        """`x` with NumPy's rule: its axes are the last ones of `shape`."""
        if x.shape == tuple(shape):
            return x
        return self.broadcast(x, range(len(shape) - x.rank, len(shape)), shape)

    def broadcast_together(self, *values: Value) -> tuple[Value, ...]:
        """All of `values` at their common shape."""
        shape = self.broadcast_shape(*(value.shape for value in values))
        return tuple(self.broadcast_to(value, shape) for value in values)

    def _operands(self, *operands: Operand) -> tuple[Value, ...]:
        dtype = next(operand.dtype for operand in operands if isinstance(operand, Value))
        values = (operand if isinstance(operand, Value) else self.scalar(operand, dtype) for operand in operands)
        return self.broadcast_together(*values)

    def _binary(self, name: str, a: Operand, b: Operand) -> Value:
        return self.op(name, self._operands(a, b))[0]

    # Pointwise

    def unary(self, name: str, x: Value) -> Value:
        """A pointwise primitive of one operand, by name."""
        return self._one(name, x)

    def binary(self, name: str, a: Operand, b: Operand) -> Value:
        """A pointwise primitive of two operands, by name."""
        return self._binary(name, a, b)

    def add(self, a: Operand, b: Operand) -> Value:
        return self._binary("add", a, b)

    def sub(self, a: Operand, b: Operand) -> Value:
        return self._binary("sub", a, b)

    def mul(self, a: Operand, b: Operand) -> Value:
        return self._binary("mul", a, b)

    def div(self, a: Operand, b: Operand) -> Value:
        return self._binary("div", a, b)

    def rem(self, a: Operand, b: Operand) -> Value:
        return self._binary("rem", a, b)

    def pow(self, a: Operand, b: Operand) -> Value:
        return self._binary("pow", a, b)

    def min(self, a: Operand, b: Operand) -> Value:
        return self._binary("min", a, b)

    def max(self, a: Operand, b: Operand) -> Value:
        return self._binary("max", a, b)

    def and_(self, a: Operand, b: Operand) -> Value:
        return self._binary("and", a, b)

    def or_(self, a: Operand, b: Operand) -> Value:
        return self._binary("or", a, b)

    def xor(self, a: Operand, b: Operand) -> Value:
        return self._binary("xor", a, b)

    def shift_left(self, a: Operand, b: Operand) -> Value:
        return self._binary("shift_left", a, b)

    def shift_right(self, a: Operand, b: Operand) -> Value:
        return self._binary("shift_right", a, b)

    def equal(self, a: Operand, b: Operand) -> Value:
        return self._binary("equal", a, b)

    def less(self, a: Operand, b: Operand) -> Value:
        return self._binary("less", a, b)

    def less_equal(self, a: Operand, b: Operand) -> Value:
        return self._binary("less_equal", a, b)

    def greater(self, a: Operand, b: Operand) -> Value:
        return self._binary("less", b, a)

    def greater_equal(self, a: Operand, b: Operand) -> Value:
        return self._binary("less_equal", b, a)

    def not_equal(self, a: Operand, b: Operand) -> Value:
        return self.not_(self.equal(a, b))

    def neg(self, x: Value) -> Value:
        return self._one("neg", x)

    def abs(self, x: Value) -> Value:
        return self._one("abs", x)

    def sign(self, x: Value) -> Value:
        return self._one("sign", x)

    def floor(self, x: Value) -> Value:
        return self._one("floor", x)

    def ceil(self, x: Value) -> Value:
        return self._one("ceil", x)

    def round(self, x: Value) -> Value:
        return self._one("round", x)

    def sqrt(self, x: Value) -> Value:
        return self._one("sqrt", x)

    def exp(self, x: Value) -> Value:
        return self._one("exp", x)

    def log(self, x: Value) -> Value:
        return self._one("log", x)

    def tanh(self, x: Value) -> Value:
        return self._one("tanh", x)

    def erf(self, x: Value) -> Value:
        return self._one("erf", x)

    def not_(self, x: Value) -> Value:
        return self._one("not", x)

    def select(self, condition: Value, a: Operand, b: Operand) -> Value:
        """`a` where the condition holds, else `b`."""
        x, y = self._operands(a, b)
        return self.op("select", self.broadcast_together(condition, x, y))[0]

    def cast(self, x: Value, dtype: DType, saturate: bool = True, round_mode: str = "nearest") -> Value:
        """`x` in another element type; itself where it has that already."""
        if x.dtype == dtype:
            return x
        return self._one("cast", x, dtype=dtype, saturate=saturate, round_mode=round_mode)

    def bitcast(self, x: Value, dtype: DType) -> Value:
        """The bits of `x` read as another type of the same width."""
        return self._one("bitcast", x, dtype=dtype)

    def square(self, x: Value) -> Value:
        return self.mul(x, x)

    def reciprocal(self, x: Value) -> Value:
        return self.div(1, x)

    def relu(self, x: Value) -> Value:
        return self.max(x, 0)

    def sigmoid(self, x: Value) -> Value:
        """1 / (1 + exp(-x)): exact at both infinities."""
        return self.div(1, self.add(self.exp(self.neg(x)), 1))

    def clamp(self, x: Value, low: Operand, high: Operand) -> Value:
        """min(max(x, low), high): `high` wins where the bounds cross; NaN stays."""
        return self.min(self.max(x, low), high)

    def is_nan(self, x: Value) -> Value:
        return self.not_(self.equal(x, x))

    # Movement

    def reshape(self, x: Value, shape: Sequence[Dim]) -> Value:
        """The same elements in row-major order; the numbers of elements must be equal, guarded if not decided."""
        if x.shape == tuple(shape):
            return x
        before, after = product(x.shape), product(shape)
        if before != after:
            self.require_equal(before, after, f"{x.type} cannot be reshaped to {list(shape)}", "reshape-elements")
        return self._one("reshape", x, shape=tuple(shape))

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        """Result axis i is operand axis permutation[i]."""
        if tuple(permutation) == tuple(range(x.rank)):
            return x
        return self._one("transpose", x, permutation=tuple(permutation))

    def broadcast(self, x: Value, axes: Sequence[int], shape: Sequence[Dim]) -> Value:
        """Operand axis i is result axis axes[i]; other result axes repeat."""
        if x.shape == tuple(shape) and tuple(axes) == tuple(range(x.rank)):
            return x
        return self._one("broadcast", x, axes=tuple(axes), shape=tuple(shape))

    def slice(self, x: Value, starts: Sequence[Dim], shape: Sequence[Dim], steps: Sequence[int] | None = None) -> Value:
        """Element i of an axis is operand element start + i * step; the caller makes sure that all exist."""
        steps = tuple(steps) if steps is not None else (1,) * x.rank
        if x.shape == tuple(shape) and set(starts) <= {0} and set(steps) <= {1}:
            return x
        return self._one("slice", x, starts=tuple(starts), shape=tuple(shape), steps=steps)

    def slice_axis(self, x: Value, axis: int, start: Dim, size: Dim, step: int = 1) -> Value:
        """`size` elements along one axis."""
        starts, shape, steps = [0] * x.rank, list(x.shape), [1] * x.rank
        all_starts: list[Dim] = list(starts)
        all_starts[axis], shape[axis], steps[axis] = start, size, step
        return self.slice(x, all_starts, shape, steps)

    def reverse(self, x: Value, axis: int) -> Value:
        """`x` backwards along one axis."""
        return self.slice_axis(x, axis, x.shape[axis] - 1, x.shape[axis], -1)

    def pad(self, x: Value, low: Sequence[Dim], high: Sequence[Dim], value: Operand = 0) -> Value:
        """`value` around `x`."""
        if set(low) | set(high) <= {0}:
            return x
        fill = value if isinstance(value, Value) else self.scalar(value, x.dtype)
        return self._one("pad", x, fill, low=tuple(low), high=tuple(high))

    def concatenate(self, values: Sequence[Value], axis: int) -> Value:
        """`values` one after another along `axis`; their other sizes must be equal, guarded if not decided."""
        if len(values) == 1:
            return values[0]
        shape = list(values[0].shape)
        for value in values[1:]:
            if value.rank != len(shape):
                self.fail("concat-rank", "the ranks differ", [str(other.type) for other in values])
            for place in range(len(shape)):
                if place != axis:
                    shape[place] = self.require_equal(
                        shape[place], value.shape[place], f"axis {place} differs", "concat-sizes"
                    )
        fitted = [self.with_shape(value, (*shape[:axis], value.shape[axis], *shape[axis + 1 :])) for value in values]
        return self.op("concatenate", fitted, {"axis": axis})[0]

    def with_shape(self, x: Value, shape: Sequence[Dim]) -> Value:
        """`x` under sizes that are known to equal its own, written in another way."""
        return x if x.shape == tuple(shape) else self._one("reshape", x, shape=tuple(shape))

    def squeeze(self, x: Value, axes: Sequence[int]) -> Value:
        """`x` without `axes`, whose sizes must be 1."""
        for axis in axes:
            self.require_equal(x.shape[axis], 1, f"axis {axis} to squeeze is not 1", "squeeze-size")
        shape = [size for axis, size in enumerate(x.shape) if axis not in axes]
        return self.with_shape(x, shape)

    def unsqueeze(self, x: Value, axes: Sequence[int]) -> Value:
        """`x` with new axes of size 1, which are `axes` of the result."""
        rest = iter(x.shape)
        return self.reshape(x, [1 if axis in axes else next(rest) for axis in range(x.rank + len(axes))])

    # Reductions, contractions, windows

    def reduce(self, x: Value, kind: str, axes: Sequence[int], keepdims: bool = False) -> Value:
        """`x` folded over `axes` by sum, prod, min, max, and, or; of nothing, the identity."""
        axes = tuple(sorted(axes))
        reduced = self._one("reduce", x, kind=kind, axes=axes) if axes else x
        return self.unsqueeze(reduced, axes) if keepdims else reduced

    def mean(self, x: Value, axes: Sequence[int], keepdims: bool = False) -> Value:
        """The sum over `axes` divided by how many there are."""
        count = self.cast(self.size(product(x.shape[axis] for axis in axes)), x.dtype)
        return self.div(self.reduce(x, "sum", axes, keepdims), count)

    def scan_axis(self, x: Value, kind: str, axis: int, exclusive: bool = False, reverse: bool = False) -> Value:
        """The running fold along an axis."""
        return self._one("scan_axis", x, kind=kind, axis=axis, exclusive=exclusive, reverse=reverse)

    def arg_reduce(self, x: Value, kind: str, axis: int, last: bool = False) -> Value:
        """i64: where the extremum along `axis` is; the first of equals, or the last."""
        return self._one("arg_reduce", x, kind=kind, axis=axis, last=last)

    def dot(self, a: Value, b: Value, equation: str, dtype: DType | None = None) -> Value:
        """The einsum `equation` of two operands; equal letters must have equal sizes, guarded if not decided."""
        left, right, _ = parse_equation(equation)
        if (len(left), len(right)) != (a.rank, b.rank):
            self.fail("contraction-rank", f"{equation} does not fit", [str(a.type), str(b.type)])
        sizes: dict[str, Dim] = {}
        for letter, size in zip(left + right, a.shape + b.shape, strict=True):
            known = sizes.get(letter, size)
            sizes[letter] = self.require_equal(known, size, "contracted or shared sizes differ", "inner-dimensions")
        a = self.with_shape(a, [sizes[letter] for letter in left])
        b = self.with_shape(b, [sizes[letter] for letter in right])
        return self._one("dot", a, b, equation=equation, dtype=dtype or a.dtype)

    def matmul(self, a: Value, b: Value, dtype: DType | None = None) -> Value:
        """numpy.matmul: vectors are promoted, leading axes broadcast."""
        if a.rank == 0 or b.rank == 0:
            self.fail("matmul-rank", "an operand has rank 0", [str(a.type), str(b.type)], "ONNX MatMul, numpy.matmul")
        x = self.unsqueeze(a, [0]) if a.rank == 1 else a
        y = self.unsqueeze(b, [1]) if b.rank == 1 else b
        batch = self.broadcast_shape(x.shape[:-2], y.shape[:-2])
        letters = "abcdefghijopqrstuvwxyz"[: len(batch)]
        x, x_letters = self._batched(x, batch, letters)
        y, y_letters = self._batched(y, batch, letters)
        result = self.dot(x, y, f"{x_letters}mk,{y_letters}kn->{letters}mn", dtype)
        dropped = [len(batch)] * (a.rank == 1) + [len(batch) + 1] * (b.rank == 1)
        return self.squeeze(result, dropped) if dropped else result

    def _batched(self, x: Value, batch: Sequence[Dim], letters: str) -> tuple[Value, str]:
        """`x` without leading axes of size 1 that broadcast, and the letters of those that it keeps."""
        own = x.rank - 2
        offset = len(batch) - own
        kept = [axis for axis in range(own) if x.shape[axis] != 1 or batch[offset + axis] == 1]
        x = self.with_shape(x, [x.shape[axis] for axis in (*kept, own, own + 1)])
        target = [batch[offset + axis] for axis in kept] + list(x.shape[-2:])
        return self.broadcast_to(x, target), "".join(letters[offset + axis] for axis in kept)

    def convolution(
        self,
        x: Value,
        w: Value,
        strides: Sequence[int],
        low: Sequence[Dim],
        high: Sequence[Dim],
        dilations: Sequence[int],
        groups: int = 1,
        input_dilations: Sequence[int] | None = None,
        dtype: DType | None = None,
        *,
        channels_last: bool = False,
    ) -> Value:
        """x: T[N, C, *S] (or T[N, *S, C]), w: T[M, C/groups, *K] -> [N, M, *O] (or [N, *O, M]), cross-correlation."""
        axis = x.rank - 1 if channels_last else 1
        channels = self.require_equal(x.shape[axis], w.shape[1] * groups, "the channels differ", "convolution-channels")
        if isinstance(channels, int):
            w = self.with_shape(w, (w.shape[0], channels // groups, *w.shape[2:]))
        else:
            channels = w.shape[1] * groups
        x = self.with_shape(x, (*x.shape[:axis], channels, *x.shape[axis + 1 :]))
        return self._one(
            "convolution",
            x,
            w,
            strides=tuple(strides),
            low=tuple(low),
            high=tuple(high),
            dilations=tuple(dilations),
            input_dilations=tuple(input_dilations or (1,) * len(strides)),
            groups=groups,
            dtype=dtype or x.dtype,
            channels_last=channels_last,
        )

    def reduce_window(
        self,
        x: Value,
        kind: str,
        window: Sequence[int],
        strides: Sequence[int],
        low: Sequence[Dim],
        high: Sequence[Dim],
        dilations: Sequence[int],
        arg: bool = False,
    ) -> Value:
        """The fold of each window, over all axes; with `arg`, the place of its maximum within the axes after 1."""
        attributes: dict[str, Attribute] = {
            "kind": kind,
            "window": tuple(window),
            "strides": tuple(strides),
            "low": tuple(low),
            "high": tuple(high),
            "dilations": tuple(dilations),
        }
        return self.op("arg_reduce_window" if arg else "reduce_window", [x], attributes)[0]

    # Indexed access and ordering

    def gather(self, data: Value, indices: Value, axis: int) -> Value:
        """numpy.take: data[:axis] + indices.shape + data[axis + 1:]."""
        return self._one("gather", data, indices, axis=axis)

    def gather_along(self, data: Value, indices: Value, axis: int) -> Value:
        """numpy.take_along_axis; indices may be smaller on the other axes."""
        return self._one("gather_along", data, indices, axis=axis)

    def gather_nd(self, data: Value, indices: Value, batch_dims: int = 0) -> Value:
        """Slices at coordinates, which are the last axis of `indices`."""
        return self._one("gather_nd", data, indices, batch_dims=batch_dims)

    def scatter_along(self, data: Value, indices: Value, updates: Value, axis: int, kind: str) -> Value:
        """`data` with `updates` set, added, ... at places along an axis."""
        return self._one("scatter_along", data, indices, updates, axis=axis, kind=kind)

    def scatter_nd(self, data: Value, indices: Value, updates: Value, kind: str) -> Value:
        """`data` with `updates` set, added, ... at coordinates."""
        return self._one("scatter_nd", data, indices, updates, kind=kind)

    def wrap_negative(self, indices: Value, size: Dim) -> Value:
        """i64 indices in which negative ones count from the end of an axis of `size`."""
        wide = self.cast(indices, I64)
        known = self.known(wide)
        if known is not None and all(isinstance(index, int) and index >= 0 for index in known):
            return wide
        return self.select(self.less(wide, 0), self.add(wide, self.size(size)), wide)

    def sort(self, x: Value, axis: int, descending: bool = False) -> tuple[Value, Value]:
        """Values in order along an axis, and where each was."""
        values, places = self.op("sort", [x], {"axis": axis, "descending": descending})
        return values, places

    def top_k(self, x: Value, k: Dim, axis: int, largest: bool = True) -> tuple[Value, Value]:
        """The k largest or smallest along an axis in order, and where each was."""
        values, places = self.op("top_k", [x], {"k": k, "axis": axis, "largest": largest})
        return values, places

    def non_zero(self, x: Value) -> Value:
        """i64[rank, n]: the coordinates of what is not zero."""
        return self._one("non_zero", x, symbol=self.symbols.fresh("nonzero"))

    # Composites

    def softmax(self, x: Value, axis: int) -> Value:
        return self._one("softmax", x, axis=axis)

    def masked_softmax(self, x: Value, axis: int) -> Value:
        """The softmax; zeros where everything along the axis is -inf."""
        return self._one("masked_softmax", x, axis=axis)

    def log_softmax(self, x: Value, axis: int) -> Value:
        return self._one("log_softmax", x, axis=axis)

    def layer_norm(self, x: Value, scale: Value, bias: Value, axis: int, epsilon: float) -> Value:
        """Normalised over axes `axis` and after, then scaled and shifted by tensors of those axes."""
        return self._one("layer_norm", x, scale, bias, axis=axis, epsilon=epsilon)

    def rms_norm(self, x: Value, scale: Value, axis: int, epsilon: float) -> Value:
        """Divided by the root of the mean square over axes `axis` and after, then scaled."""
        return self._one("rms_norm", x, scale, axis=axis, epsilon=epsilon)

    def gelu(self, x: Value, approximate: str = "none") -> Value:
        return self._one("gelu", x, approximate=approximate)

    def attention(
        self, q: Value, k: Value, v: Value, mask: Value | None, scale: float, causal: bool = False, softcap: float = 0.0
    ) -> Value:
        """q: [B, H, S, D], k: [B, G, T, D], v: [B, G, T, E], additive mask to [B, H, S, T] -> [B, H, S, E]"""
        operands = [q, k, v] if mask is None else [q, k, v, mask]
        return self.op("attention", operands, {"scale": scale, "causal": causal, "softcap": softcap})[0]

    def rotary(self, x: Value, cos: Value, sin: Value, interleaved: bool = False) -> Value:
        """Pairs of the last axis turned by angles given as cosines and sines of half its size."""
        return self._one("rotary", x, cos, sin, interleaved=interleaved)

    # Control and host

    def if_(
        self, condition: Value, captures: Sequence[Value], blocks: Sequence[Block], types: Sequence[Type]
    ) -> tuple[Value, ...]:
        """The results of one of two blocks, which get `captures`."""
        return self.op("if", [condition, *captures], {}, blocks, types)

    def while_(
        self,
        limit: Value,
        condition: Value,
        carried: Sequence[Value],
        captures: Sequence[Value],
        body: Block,
        types: Sequence[Type],
        symbol: str,
    ) -> tuple[Value, ...]:
        """The last carried values, then the stacked scans (see primitives/control.py)."""
        attributes: Attributes = {"carried": len(carried), "scans": len(types) - len(carried), "symbol": symbol}
        return self.op("while", [limit, condition, *carried, *captures], attributes, [body], types)

    def host(
        self, function: str, operands: Sequence[Value], types: Sequence[Type], attributes: Mapping[str, Attribute]
    ) -> tuple[Value, ...]:
        """The results of a function of onnxc.runtime.host."""
        return self.op("host", operands, {"function": function, **attributes}, (), types)


def _guard_key(op: Op) -> GuardKey:
    return op.text("relation"), op.dim("left"), op.dim("right")
