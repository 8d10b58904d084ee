"""Rows: the block of a reduction as pointwise ops over whole rows, folds of rows, and ops on what the folds gave."""

from collections.abc import Sequence
from functools import cached_property

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.planning.fusion.element_cost import element_cost
from onnxc.compiler.planning.loops.domain import is_uniform
from onnxc.compiler.planning.loops.merged_axes import merged_axes
from onnxc.runtime.records import record


@record
class Rows:
    """A block without composites whose folds are all over the same axes of the same shape."""

    block: Block

    @cached_property
    def folds(self) -> tuple[Op, ...]:
        """The folds in order; each may use what those before it gave."""
        folds = tuple(op for op in self.block.ops if op.name in ("reduce", "arg_reduce"))
        first = folds[0]
        for fold in folds:
            same = fold.operands[0].shape == first.operands[0].shape and fold_axes(fold) == fold_axes(first)
            assert same, f"folds of different rows: {first} and {fold}"
        return folds

    @cached_property
    def shape(self) -> tuple[Dim, ...]:
        """The shape of what is folded."""
        return self.folds[0].operands[0].shape

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """The axes along a row."""
        return fold_axes(self.folds[0])

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """The axes from row to row."""
        return tuple(axis for axis in range(len(self.shape)) if axis not in self.axes)

    @property
    def root(self) -> Value:
        """What is written."""
        return self.block.results[0]

    @cached_property
    def writes_rows(self) -> bool:
        """Whether the result is whole rows, and not one value for each."""
        # A folded value may have the same shape where all folded sizes are 1.
        is_folded = self.root in {fold.results[0] for fold in self.folds}
        return self.root.shape == self.shape and bool(self.axes) and not is_folded

    @property
    def last_is_folded(self) -> bool:
        """Whether the elements of a row lie side by side."""
        return not self.kept or self.axes[-1] == len(self.shape) - 1

    @cached_property
    def merged(self) -> int:
        """How many of the last axes, all of them folded, are gone through as one."""
        first = len(self.shape)
        while first - 1 in self.axes:
            first -= 1
        values = [*(fold.operands[0] for fold in self.folds), *((self.root,) if self.root.shape == self.shape else ())]
        return merged_axes(values, first)

    def row_values(self, root: Value, known: Value | None = None) -> dict[Value, None]:
        """The values of whole rows that `root` is computed from, itself first; folds are not looked through.

        Nor is a value that is `known`.
        """
        values: dict[Value, None] = {}
        pending, seen = [root], set[Value]()
        while pending:
            value = pending.pop()
            if value.op is None or value.op in self.folds or value in seen or value is known:
                continue
            seen.add(value)
            if value.shape == self.shape:
                values[value] = None
            pending += value.op.operands
        return values

    def constants(self, root: Value) -> tuple[Value, ...]:
        """The values of whole rows that `root` is computed from and that are one number for a row."""
        return tuple(value for value in self.row_values(root) if self._is_repeated(value))

    def _is_repeated(self, value: Value) -> bool:
        """Whether a value of whole rows is only repeated along them."""
        op = value.op
        if op is None or op.name != "broadcast" or is_uniform(op.operands[0]):
            return False
        folded = dict(zip(op.ints("axes"), op.operands[0].shape, strict=True))
        return all(folded.get(axis, 1) == 1 for axis in self.axes)

    def cost(self, value: Value, known: Value | None = None) -> int:
        """The work of computing an element of a value again, where perhaps one value is known.

        What is used twice counts twice.
        """
        costs: dict[Value, int] = {} if known is None else {known: 0}

        def of(value: Value) -> int:
            if value not in costs:
                op = value.op
                costs[value] = 0 if op is None or op in self.folds else element_cost(op) + sum(map(of, op.operands))
            return costs[value]

        return of(value)

    def may_miss_nan(self, fold: Op) -> bool:
        """Whether an extremum need not be NaN where an element is: the result is NaN all the same.

        Behind m = max(x), the sum of exp(x - m) is NaN, and so is what a softmax or its logarithm makes of it.
        """
        if fold.name != "reduce" or fold.text("kind") not in ("max", "min") or not fold.operands[0].dtype.is_float:
            return False
        sums = [other for other in self.folds if other.name == "reduce" and other.text("kind") == "sum"]
        return any(self._is_summed_below(fold, other) and _is_nan_with(self.root, other.results[0]) for other in sums)

    @staticmethod
    def _is_summed_below(fold: Op, total: Op) -> bool:
        """Whether `total` is the sum of exp(x - m), m being the extremum of x."""
        exponential = total.operands[0].op
        difference = exponential.operands[0].op if exponential is not None and exponential.name == "exp" else None
        if difference is None or difference.name != "sub" or difference.operands[0] is not fold.operands[0]:
            return False
        return _scalar_of_row(difference.operands[1]) is fold.results[0]

    def staged(self, least_cost: int) -> tuple[Value | None, ...]:
        """What waits in the output row before the first fold and behind each: what costs more and is needed again.

        The next one takes its place where nothing later needs the one before but for it: behind x = sigmoid(y),
        a softmax of x keeps x while it looks for the maximum, and then the exponentials.
        """
        waiting: list[Value | None] = [None]
        roots = [*(fold.operands[0] for fold in self.folds), self.root]
        for ordinal, fold in enumerate(self.folds):
            before, later = waiting[-1], roots[ordinal + 1 :]
            candidates = self.row_values(fold.operands[0]) if self.writes_rows and fold.name == "reduce" else ()
            better = (value for value in candidates if self._should_wait(value, before, later, least_cost))
            waiting.append(next(better, before))
        return tuple(waiting)

    def _should_wait(self, value: Value, before: Value | None, later: Sequence[Value], least_cost: int) -> bool:
        """Whether a value should wait where `before` did, for passes that compute the values `later`."""
        if self.cost(value, before) <= least_cost or value.dtype != self.root.dtype:
            return False
        is_needed = any(value in self.row_values(root) for root in later)
        return is_needed and not any(before in self.row_values(root, value) for root in later)


