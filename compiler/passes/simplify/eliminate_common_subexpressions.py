"""Common subexpressions: what is computed twice in a block is computed once, equal constants included."""

import struct
from collections.abc import Hashable, Iterator

import numpy as np

from onnxc.compiler.ir.module import Attribute, Block, Module, Op, Value
from onnxc.compiler.ir.op_facts import bound_symbols
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.rewriter import map_bodies

COMMUTATIVE = ("add", "mul", "min", "max", "and", "or", "xor", "equal")

SAMPLES = 64
"""How many elements of an array are compared first; unlike arrays of weights differ in one of them. An estimate: more
would cost time for each array, fewer only a comparison of whole arrays now and then."""


def eliminate_common_subexpressions(module: Module) -> Module:
    """Computes equal expressions once; of equal guards the first stays."""
    return map_bodies(module, lambda body, _: _merged(body))


def _merged(body: Block) -> Block:
    merged = _Merge().block(body)
    return body if merged is body else prune(merged)


class _Merge:
    """The values that were seen in one block, by the expressions that make them."""

    def __init__(self) -> None:
        self.values: dict[Value, Value] = {}
        self.ordinals: dict[Value, int] = {}
        self.seen: dict[Hashable, Op] = {}
        self.arrays: dict[Hashable, list[np.ndarray]] = {}

    def block(self, block: Block) -> Block:
        """`block` with each expression computed once, itself where it has no two equal ones."""
        for parameter in block.parameters:
            self._assign_ordinal(parameter)
        ops = tuple(self._kept(block))
        if ops == block.ops:
            return block
        return Block(block.parameters, ops, tuple(self.values.get(result, result) for result in block.results))

    def _kept(self, block: Block) -> Iterator[Op]:
        for op in block.ops:
            current = self._renewed(op)
            key = self._key(current)
            first = current if key is None else self.seen.setdefault(key, current)
            for old, new in zip(op.results, first.results, strict=True):
                self.values[old] = new
                self._assign_ordinal(new)
            if first is current:
                yield current

    def _assign_ordinal(self, value: Value) -> None:
        self.ordinals.setdefault(value, len(self.ordinals))

    def _renewed(self, op: Op) -> Op:
        operands = tuple(self.values.get(operand, operand) for operand in op.operands)
        if operands == op.operands and not op.blocks:
            return op
        blocks = tuple(_Merge().block(block) for block in op.blocks)
        if (operands, blocks) == (op.operands, op.blocks):
            return op
        return Op(op.name, operands, op.attributes, blocks, op.result_types, op.location)

    def _key(self, op: Op) -> Hashable | None:
        """What two ops have in common exactly when one can stand for the other; None for an op that always stays."""
        if op.name == "guard":
            return ("guard", *(op.attributes[name] for name in ("relation", "left", "right")))
        if PRIMITIVES[op.name].effects or op.blocks or op.name == "host" or bound_symbols(op):
            return None
        operands = [self.ordinals[operand] for operand in op.operands]
        if op.name in COMMUTATIVE:
            operands.sort()
        attributes = tuple((name, self._attribute_key(value)) for name, value in sorted(op.attributes.items()))
        return (op.name, tuple(operands), attributes, op.result_types)

    def _attribute_key(self, value: Attribute) -> Hashable:
        """Equal for attributes that mean the same: 0.0 is not -0.0, and 1 is neither 1.0 nor true."""
        match value:
            case np.ndarray():
                return self._array_key(value)
            case tuple():
                return tuple(self._attribute_key(item) for item in value)
            case float():
                return ("float", struct.pack("<d", value))
            case bool():
                return ("bool", value)
        return value

    def _array_key(self, array: np.ndarray) -> Hashable:
        """The same for arrays with the same bits; most differ in the few that are compared first."""
        if array.dtype.kind == "O":
            return (array.shape, tuple(array.reshape(-1).tolist()))
        sample = array.reshape(-1)[:: max(1, array.size // SAMPLES)]
        key = (array.dtype, array.shape, sample.tobytes())
        alike = self.arrays.setdefault(key, [])
        for ordinal, other in enumerate(alike):
            if other is array or np.array_equal(_bits(other), _bits(array)):
                return (key, ordinal)
        alike.append(array)
        return (key, len(alike) - 1)


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
