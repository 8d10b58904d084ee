"""Axes of a block that all of its ops go through alike are one, and those of one element are left out.

A kernel then has as few loops as it can, and vectors as long as they can be: ArgMax of 8 x 32 x 14 rows of 7 is that of
3,584 rows. Buffers are dense, so that a parameter or a result under another shape is the same memory.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Attributes, Block, Op, Parameter, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import TensorType

_FOLDS = ("reduce", "arg_reduce", "scan_axis")
_MOVEMENTS = ("broadcast", "transpose", "reshape", "slice")

_Joint = tuple[Value, int]
"""What is between an axis of more than one element, by its ordinal among these, and the next such axis."""


def collapse_axes(block: Block) -> Block:
    """`block` with its axes as one where they can be; as it is where it has ops that are not known here."""
    if not all(map(_is_known, block.ops)):
        return block
    joints = _Joints()
    for op in block.ops:
        _link(op, joints)
    folded = [op.operands[0] for op in block.ops if op.name in _FOLDS]
    for value in folded[1:]:
        joints.follow(value, folded[0], {axis: axis for axis in _long_axes(value)})
    return _Collapsed(joints).block(block)


def _is_known(op: Op) -> bool:
    if op.blocks or len(op.results) != 1:
        return False
    if op.name in _FOLDS:
        axes = op.ints("axes") if op.name == "reduce" else (op.int("axis"),)
        return any(op.operands[0].shape[axis] != 1 for axis in axes)
    return op.name in _MOVEMENTS or PRIMITIVES[op.name].kind == "pointwise" or not (op.operands or op.result.shape)


def _long_axes(value: Value) -> list[int]:
    return [axis for axis, size in enumerate(value.shape) if size != 1]


def _link(op: Op, joints: "_Joints") -> None:
    """What an op asks of the joints of its operands and its result."""
    result, long = op.result, _long_axes(op.result)
    match op.name:
        case "reshape":
            _link_reshape(op, joints)
        case "broadcast":
            (operand,) = op.operands
            follows = {axis: own for own, axis in enumerate(op.ints("axes")) if operand.shape[own] != 1}
            joints.follow(result, operand, follows)
            # What may be of one element, or of as many as the result, is repeated by itself.
            for axis, own in follows.items():
                if operand.shape[own] != result.shape[axis]:
                    joints.isolate(result, axis)
                    joints.isolate(operand, own)
        case "transpose":
            joints.follow(result, op.operands[0], {axis: op.ints("permutation")[axis] for axis in long})
        case "slice":
            _link_slice(op, joints)
        case "reduce" | "arg_reduce":
            axes = op.ints("axes") if op.name == "reduce" else (op.int("axis"),)
            kept = [axis for axis in range(op.operands[0].rank) if axis not in axes]
            joints.follow(result, op.operands[0], {axis: kept[axis] for axis in long})
        case _:
            for operand in op.operands:
                joints.follow(result, operand, {axis: axis for axis in long})
    if op.name == "scan_axis":
        joints.isolate(result, op.int("axis"))


def _link_slice(op: Op, joints: "_Joints") -> None:
    """A part of an axis is one with those behind it that are taken whole, where it is in one piece."""
    (operand,), result = op.operands, op.result
    joints.follow(result, operand, {axis: axis for axis in _long_axes(result)})
    for axis in _long_axes(operand):
        is_whole = op.dims("starts")[axis] == 0 and result.shape[axis] == operand.shape[axis]
        if op.ints("steps")[axis] != 1:
            joints.isolate(operand, axis)
        elif not is_whole:
            joints.cut_before(operand, axis)


def _link_reshape(op: Op, joints: "_Joints") -> None:
    """The elements are in the same order before and after: joints with as many elements before them are the same."""
    before: list[list[Dim]] = []
    for value in (op.operands[0], op.result):
        sizes = [value.shape[axis] for axis in _long_axes(value)]
        before.append([product(sizes[: count + 1]) for count in range(len(sizes) - 1)])
    for joint, elements in enumerate(before[1]):
        if elements in before[0]:
            joints.unite((op.result, joint), (op.operands[0], before[0].index(elements)))


class _Joints:
    """Sets of joints that axes are merged at all, or at none."""

    def __init__(self) -> None:
        self._parents: dict[_Joint, _Joint] = {}
        self._cut: set[_Joint] = set()

    def is_cut(self, joint: _Joint) -> bool:
        """Whether there is no merging at a joint."""
        return self._root(joint) in self._cut

    def cut(self, joint: _Joint) -> None:
        self._cut.add(self._root(joint))

    def isolate(self, value: Value, axis: int) -> None:
        """Leaves an axis by itself."""
        for joint, pair in enumerate(pairwise(_long_axes(value))):
            if axis in pair:
                self.cut((value, joint))

    def cut_before(self, value: Value, axis: int) -> None:
        """Leaves an axis to those behind it."""
        for joint, (_, behind) in enumerate(pairwise(_long_axes(value))):
            if axis == behind:
                self.cut((value, joint))

    def unite(self, one: _Joint, other: _Joint) -> None:
        """The same for both."""
        one, other = self._root(one), self._root(other)
        self._parents[one] = other
        if one in self._cut:
            self._cut.add(other)

    def follow(self, value: Value, other: Value, axes: Mapping[int, int]) -> None:
        """The joints of `value`, an axis of which is that of `other` in `axes`, or none.

        Between two axes that are none of the other's anything goes; between two neighbours of both it is the same.
        """
        long, long_of_other = _long_axes(value), _long_axes(other)
        ordinals = {axis: ordinal for ordinal, axis in enumerate(long_of_other)}
        own = [ordinals[axes[axis]] if axis in axes else None for axis in long]
        matched, followed = set[int](), {ordinal for ordinal in own if ordinal is not None}
        for joint, (before, behind) in enumerate(pairwise(own)):
            if before is not None and behind == before + 1:
                self.unite((value, joint), (other, before))
                matched.add(before)
            elif (before, behind) != (None, None):
                self.cut((value, joint))
        for joint in range(len(long_of_other) - 1):
            if joint not in matched and {joint, joint + 1} & followed:
                self.cut((other, joint))

    def _root(self, joint: _Joint) -> _Joint:
        while (parent := self._parents.get(joint, joint)) != joint:
            joint = parent
        return joint


class _Collapsed:
    """Builds the block anew."""

    def __init__(self, joints: _Joints) -> None:
        self.joints = joints
        self.values: dict[Value, Value] = {}
        self.ops: list[Op] = []

    def block(self, block: Block) -> Block:
        parameters = tuple(self._parameter(value) for value in block.parameters)
        for op in block.ops:
            self.values[op.result] = self._moved(op) if op.name in _MOVEMENTS else self._computed(op)
        return Block(parameters, tuple(self.ops), tuple(self.values[result] for result in block.results))

    def _parameter(self, value: Value) -> Value:
        self.values[value] = Parameter(value.producer.name, self._type(value)).value
        return self.values[value]

    def _computed(self, op: Op) -> Value:
        return self._add(op, tuple(self.values[operand] for operand in op.operands), self._attributes(op))

    def _moved(self, op: Op) -> Value:
        operand = self.values[op.operands[0]]
        if op.name == "slice":
            return self._sliced(op, operand)
        is_turned = op.name == "transpose" and self._turn(op) != sorted(self._turn(op))
        if operand.shape == self._type(op.result).shape and not is_turned:
            return operand
        return self._add(op, (operand,), self._attributes(op))

    def _sliced(self, op: Op, operand: Value) -> Value:
        """A part, without the axes of which it has one element."""
        sizes, (whole,), starts, shape, steps = op.result.shape, op.operands, list[Dim](), list[Dim](), list[int]()
        for first, *behind in self._groups(whole):
            starts.append(op.dims("starts")[first] * product(whole.shape[axis] for axis in behind))
            shape.append(product(sizes[axis] for axis in (first, *behind)))
            steps.append(op.ints("steps")[first])
        attributes: Attributes = {"starts": tuple(starts), "shape": tuple(shape), "steps": tuple(steps)}
        part = Op("slice", (operand,), attributes, (), (TensorType(operand.dtype, tuple(shape)),), op.location)
        self.ops.append(part)
        if tuple(shape) == self._shape(op.result):
            return part.result
        dropped = Op("reshape", (part.result,), {"shape": self._shape(op.result)}, (), (self._type(op.result),))
        self.ops.append(dropped)
        return dropped.result

    def _attributes(self, op: Op) -> Attributes:
        operand = op.operands[0] if op.operands else None
        match op.name:
            case "broadcast":
                assert operand is not None
                own = self._ordinals(op.result)
                firsts = [group[0] for group in self._groups(operand)]
                return {"axes": tuple(own[op.ints("axes")[axis]] for axis in firsts), "shape": self._shape(op.result)}
            case "reshape":
                return {"shape": self._shape(op.result)}
            case "transpose":
                return {"permutation": tuple(self._turn(op))}
            case "reduce":
                assert operand is not None
                ordinals = self._ordinals(operand)
                axes = sorted({ordinals[axis] for axis in op.ints("axes") if axis in ordinals})
                return {**op.attributes, "axes": tuple(axes)}
            case "arg_reduce" | "scan_axis":
                assert operand is not None
                return {**op.attributes, "axis": self._ordinals(operand)[op.int("axis")]}
        return op.attributes

    def _turn(self, op: Op) -> list[int]:
        own = self._ordinals(op.operands[0])
        return [own[op.ints("permutation")[group[0]]] for group in self._groups(op.result)]

    def _add(self, op: Op, operands: tuple[Value, ...], attributes: Attributes) -> Value:
        added = Op(op.name, operands, attributes, (), (self._type(op.result),), op.location)
        self.ops.append(added)
        return added.result

    def _groups(self, value: Value) -> Sequence[Sequence[int]]:
        """The axes that are one, in order."""
        groups: list[list[int]] = []
        for ordinal, axis in enumerate(_long_axes(value)):
            if ordinal == 0 or self.joints.is_cut((value, ordinal - 1)):
                groups.append([])
            groups[-1].append(axis)
        return groups

    def _ordinals(self, value: Value) -> Mapping[int, int]:
        return {axis: ordinal for ordinal, group in enumerate(self._groups(value)) for axis in group}

    def _shape(self, value: Value) -> tuple[Dim, ...]:
        return tuple(product(value.shape[axis] for axis in group) for group in self._groups(value))

    def _type(self, value: Value) -> TensorType:
        return TensorType(value.dtype, self._shape(value))
