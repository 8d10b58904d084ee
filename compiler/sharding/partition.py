"""A module divided over devices: the one program that all of them run, each on its blocks.

Its parameters are those of the whole, then the ordinal of the device, then its share of each constant that is divided.
What a function returns is whole on every device, and so are its parameters, of which each takes its blocks. `Edges`
says which come and go divided.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace

import numpy as np

from onnxc.compiler.ir.capture import close_blocks
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Attribute, Block, Function, Module, Op, Parameter, Value, walk
from onnxc.compiler.ir.op_facts import declared_types
from onnxc.compiler.ir.pass_builder import PassBuilder
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.rewriter import symbols_in_use
from onnxc.compiler.ir.sharding import Mesh, Sharding, block_size, is_divisible, parse_sharding, replicated
from onnxc.compiler.ir.types import TensorType, Type
from onnxc.compiler.planning.loops.rows import identity
from onnxc.compiler.sharding.blocks_given import with_blocks_given
from onnxc.compiler.sharding.bodies import captured, carried, has_divided_bodies
from onnxc.compiler.sharding.exchange import Exchange, local_shape
from onnxc.compiler.sharding.factors import Claim, claims, has_axes
from onnxc.compiler.sharding.own_constants import with_own_constants
from onnxc.compiler.sharding.propagate import Propagation, propagate
from onnxc.compiler.sharding.without_reshards import without_reshards
from onnxc.runtime.records import record

__all__ = ["Edges", "Partition", "Share", "partition"]

# A sum of parts moved, or of sums, is the sum of what was moved: these keep partial values, others need the whole.
_MOVES_PARTS = ("reshape", "transpose", "slice")
_ADDS_PARTS = ("add", "sub", "neg")


@record
class Share:
    """A constant of which each device holds its block."""

    value: np.ndarray
    sharding: Sharding

    def of_device(self, mesh: Mesh, device: int) -> np.ndarray:
        """The block of a device; beyond the end of the constant there are zeros."""
        block = self.value
        for axis, axes in enumerate(self.sharding.dims):
            size = self.value.shape[axis]
            length = block_size(size, mesh.shards(axes))
            assert isinstance(length, int), self
            start = length * mesh.block(device, axes)
            block = block.take(range(min(start, size), min(start + length, size)), axis)
            missing = [(0, 0)] * axis + [(0, length - block.shape[axis])] + [(0, 0)] * (block.ndim - axis - 1)
            block = np.pad(block, missing, constant_values="" if block.dtype == np.object_ else 0)
        return np.ascontiguousarray(block)


@record(eq=False)
class Edges:
    """What a program gets and gives divided: parameters, by how they are, and the ordinals of results.

    inputs: the parameters of which each device may get its block, where it reads nothing else of them.
    """

    parameters: Mapping[Value, Sharding]
    results: frozenset[int]
    inputs: frozenset[Value] = frozenset()


@record(eq=False)
class Partition:
    """The program of each device, the constants whose shares are its last parameters, and what was decided.

    results: how each result is divided. inputs: how each parameter of the whole comes. undivided: branches and loops
    that every device computes whole, though values in their bodies are to be divided.
    """

    module: Module
    shares: tuple[Share, ...]
    propagation: Propagation
    results: tuple[Sharding, ...]
    inputs: tuple[Sharding, ...]
    undivided: tuple[Op, ...] = ()

    def collectives(self) -> tuple[Op, ...]:
        """What the devices exchange, in the order of the program."""
        return tuple(op for op in walk(self.module.main.body) if PRIMITIVES[op.name].kind == "collective")


def partition(module: Module, mesh: Mesh, devices: Sequence[int] = (), edges: Edges | None = None) -> Partition:
    """`module`, whose values `reshard` divides over `mesh`, as the program of each device.

    devices: for each ordinal of the mesh the device; the ordinals themselves where it is empty.
    """
    (function,) = module.functions
    function = replace(function, body=with_own_constants(function.body))
    walk = _Partitioner(function, mesh, devices or range(mesh.devices), edges or Edges({}, frozenset()))
    body, inputs = walk.run()
    return Partition(
        replace(module, functions=(replace(function, body=body),)),
        tuple(walk.shares),
        walk.propagation,
        walk.result_shardings(),
        inputs,
        tuple(walk.undivided),
    )


@record
class _Held:
    """What each device holds of a value, and by which sharding."""

    value: Value
    sharding: Sharding


class _Partitioner:
    """One walk over a block; `held` is what devices hold of each of its values, as first made and as asked for."""

    def __init__(self, function: Function, mesh: Mesh, devices: Sequence[int], edges: Edges) -> None:
        self.function, self.mesh, self.edges = function, mesh, edges
        self.propagation = propagate(function.body, mesh, edges.parameters)
        self.build = PassBuilder(symbols_in_use(function))
        ordinal = self._parameter("device", TensorType(I64, ()))
        self.added = [ordinal]
        self.exchange = Exchange(self.build, mesh, ordinal, devices)
        self.shares: list[Share] = []
        self.undivided: list[Op] = []
        # What was made of constants, by their arrays: those that are divided are there in bodies, too.
        self.parameters: dict[tuple[int, str], Value] = {}
        self.constants: dict[tuple[int, str], Value] = {}
        self.held: dict[Value, list[_Held]] = {}

    def run(self) -> tuple[Block, tuple[Sharding, ...]]:
        """The block of each device, and how each parameter of the whole comes to it."""
        body = self.function.body
        given = [self.edges.parameters.get(parameter, _whole(parameter)) for parameter in body.parameters]
        parameters = [self._given(*each) for each in zip(body.parameters, given, strict=True)]
        results = self._results(body, self.result_shardings())
        block = self.build.block([*parameters, *self.added], results)
        taken = {parameter: self.held[parameter][1] for parameter in self.edges.inputs if self._is_cut(parameter)}
        block, cut = with_blocks_given(block, {parameter: each.value for parameter, each in taken.items()})
        came = zip(body.parameters, given, strict=True)
        return block, tuple(taken[parameter].sharding if parameter in cut else sharding for parameter, sharding in came)

    def _is_cut(self, parameter: Value) -> bool:
        """Whether one block is all that was asked for of a parameter that comes whole."""
        first, *others = self.held[parameter]
        return first.value == parameter and len(others) == 1 and others[0].value != parameter

    def _results(self, block: Block, shardings: Sequence[Sharding]) -> list[Value]:
        """What the ops of a block give each device, divided so."""
        for op in block.ops:
            with self.build.at(op.location):
                self._step(op)
        return [self._get(result, sharding) for result, sharding in zip(block.results, shardings, strict=True)]

    def result_shardings(self) -> tuple[Sharding, ...]:
        """How each result is divided."""
        results = enumerate(self.function.body.results)
        return tuple(
            self._propagated(result) if index in self.edges.results else _whole(result) for index, result in results
        )

    def _given(self, parameter: Value, sharding: Sharding) -> Value:
        """What each device gets of a parameter that comes divided so."""
        local = parameter
        if not sharding.is_replicated:
            local = Parameter(parameter.producer.name, self._local_type(parameter, sharding)).value
        self._hold(parameter, local, sharding)
        return local

    def _step(self, op: Op) -> None:
        if op.name == "reshard":
            sharding = parse_sharding(op.text("sharding"))
            assert sharding is not None, op
            self._hold(op.result, self._get(op.operands[0], sharding), sharding)
            return
        if op.name == "enter_stage":
            # The rest of a graph may be in a branch, which is of one stage.
            sharding = self._propagated(op.operands[0])
            self._hold(op.result, self._get(op.operands[0], sharding), sharding)
            return
        if op.name == "constant":
            # Made where it is asked for: whole, or as a share.
            return
        if has_divided_bodies(op):
            (self._branch if op.name == "if" else self._loop)(op)
            return
        made = claims(op, self.propagation.dims, self.mesh)
        partial = self._kept_parts(op, made)
        if not made and not partial.partial:
            self._whole_step(op)
            return
        operands = [self._operand(op, index, made, partial) for index in range(len(op.operands))]
        targets = [self._made_sharding(op, index, made, partial) for index in range(len(op.results))]
        shapes = [local_shape(result.shape, s, self.mesh) for result, s in zip(op.results, targets, strict=True)]
        attributes, types = _localized(op.attributes, shapes[0]), declared_types(op, shapes)
        results = self.build.op(op.name, operands, attributes, (), types)
        for result, value, shape, sharding in zip(op.results, results, shapes, targets, strict=True):
            self._hold(result, self.build.with_shape(value, shape), sharding)

    def _whole_step(self, op: Op) -> None:
        """Each device computes the op whole."""
        operands = [self._get(operand, _whole(operand)) for operand in op.operands]
        blocks = tuple(map(without_reshards, op.blocks))
        if blocks != op.blocks:
            self.undivided.append(op)
        results = self.build.op(op.name, operands, op.attributes, blocks, op.result_types)
        for result, value in zip(op.results, results, strict=True):
            self._hold(result, value, _whole(result))

    # Branches and loops, which all devices go through alike

    def _branch(self, op: Op) -> None:
        targets = [self._propagated(result) for result in op.results]
        inner = [self._nested(op) for _ in op.blocks]
        blocks = [
            part.build.block((), part._results(block, targets)) for part, block in zip(inner, op.blocks, strict=True)
        ]
        self._close(op, [self._get(op.operands[0], _whole(op.operands[0]))], blocks, targets)

    def _loop(self, op: Op) -> None:
        (block,), links = op.blocks, tuple(carried(op))
        shardings = [self._propagated(inner) for _, inner, _, _ in links]
        elements = [Sharding(self._propagated(result).dims[1:]) for result in op.results[len(links) :]]
        operands = [self._get(operand, _whole(operand)) for operand in op.operands[:2]]
        operands += [self._get(start, s) for (start, _, _, _), s in zip(links, shardings, strict=True)]
        inner = self._nested(op)
        given = zip(block.parameters, (Sharding(()), *shardings), strict=False)
        parameters = [inner._given(parameter, sharding) for parameter, sharding in given]
        results = inner._results(block, [Sharding(()), *shardings, *elements])
        targets = [*shardings, *(Sharding(((), *element.dims)) for element in elements)]
        self._close(op, operands, [inner.build.block(parameters, results)], targets)

    def _close(self, op: Op, operands: list[Value], blocks: Sequence[Block], targets: Sequence[Sharding]) -> None:
        """The op with the bodies of each device, whose results are divided as `targets` say."""
        captures, closed = close_blocks(blocks)
        pairs = list(zip(op.results, targets, strict=True))
        types = [self._local_type(result, sharding) for result, sharding in pairs]
        results = self.build.op(op.name, [*operands, *captures], op.attributes, closed, types)
        for (result, sharding), value in zip(pairs, results, strict=True):
            self._hold(result, value, sharding)

    def _nested(self, op: Op) -> "_Partitioner":
        """The walk over a body of `op`, which has from outside what the device holds there."""
        inner = copy(self)
        inner.build = PassBuilder(self.build.symbols)
        inner.exchange = Exchange(inner.build, self.mesh, self.added[0], self.exchange.devices)
        inner.held, inner.constants = {}, {}
        for link in captured(op):
            self._get(link.source, self._propagated(link.source))
            inner.held[link.target] = list(self.held[link.source])
        return inner

    def _propagated(self, value: Value) -> Sharding:
        return self.propagation.sharding(value) if has_axes(value) else Sharding(())

    def _local_type(self, value: Value, sharding: Sharding) -> Type:
        """The type of what each device holds of a value."""
        if sharding.is_replicated:
            return value.type
        return TensorType(value.dtype, local_shape(value.shape, sharding, self.mesh))

    # Operands and results of an op that is divided

    def _operand(self, op: Op, index: int, made: Sequence[Claim], partial: Sharding) -> Value:
        """What a device needs of an operand; zeros, or what else changes nothing, where it reduces beyond the end."""
        operand = op.operands[index]
        wanted = list(replicated(operand.rank).dims)
        axes = [(claim, axis) for claim in made if (axis := claim.factor.operands[index]) is not None]
        for claim, axis in axes:
            wanted[axis] = claim.axes
        value = self._get(operand, Sharding(tuple(wanted), partial.partial, partial.kind))
        for claim, axis in axes:
            size = operand.shape[axis]
            if claim.factor.combine and not is_divisible(size, self.mesh.shards(claim.axes)):
                fill = identity(claim.factor.combine, value.dtype)
                # Shares of constants have zeros there.
                if fill or operand.op is None or operand.op.name != "constant":
                    value = self.exchange.masked(value, axis, size, claim.axes, fill)
        return value

    def _made_sharding(self, op: Op, index: int, made: Sequence[Claim], partial: Sharding) -> Sharding:
        """How a result is divided, and along which axes it is partial."""
        dims = list(replicated(op.results[index].rank).dims)
        parts, kind = list(partial.partial), partial.kind
        for claim in made:
            axis = claim.factor.results[index]
            if claim.factor.combine:
                parts += claim.axes
                kind = claim.factor.combine
            elif axis is not None:
                dims[axis] = claim.axes
        return Sharding(tuple(dims), tuple(parts), kind)

    def _kept_parts(self, op: Op, made: Sequence[Claim]) -> Sharding:
        """The parts that all operands are, where the op can work on parts as on the whole."""
        held = [self.held.get(operand, []) for operand in op.operands]
        partials = {(each[0].sharding.partial, each[0].sharding.kind) if len(each) == 1 else None for each in held}
        common = partials.pop() if len(partials) == 1 else None
        if common is not None:
            partial, kind = common
            divided = {name for claim in made for name in claim.axes}
            is_kept = op.name in _MOVES_PARTS or (op.name in _ADDS_PARTS and kind == "sum")
            if is_kept and not divided & set(partial):
                return Sharding((), partial, kind)
        return Sharding(())

    # What devices hold

    def _hold(self, value: Value, local: Value, sharding: Sharding) -> None:
        self.held.setdefault(value, []).append(_Held(local, sharding))

    def _get(self, value: Value, wanted: Sharding) -> Value:
        """What a device holds of a value by a sharding, exchanged if it does not hold it yet."""
        held = self.held.setdefault(value, [])
        for each in held:
            if each.sharding == wanted:
                return each.value
        if value.op is not None and value.op.name == "constant":
            local = self._constant(value.op, wanted)
        else:
            source = next((each for each in held if not each.sharding.partial), held[0])
            local = self.exchange.convert(source.value, value.shape, source.sharding, wanted)
        self._hold(value, local, wanted)
        return local

    def _constant(self, constant: Op, sharding: Sharding) -> Value:
        """The constant; where it is divided, a parameter for the share of a device."""
        key = id(constant.array()), str(sharding)
        if sharding.is_replicated:
            if key not in self.constants:
                self.constants[key] = self.build.constant(constant.array())
            return self.constants[key]
        if key not in self.parameters:
            self.parameters[key] = self._parameter(
                f"share{len(self.shares)}", self._local_type(constant.result, sharding)
            )
            self.shares.append(Share(constant.array(), sharding))
            self.added.append(self.parameters[key])
        return self.parameters[key]

    def _parameter(self, name: str, type: Type) -> Value:
        """A parameter that no caller passes, under a name that no other has."""
        taken = {parameter.producer.name for parameter in self.function.body.parameters}
        while name in taken:
            name += "_"
        return Parameter(name, type).value


def _whole(value: Value) -> Sharding:
    return replicated(value.rank) if has_axes(value) else Sharding(())


def _localized(attributes: Mapping[str, Attribute], shape: tuple[Dim, ...]) -> Mapping[str, Attribute]:
    """The attributes of an op whose result has `shape` on each device; only `shape` says it."""
    return {**attributes, "shape": shape} if "shape" in attributes else attributes
