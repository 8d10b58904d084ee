"""The builder: makes ops, typed as they are made, one method per primitive.

It does what makes lowering short: NumPy broadcasting becomes explicit `broadcast` ops, Python numbers become
constants, integer tensors known in sizes fold away, and an equality of sizes that is not decided becomes a guard.
Its parts are in `building/`, one file per kind of primitive; control flow and host functions are here.
"""

from collections.abc import Mapping, Sequence

from onnxc.compiler.ir.building.composites import CompositeBuilder
from onnxc.compiler.ir.building.contractions import ContractionBuilder
from onnxc.compiler.ir.building.indexed import IndexedBuilder
from onnxc.compiler.ir.module import Attribute, Attributes, Block, Value
from onnxc.compiler.ir.types import Type


class Builder(ContractionBuilder, IndexedBuilder, CompositeBuilder):
    """Collects ops of one block, of every kind."""

    def nested(self) -> "Builder":
        """A builder for a block within this one: it shares the symbols and the location."""
        return Builder(self.symbols, self.location)

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

    def native_call(
        self, operands: Sequence[Value], types: Sequence[Type], attributes: Mapping[str, Attribute]
    ) -> tuple[Value, ...]:
        """The results of code that a caller wrote (see primitives/native.py)."""
        return self.op("native_call", operands, attributes, (), types)
