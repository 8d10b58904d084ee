"""What the inputs and outputs of a decoder are for: tokens in, logits out, and what says which positions there are."""

from collections.abc import Callable, Mapping, Sequence

from onnxc.compiler.decoding.keep_caches import Cache
from onnxc.compiler.ir.dtypes import I32, I64
from onnxc.compiler.ir.module import Block, Function, Op, Value
from onnxc.compiler.ir.types import TensorType, type_symbols
from onnxc.runtime.errors import InputError
from onnxc.runtime.records import record

__all__ = ["Roles", "find_roles"]

# The names that exporters give these inputs, the usual one first.
TOKENS = ("input_ids", "tokens", "decoder_input_ids", "ids")
MASKS = ("attention_mask", "mask", "decoder_attention_mask")
POSITIONS = ("position_ids", "positions")
ROW_POSITIONS = ("cache_position",)
LOGITS = ("logits", "output", "scores")


@record
class Roles:
    """The names of inputs and of the output; an empty one where the model has none of that kind.

    vocabulary: how many tokens there are, longest: how many positions; None where the program does not say.
    others: inputs that the caller has to give.
    """

    tokens: str
    logits: str
    mask: str
    positions: str
    row_positions: str
    others: tuple[str, ...]
    vocabulary: int | None
    longest: int | None


def find_roles(function: Function, caches: Sequence[Cache]) -> Roles:
    """What each input and output is for, by its name and type.

    Raises InputError where there are no tokens or no logits.
    """
    kept = frozenset(value for cache in caches for value in (cache.past, cache.present))
    inputs = {value.producer.name: value for value in function.body.parameters if value not in kept}
    pairs = zip(function.result_names, function.body.results, strict=True)
    outputs = {name: value for name, value in pairs if value not in kept}
    tokens = _expected(TOKENS, inputs, _are_tokens, "tokens, integers of [batch, sequence]")
    logits = _expected(LOGITS, outputs, _are_logits, "logits, floats of [batch, sequence, vocabulary]")
    mask, positions, row_positions = (_first(names, inputs) for names in (MASKS, POSITIONS, ROW_POSITIONS))
    known = (tokens, mask, positions, row_positions)
    tables = _Tables(function.body)
    said = frozenset(inputs[name] for name in (positions, row_positions) if name)
    return Roles(
        *(tokens, logits, mask, positions, row_positions),
        others=tuple(name for name in inputs if name not in known),
        vocabulary=tables.rows(lambda read: read == {inputs[tokens]}),
        longest=tables.rows(lambda read: read <= said),
    )


def _first(names: Sequence[str], values: Mapping[str, Value]) -> str:
    return next((name for name in names if name in values), "")


def _expected(names: Sequence[str], values: Mapping[str, Value], fits: Callable[[Value], bool], what: str) -> str:
    """The one of the usual names that there is, else the only value of the kind."""
    fitting = {name: value for name, value in values.items() if fits(value)}
    name = _first(names, fitting)
    if not name and len(fitting) == 1:
        (name,) = fitting
    if not name:
        listed = ", ".join(f"{name}: {value.type}" for name, value in values.items())
        message = f"the model has no {what}, beside its caches; there are {listed or 'none'}"
        raise InputError(message, code="decoder-roles")
    return name


def _are_tokens(value: Value) -> bool:
    named = value.producer.name in (*MASKS, *POSITIONS, *ROW_POSITIONS)
    type = value.type
    return not named and isinstance(type, TensorType) and type.dtype in (I32, I64) and len(type.shape or ()) == 2


def _are_logits(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.dtype.is_float and len(value.type.shape or ()) == 3


COUNTING = frozenset(("add", "broadcast", "cast", "constant", "iota", "less", "reshape", "select", "sizes"))
"""Ops that make indices of which each is a token or a position, as it is or counted from the end.

Others may clip, or put many positions into one bucket; then the rows of a table say nothing of how many there are."""


class _Tables:
    """The constants from which rows are picked, by what decides which."""

    def __init__(self, body: Block) -> None:
        self.read: dict[Value, frozenset[Value]] = {value: frozenset((value,)) for value in body.parameters}
        self.picked: list[tuple[frozenset[Value], int]] = []
        for op in body.ops:
            if op.name == "gather" and op.int("axis") == 0:
                self._note(op)
            if op.name in COUNTING and all(operand in self.read for operand in op.operands):
                read = frozenset().union(*(self.read[operand] for operand in op.operands))
                self.read.update(dict.fromkeys(op.results, read))

    def _note(self, op: Op) -> None:
        table, indices = op.operands
        rows, is_counted = table.shape[0], indices in self.read and any(type_symbols(indices.type))
        if is_counted and table.op is not None and table.op.name == "constant" and isinstance(rows, int):
            self.picked.append((self.read[indices], rows))

    def rows(self, decides: Callable[[frozenset[Value]], bool]) -> int | None:
        """The rows of the smallest table that inputs pick from which `decides` takes; None where there is none."""
        return min((rows for read, rows in self.picked if decides(read)), default=None)