# What is NaN if any operand is.
_NAN_GOES_ON = frozenset(("add", "sub", "mul", "div", "neg", "exp", "log", "reciprocal", "broadcast", "reshape"))


def _is_nan_with(value: Value, cause: Value) -> bool:
    """Whether all of a value is NaN where its cause is."""
    pending, seen = [value], set[Value]()
    while pending:
        value = _scalar_of_row(pending.pop())
        if value is cause:
            return True
        if value not in seen and value.op is not None and value.op.name in _NAN_GOES_ON:
            seen.add(value)
            pending += value.op.operands
    return False


def _scalar_of_row(value: Value) -> Value:
    """What is repeated along the row, in whose stead another value may be where it equals a third."""
    op = value.op
    if op is not None and op.name in ("broadcast", "reshape"):
        return _scalar_of_row(op.operands[0])
    if op is not None and op.name == "select" and _is_test_of(op.operands[0], op.operands[2]):
        return _scalar_of_row(op.operands[2])
    return value


def _is_test_of(condition: Value, value: Value) -> bool:
    """Whether a condition is that a value equals something, which NaN does not."""
    return condition.op is not None and condition.op.name == "equal" and value in condition.op.operands


def fold_axes(op: Op) -> tuple[int, ...]:
    """The axes that a fold takes away."""
    return op.ints("axes") if op.name == "reduce" else (op.int("axis"),)


def identity(kind: str, dtype: DType) -> float:
    """What folding nothing gives."""
    if kind in ("sum", "or"):
        return 0
    if kind == "prod":
        return 1
    if kind == "and" or dtype.is_bool:
        return int(kind in ("and", "min")) if dtype.is_bool else -1
    if dtype.is_float:
        return float("inf") if kind == "min" else float("-inf")
    bits = dtype.bits - dtype.is_signed
    if kind == "min":
        return (1 << bits) - 1
    return -(1 << bits) if dtype.is_signed else 0
