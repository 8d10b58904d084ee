"""Copying the ops of a block into another: what they compute is computed anew, from other arguments.

Symbols that the ops bind get new names, as a symbol is bound once in a function; so do the parameters of nested blocks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import substitute
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.module import Attribute, Block, Op, Parameter, Value
from onnxc.compiler.ir.op_facts import named_symbols
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import substitute_type


def copy_block(block: Block, arguments: Sequence[Value], build: Builder) -> tuple[Value, ...]:
    """The results of `block`, whose ops are made again by `build` with `arguments` for its parameters."""
    copies = copy_values(block, arguments, build)
    return tuple(copies[result] for result in block.results)


def copy_values(block: Block, arguments: Sequence[Value], build: Builder) -> Mapping[Value, Value]:
    """As `copy_block`, the new value for every value of the block."""
    return BlockCopy(build).values(block, arguments)


@dataclass
class BlockCopy:
    """One copy: the new names of the symbols met so far, and the sizes that stand for symbols which nothing binds."""

    build: Builder
    renamed: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, Dim] = field(default_factory=dict)

    @property
    def replacements(self) -> Mapping[str, Dim]:
        return {old: Size.symbol(new) for old, new in self.renamed.items()} | self.sizes

    def values(self, block: Block, arguments: Sequence[Value]) -> Mapping[Value, Value]:
        values = dict(zip(block.parameters, arguments, strict=True))
        for op in block.ops:
            with self.build.at(op.location):
                results = self.op(op, [values[operand] for operand in op.operands])
            values.update(zip(op.results, results, strict=True))
        return values

    def op(self, op: Op, operands: Sequence[Value]) -> tuple[Value, ...]:
        blocks = [self.nested(block) for block in op.blocks]
        for name in named_symbols(op):
            self.renamed[name] = self.fresh(name)
        attributes = {name: self.attribute(op, name, value) for name, value in op.attributes.items()}
        types = [substitute_type(type, self.replacements) for type in op.result_types]
        return self.build.op(op.name, operands, attributes, blocks, types)

    def nested(self, block: Block) -> Block:
        outer, self.build = self.build, self.build.nested()
        parameters = [
            Parameter(value.producer.name, substitute_type(value.type, self.replacements)).value
            for value in block.parameters
        ]
        values = self.values(block, parameters)
        made = self.build.block(parameters, [values[result] for result in block.results])
        self.build = outer
        return made

    def fresh(self, name: str) -> str:
        symbols = self.build.symbols
        new = symbols.fresh(name)
        symbols.ranges[new] = symbols.ranges.get(name, symbols.ranges[new])
        return new

    def attribute(self, op: Op, name: str, value: Attribute) -> Attribute:
        """An attribute with the new names: of sizes in it, and of those that it binds."""
        if isinstance(value, Size):
            return substitute(value, self.replacements)
        if isinstance(value, tuple):
            return tuple(self.attribute(op, name, item) for item in value)
        if isinstance(value, str) and name == PRIMITIVES[op.name].binds:
            return self.renamed[value]
        return value
