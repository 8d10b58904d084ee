"""Caches in place: what a decoder gives back as `present` is written into the memory that `past` came in.

present = concatenate(past, new) is proved in the program, name by name. Such an input becomes the whole memory of its
cache, of which the call sees as much as is in use, and the output goes: only the new rows are written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from onnxc.compiler.ir.capture import replace_operands
from onnxc.compiler.ir.dims import Size, only_atom
from onnxc.compiler.ir.dtypes import U8, DType
from onnxc.compiler.ir.module import Block, Function, Op, Parameter, Value
from onnxc.compiler.ir.pass_builder import PassBuilder
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.rewriter import symbols_in_use
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.records import record

__all__ = ["Cache", "KeptCaches", "find_caches", "keep_caches"]


@record
class Cache:
    """An input that an output continues: `joined` puts new rows behind it along `axis`.

    dtype: what is kept. A lower precision rounds what is joined, before that or after; then only what is rounded is
    read, and kept.
    """

    past: Value
    present: Value
    joined: Op
    axis: int
    dtype: DType

    @property
    def length(self) -> str:
        """The symbol that counts the rows there are before a call."""
        symbol = only_atom(self.past.shape[self.axis])
        assert isinstance(symbol, str), self.past
        return symbol


@record
class KeptCaches:
    """A function whose caches are kept, each `in_place` value with the parameter in whose memory it is written.

    length_name: the parameter without elements whose first sizes say how many rows the caches have. lengths: the
    symbols of these sizes. capacity: the symbol for how many rows there is memory.
    """

    function: Function
    in_place: Mapping[Value, Value]
    length_name: str
    lengths: tuple[str, ...]
    capacity: str


def find_caches(function: Function) -> tuple[Cache, ...]:
    """The caches of a function, in the order of its outputs; of two that continue one input the first."""
    users: dict[Value, list[Op]] = {}
    for op in function.body.ops:
        for operand in op.operands:
            users.setdefault(operand, []).append(op)
    caches: dict[Value, Cache] = {}
    for result in function.body.results:
        cache = _cache(result, function.body, users)
        if cache is not None:
            caches.setdefault(cache.past, cache)
    return tuple(caches.values())


def _cache(present: Value, body: Block, users: Mapping[Value, Sequence[Op]]) -> Cache | None:
    joined = _uncast(present).op
    if joined is None or joined.name != "concatenate":
        return None
    past, axis = _uncast(joined.operands[0]), joined.int("axis")
    if past not in body.parameters or past.dtype != present.dtype or joined.result.dtype.bits > past.dtype.bits:
        return None
    grows = isinstance(only_atom(past.shape[axis]), str)
    return Cache(past, present, joined, axis, _kept_dtype(joined, users)) if grows else None


def _kept_dtype(joined: Op, users: Mapping[Value, Sequence[Op]]) -> DType:
    """The type that all readers of the joined rows cast them to, where it is the same and narrower; else their own."""
    own = joined.result.dtype
    read = {user.dtype() if user.name == "cast" else own for user in users.get(joined.result, ())}
    read.update(own for user in users.get(joined.operands[0], ()) if user is not joined)
    (dtype, *others) = read or {own}
    return dtype if not others and dtype.is_float and dtype.bits < own.bits else own


def _uncast(value: Value) -> Value:
    """What a value is the cast of, else itself."""
    return value.op.operands[0] if value.op is not None and value.op.name == "cast" else value


def keep_caches(function: Function, caches: Sequence[Cache]) -> KeptCaches:
    """The function with the memory of each cache as its input in place of `past`, and without `present`."""
    keeper = _Keeper(function, caches)
    for op in function.body.ops:
        keeper.visit(op)
    lengths = tuple(dict.fromkeys(cache.length for cache in caches))
    length_type = TensorType(U8, (*map(Size.symbol, lengths), 0))
    length = Parameter(_unused_name("past_length", function), length_type)
    presents = frozenset(cache.present for cache in caches)
    pairs = zip(function.result_names, function.body.results, strict=True)
    kept = {name: keeper.values.get(value, value) for name, value in pairs if value not in presents}
    parameters = (*(keeper.parameters.get(value, value) for value in function.body.parameters), length.value)
    live = prune(Block(parameters, tuple(keeper.build.ops), (*kept.values(), *keeper.written)))
    body = replace(live, results=live.results[: len(kept)])
    in_place = dict(zip(live.results[len(kept) :], keeper.written.values(), strict=True))
    symbols = {**function.symbols, keeper.capacity: (0, None)}
    made = replace(function, body=body, result_names=tuple(kept), symbols=symbols)
    return KeptCaches(made, in_place, length.name, lengths, keeper.capacity)


def _unused_name(hint: str, function: Function) -> str:
    """A name that no input or output has."""
    taken = {value.producer.name for value in function.body.parameters} | set(function.result_names)
    name = hint
    while name in taken:
        name += "_"
    return name


class _Keeper:
    """Makes the ops of the new body; `written` are the values that lie in the memory of a parameter, and which.

    rows: what is in use of a cache behind each concatenation, as it is kept.
    """

    def __init__(self, function: Function, caches: Sequence[Cache]) -> None:
        symbols = symbols_in_use(function)
        self.build = PassBuilder(symbols)
        self.capacity = symbols.fresh("capacity")
        self.joined = {cache.joined: cache for cache in caches}
        self.parameters: dict[Value, Value] = {}
        self.values: dict[Value, Value] = {}
        self.rows: dict[Value, Value] = {}
        self.written: dict[Value, Value] = {}
        for cache in caches:
            past, axis = cache.past, cache.axis
            shape = (*past.shape[:axis], Size.symbol(self.capacity), *past.shape[axis + 1 :])
            memory = Parameter(past.producer.name, TensorType(cache.dtype, shape)).value
            self.parameters[past] = memory
            rows = self.build.slice_axis(memory, axis, 0, past.shape[axis])
            self.values[past] = self.build.cast(rows, past.dtype)

    def visit(self, op: Op) -> None:
        """Makes an op again, on what its operands have become."""
        if op in self.joined:
            with self.build.at(op.location):
                self.rows[op.result] = rows = self._join(op, self.joined[op])
                self.values[op.result] = self.build.cast(rows, op.result.dtype)
            return
        rounded = self.rows.get(op.operands[0]) if op.name == "cast" else None
        if rounded is not None and rounded.dtype == op.dtype():
            self.values[op.result] = rounded
            return
        made, self.values = replace_operands([op], self.values)
        self.build.ops += made

    def _join(self, op: Op, cache: Cache) -> Value:
        """The rows in use after new ones were put behind those there were; what lies behind them stays as it is.

        So the whole memory is a value, of which all but the new rows already is where it belongs.
        """
        build, axis, memory = self.build, cache.axis, self.parameters[cache.past]
        capacity = Size.symbol(self.capacity)
        used, before = op.result.shape[axis], cache.past.shape[axis]
        build.guard(capacity, used, "at_least", f"the memory of {cache.past.producer.name} is too small")
        new = [self._kept(self.values.get(operand, operand), cache.dtype) for operand in op.operands[1:]]
        rows = build.slice_axis(memory, axis, 0, before)
        rest = build.slice_axis(memory, axis, used, capacity - used)
        whole = build.concatenate([rows, *new, rest], axis)
        self.written[whole] = memory
        return build.slice_axis(whole, axis, 0, used)

    def _kept(self, value: Value, dtype: DType) -> Value:
        """A value as the cache keeps it; one that was widened from that type, as it was before."""
        narrow = _uncast(value)
        return narrow if narrow.dtype == dtype else self.build.cast(value, dtype)
