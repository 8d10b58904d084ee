"""Precision lowering: f32 tensors become f16 or bf16 where that is what moves through memory and matrix units.

What the caller sees keeps its types, as do integers, sizes and f64. Constants are rounded here and now; a finite one
beyond the range becomes the largest one, so that a mask of -3.4e38 does not become an infinity. `precision_policy` says
which primitive is computed how.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from onnxc.compiler.ir.capture import replace_operands
from onnxc.compiler.ir.dtypes import BF16, F16, F32, DType
from onnxc.compiler.ir.makers import UNIFORM_LIMIT, constant_of, made_by
from onnxc.compiler.ir.module import Attribute, Block, Module, Op, Value
from onnxc.compiler.ir.pass_builder import PassBuilder
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.rewriter import map_bodies
from onnxc.compiler.ir.symbol_table import SymbolTable
from onnxc.compiler.passes.lower.precision_policy import Decisions, decide, is_f32, is_pointwise, policy_of

LARGEST: Mapping[str, float] = {"f16": 65504.0, "bf16": 3.3895313892515355e38}
"""The largest finite values."""

LEAST: Mapping[str, float] = {"f16": 6.104e-5, "bf16": 1.1755e-38}
"""The least values that keep all digits."""


KEEPS_LARGE = ("add", "sub", "mul", "neg", "abs", "sqrt", "select", "min", "max")
KEEPS_SMALL = ("mul", "neg", "abs", "sqrt", "select", "min", "max")
"""Ops whose results may be as large or as small as an operand; sums of small values with others are not."""


def lower_precision_to(dtype: DType) -> Callable[[Module], Module]:
    """The pass that stores in `dtype`, f16 or bf16, what need not be f32."""
    assert dtype in (F16, BF16), dtype

    def lower_precision(module: Module) -> Module:
        """Stores and multiplies in 16-bit floats, with sums in f32, what need not be f32."""
        return map_bodies(module, lambda body, symbols: prune(_Lowering(body, dtype, symbols).run()))

    return lower_precision


class _Lowering:
    """One block. `values` are the values of the old block in the type that they are first made in."""

    def __init__(self, block: Block, dtype: DType, symbols: SymbolTable) -> None:
        self.block, self.dtype = block, dtype
        self.build = PassBuilder(symbols)
        self.decisions: Decisions = decide(block)
        self.values: dict[Value, Value] = {value: value for value in block.parameters}
        self.casts: dict[tuple[Value, DType], Value] = {}
        # What may hold elements beyond the range of `dtype`, such as masks, or below it, such as an epsilon.
        self.large: set[Value] = set()
        self.small: set[Value] = set()

    def run(self) -> Block:
        """The block lowered; parameters and results keep their types."""
        for op in self.block.ops:
            with self.build.at(op.location):
                self.values.update(zip(op.results, self._lowered(op), strict=True))
        results = [self._as(result, F32) for result in self.block.results]
        return self.build.block(self.block.parameters, results)

    def _lowered(self, op: Op) -> Sequence[Value]:
        policy = policy_of(op)
        if op.blocks or policy == "keep" or not any(is_f32(value) for value in (*op.operands, *op.results)):
            return self._kept(op)
        if op.name == "attention" and is_f32(op.result):
            return self._attention(op)
        if op.name == "block_product" and is_f32(op.result):
            return self._block_product(op)
        if policy == "low":
            return self._product(op)
        dtype = self._computed_in(op)
        results = self.build.op(op.name, [self._as(operand, dtype) for operand in op.operands], op.attributes)
        if is_pointwise(op):
            self.large.update(results if op.name in KEEPS_LARGE and self._reads_large(op) else ())
            self.small.update(results if self._makes_small(op) else ())
        return [self._as_new(results[0], self.dtype)] if op in self.decisions.rounded else results

    def _kept(self, op: Op) -> Sequence[Value]:
        """The op on operands of the types it had; a value that is only cast may be what it became."""
        operands = tuple(
            self.values[operand] if op.name == "cast" else self._as(operand, F32) for operand in op.operands
        )
        if op.blocks:
            blocks = [_Lowering(block, self.dtype, self.build.symbols).run() for block in op.blocks]
            return self.build.op(op.name, operands, op.attributes, blocks, op.result_types)
        changed = {old: new for old, new in zip(op.operands, operands, strict=True) if old != new}
        (moved,), _ = replace_operands([op], changed)
        self.build.ops.append(moved)
        return moved.results

    # Products

    def _product(self, op: Op) -> Sequence[Value]:
        if not all(map(is_f32, (*op.operands, op.result))):
            return self._kept(op)
        if op in self.decisions.angles:
            return self.build.op(op.name, [self._as(operand, F32) for operand in op.operands], op.attributes)
        attributes: dict[str, Attribute] = dict(op.attributes)
        attributes["dtype"] = F32 if op in self.decisions.chained else self.dtype
        return self.build.op(op.name, [self._as(operand, self.dtype) for operand in op.operands], attributes)

    def _block_product(self, op: Op) -> Sequence[Value]:
        """Rows are rounded, and widened where they are read; codes and scales stay what they are, and sums f32."""
        x, *weights = op.operands
        operands = [self.build.cast(self._as(x, self.dtype), F32), *(self._as(each, F32) for each in weights)]
        (total,) = self.build.op(op.name, operands, op.attributes)
        return [total if op in self.decisions.chained else self._as_new(total, self.dtype)]

    def _attention(self, op: Op) -> Sequence[Value]:
        """The mask stays what it is: it may hold what the 16 bits cannot."""
        operands = [self._as(operand, self.dtype) for operand in op.operands[:3]]
        operands += [self.values[operand] for operand in op.operands[3:]]
        return self.build.op(op.name, operands, op.attributes)

    # The rest

    def _computed_in(self, op: Op) -> DType:
        """The type that the f32 operands and results of an op get."""
        if policy_of(op) == "wide" or op in self.decisions.inner or op in self.decisions.angles:
            return F32
        operands = [self.values[operand] for operand in op.operands if is_f32(operand)]
        if is_pointwise(op) and (self._reads_large(op) or any(map(self._is_small, operands))):
            return F32
        moving = [operand for operand in operands if not _is_neutral(operand)]
        if not moving:
            rows = PRIMITIVES[op.name].picks and not any(map(self._is_large, operands))
            return self.dtype if rows else F32
        low = [operand.dtype == self.dtype for operand in moving]
        if op.name == "concatenate" and op.result in self.block.results:
            return self.dtype if all(low) else F32
        return self.dtype if any(low) and (is_f32(op.results[0]) or all(low)) else F32

    def _reads_large(self, op: Op) -> bool:
        """Whether an operand holds an element beyond the range, other than as a bound."""
        if op.name in ("min", "max"):
            return any(self.values[operand] in self.large for operand in op.operands)
        return any(self._is_large(self.values[operand]) for operand in op.operands if is_f32(operand))

    def _is_large(self, value: Value) -> bool:
        source = _source(value)
        array = constant_of(source)
        if array is None:
            return value in self.large or source in self.large
        finite = np.abs(array[np.isfinite(array)])
        return source.dtype == F32 and bool(finite.size) and float(finite.max()) > LARGEST[self.dtype.name]

    def _makes_small(self, op: Op) -> bool:
        operands = [self.values[operand] for operand in op.operands if is_f32(operand)]
        if op.name in KEEPS_SMALL:
            return any(map(self._is_small, operands))
        return any(_is_neutral(operand) and self._is_small(operand) for operand in operands)

    def _is_small(self, value: Value) -> bool:
        """Whether `value` is a constant, or near one, of which the 16 bits would keep little or nothing."""
        source = _source(value)
        array = constant_of(source)
        if array is None:
            return value in self.small or source in self.small
        if source.dtype != F32 or not 1 <= array.size <= UNIFORM_LIMIT:
            return False
        return 0 < float(np.abs(array).max()) < LEAST[self.dtype.name]

    # Types

    def _as(self, old: Value, dtype: DType) -> Value:
        """A value of the old block in `dtype` if it was f32; else as it is."""
        value = self.values[old]
        return self._as_new(value, dtype) if is_f32(old) else value

    def _as_new(self, value: Value, dtype: DType) -> Value:
        if value.dtype == dtype:
            return value
        cast = self.casts.get((value, dtype))
        if cast is None:
            cast = self._narrowed(value) if dtype == self.dtype else self.build.cast(value, dtype)
            self.casts[value, dtype] = cast
        return cast

    def _narrowed(self, value: Value) -> Value:
        """`value` rounded; behind movement, what is moved is rounded, so that views stay views."""
        op = value.op
        if op is not None and op.name == "constant":
            return self.build.constant(rounded(op.array(), self.dtype))
        if op is not None and op.name == "cast" and op.operands[0].dtype == self.dtype:
            return op.operands[0]
        if op is not None and op.name in ("broadcast", "reshape", "transpose"):
            return self.build.op(op.name, [self._as_new(op.operands[0], self.dtype)], op.attributes)[0]
        if value in self.large:
            bound = LARGEST[self.dtype.name]
            value = self.build.clamp(value, -bound, bound)
        return self.build.cast(value, self.dtype)


def rounded(array: np.ndarray, dtype: DType) -> np.ndarray:
    """An f32 constant in `dtype`; infinities and NaN stay, and what is finite stays finite."""
    bound = LARGEST[dtype.name]
    bounded = np.where(np.isinf(array), array, np.clip(array, -bound, bound))
    return np.asarray(bounded.astype(dtype.numpy))


def _source(value: Value) -> Value:
    """`value` before movement that neither drops nor adds elements of another kind."""
    while (op := made_by(value, "broadcast", "reshape", "transpose", "slice")) is not None:
        value = op.operands[0]
    return value


def _is_neutral(value: Value) -> bool:
    """Whether `value` is a constant, moved or not, which takes any precision without a cast at run time."""
    return constant_of(_source(value)) is not None
