"""A module cut at its pipeline stages: functions, one behind the other, of which each runs on the devices of a stage.

An op is of the latest stage that its operands are of; what is made of constants alone is wherever it is read, and what
else is made of inputs is of the first stage. Where a later stage gives a value back to an earlier one, this one gets
another segment behind it, so that segments read only what those before them send and nothing waits for itself.

A segment knows a size where an axis of a parameter is that size, or an op of it finds the size in data. Any other size
that it reads comes as a tensor with such an axis and without elements, from the segment that finds it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BOOL
from onnxc.compiler.ir.interpreter import single_symbol
from onnxc.compiler.ir.module import Block, Function, Module, Op, Parameter, Value, walk
from onnxc.compiler.ir.op_facts import bound_symbols
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.rewriter import symbols_in_use
from onnxc.compiler.ir.types import ShapedType, type_symbols
from onnxc.runtime.records import record

__all__ = ["Segment", "cut_stages"]

Home = tuple[int, int]
"""How often values went back to an earlier stage before, then the stage; segments are in this order."""


@record(eq=False)
class Segment:
    """What a stage computes without waiting for another.

    Its parameters are those of the whole, then what is received; its results are what is sent, then outputs of the
    whole. `received` and `sent` are values of the whole, `outputs` the ordinals of its results.
    """

    stage: int
    module: Module
    received: tuple[Value, ...]
    sent: tuple[Value, ...]
    outputs: tuple[int, ...]

    @property
    def parameters(self) -> tuple[Value, ...]:
        """The parameters that stand for what is received."""
        parameters = self.module.main.body.parameters
        return parameters[len(parameters) - len(self.received) :]


def cut_stages(module: Module, first: int) -> tuple[Segment, ...]:
    """The segments of a module of one function, in order; inputs are of the stage `first`."""
    (whole,) = module.functions
    body, extents = _with_extents(whole.body)
    function = replace(whole, body=body)
    homes = _Homes(body, (0, first))
    order = sorted({homes.first, *(home for home in homes.of_op.values() if home is not None)})
    parts = [_Part(function, homes, home) for home in order]
    received = [part.received(extents) for part in parts]
    wanted = dict.fromkeys(value for values in received for value in values)
    return tuple(
        part.segment(module, values, tuple(value for value in wanted if homes.of(value) == part.home))
        for part, values in zip(parts, received, strict=True)
    )


def _with_extents(body: Block) -> tuple[Block, Mapping[str, Value]]:
    """The block, which also makes a tensor for each size that its ops find in data: of that size, without elements."""
    given = {name for value in body.parameters for name in type_symbols(value.type)}
    by_data = dict.fromkeys(name for op in body.ops for name in bound_symbols(op) if name not in given)
    build = Builder()
    nothing = build.scalar(False, BOOL)
    extents = {name: build.broadcast(nothing, (), (Size.symbol(name), 0)) for name in by_data}
    return replace(body, ops=(*body.ops, *build.ops)), extents


class _Homes:
    """Where each op is computed, None where every segment can; `root` is what enters stages as a value."""

    def __init__(self, body: Block, first: Home) -> None:
        self.first = first
        self.of_op: dict[Op, Home | None] = {}
        self._entered: dict[Value, tuple[Value, Home]] = {}
        parameters = set(body.parameters)
        everywhere = {name for value in body.parameters for name in type_symbols(value.type)}
        binders: dict[str, Home] = {}
        for op in body.ops:
            known = [home for operand in op.operands if (home := self._read_from(operand)) is not None]
            known += [binders[name] for name in sorted(op.symbols) if name in binders]
            latest = max(known, default=None)
            if op.name == "enter_stage":
                self._entered[op.result] = self.root(op.operands[0]), _behind(latest, op.int("stage"))
                continue
            bound = [name for name in bound_symbols(op) if name not in everywhere | binders.keys()]
            if latest is None and (bound or not parameters.isdisjoint(map(self.root, op.operands))):
                latest = first
            self.of_op[op] = latest
            if latest is not None:
                binders |= dict.fromkeys(bound, latest)

    def root(self, value: Value) -> Value:
        """The value before it enters any stage."""
        return self._entered[value][0] if value in self._entered else value

    def of(self, root: Value) -> Home | None:
        """Where a root is made; None for parameters, and what every segment can make."""
        return None if root.op is None else self.of_op[root.op]

    def _read_from(self, value: Value) -> Home | None:
        return self._entered[value][1] if value in self._entered else self.of(value)


def _behind(home: Home | None, stage: int) -> Home:
    """The first home of a stage that is not before `home`."""
    if home is None:
        return 0, stage
    visits, before = home
    return visits + (stage < before), stage


class _Part:
    """The ops of one segment, what it receives, and the function that it becomes."""

    def __init__(self, function: Function, homes: _Homes, home: Home) -> None:
        self.function, self.homes, self.home = function, homes, home
        body = function.body
        self.ops = [op for op in body.ops if op.name != "enter_stage" and homes.of_op[op] in (home, None)]
        results = [(index, homes.root(result)) for index, result in enumerate(body.results)]
        self.outputs = {index: root for index, root in results if (homes.of(root) or homes.first) == home}

    def received(self, extents: Mapping[str, Value]) -> tuple[Value, ...]:
        """The roots that other segments make and this one reads, then extents of the sizes that it would not know."""
        roots = tuple(dict.fromkeys(self._read_from_others()))
        sizes = dict.fromkeys(extents[name] for name in self._unknown_sizes(roots) if name in extents)
        return (*roots, *(extent for extent in sizes if self.homes.of(extent) != self.home))

    def _read_from_others(self) -> Iterator[Value]:
        for op in self.ops:
            for operand in op.operands:
                root = self.homes.root(operand)
                if self.homes.of(root) not in (None, self.home):
                    yield root

    def _unknown_sizes(self, received: tuple[Value, ...]) -> list[str]:
        """The symbols that a call of this segment could not know by parameters and what it receives."""
        parameters = (*self.function.body.parameters, *received)
        shapes = (value.type.shape for value in parameters if isinstance(value.type, ShapedType))
        known = {single_symbol(size) for shape in shapes for size in shape or ()}
        bound = {name for op in walk(Block((), tuple(self.ops), ())) for name in bound_symbols(op)}
        read = frozenset().union(*(op.symbols for op in self.ops)) - bound
        return sorted(read.union(*(type_symbols(value.type) for value in received)) - known)

    def segment(self, module: Module, received: tuple[Value, ...], sent: tuple[Value, ...]) -> Segment:
        """The segment; what nothing of it reads is left out."""
        parameters = {root: Parameter(f"received{k}", root.type).value for k, root in enumerate(received)}
        values, ops = dict(parameters), list[Op]()
        for op in self.ops:
            roots = map(self.homes.root, op.operands)
            ops.append(_with_operands(op, tuple(values.get(root, root) for root in roots)))
            values.update(zip(op.results, ops[-1].results, strict=True))
        results = [values.get(root, root) for root in (*sent, *self.outputs.values())]
        block = prune(Block((*self.function.body.parameters, *parameters.values()), tuple(ops), tuple(results)))
        names = [f"sent{k}" for k in range(len(sent))]
        names += [self.function.result_names[index] for index in self.outputs]
        ranges = symbols_in_use(self.function).ranges
        bound = dict.fromkeys(name for value in block.parameters for name in sorted(type_symbols(value.type)))
        # A call takes what it may leave out from the first segment, and passes it to all.
        defaults = self.function.defaults if self.home == self.homes.first else {}
        symbols = {name: ranges[name] for name in bound}
        made = replace(self.function, body=block, result_names=tuple(names), symbols=symbols, defaults=defaults)
        return Segment(self.home[1], replace(module, functions=(made,)), received, sent, tuple(self.outputs))


def _with_operands(op: Op, operands: tuple[Value, ...]) -> Op:
    if operands == op.operands:
        return op
    return Op(op.name, operands, op.attributes, op.blocks, op.result_types, op.location)
