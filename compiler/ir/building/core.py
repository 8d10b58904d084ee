"""The core of the builder: it makes ops, typed as they are made, and replaces those whose results are known.

It knows blocks, locations, symbols and errors, and no primitive but those that known elements are written as.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import NoReturn

import numpy as np

from onnxc.compiler.diagnostics import Location, error, model_error
from onnxc.compiler.ir.dims import Dim, Size, SizeTooComplex
from onnxc.compiler.ir.fold_sizes import fold_known
from onnxc.compiler.ir.module import Attribute, Attributes, Block, Op, Parameter, Value
from onnxc.compiler.ir.primitive import PRIMITIVES, TypeRuleError
from onnxc.compiler.ir.symbol_table import SymbolTable
from onnxc.compiler.ir.types import TensorType, Type
from onnxc.runtime.errors import located
from onnxc.runtime.host.conversions import wrapped


class OpBuilder:
    """Collects ops of one block. `location` is given to each op made while it is set (see `at`)."""

    def __init__(self, symbols: SymbolTable | None = None, location: Location | None = None) -> None:
        self.symbols = symbols if symbols is not None else SymbolTable()
        self.location = location
        self.ops: list[Op] = []

    # Blocks, symbols, errors

    def at(self, location: Location | None) -> "_At":
        """Ops made within carry `location`, and so does the error of a size that is too complex."""
        return _At(self, location)

    def block(self, parameters: Sequence[Value], results: Sequence[Value]) -> Block:
        """The block of the ops made so far."""
        return Block(tuple(parameters), tuple(self.ops), tuple(results))

    def parameter(self, name: str, type: Type) -> Value:
        """A new parameter for a block."""
        return Parameter(name, type).value

    def fresh_symbol(self, hint: str) -> Dim:
        """A size of its own, named `hint` or alike."""
        return Size.symbol(self.symbols.fresh(hint))

    def fail(self, code: str, message: str, values: Sequence[str] = (), rule: str = "") -> NoReturn:
        """A ModelError at the current location."""
        raise model_error([error(code, message, self.location, values, rule)])

    # Making ops

    def op(
        self,
        name: str,
        operands: Sequence[Value] = (),
        attributes: Attributes | None = None,
        blocks: Sequence[Block] = (),
        result_types: Sequence[Type] | None = None,
    ) -> tuple[Value, ...]:
        """The results of a new op; its types come from the type rule, or from `result_types` where it has none."""
        attributes = dict(attributes or {})
        types = self._result_types(name, operands, attributes, blocks, result_types)
        known = fold_known(name, operands, attributes, types) if self.may_fold(name, operands) else None
        if known is not None:
            (type,) = types
            assert isinstance(type, TensorType)
            return (self._known_value(known[0], type),)
        return self._made(Op(name, tuple(operands), attributes, tuple(blocks), types, self.location))

    def may_fold(self, name: str, operands: Sequence[Value]) -> bool:
        """Whether an op whose operands are known is replaced by its result."""
        return True

    def _result_types(
        self,
        name: str,
        operands: Sequence[Value],
        attributes: Attributes,
        blocks: Sequence[Block],
        declared: Sequence[Type] | None,
    ) -> tuple[Type, ...]:
        rule = PRIMITIVES[name].type_rule
        if rule is None:
            assert declared is not None, name
            return tuple(declared)
        try:
            return rule([operand.type for operand in operands], attributes, blocks)
        except TypeRuleError as reason:
            self.fail("type-mismatch", f"{name}: {reason}", [str(operand.type) for operand in operands])

    def _made(self, op: Op) -> tuple[Value, ...]:
        self.ops.append(op)
        return op.results

    def _one(self, name: str, *operands: Value, **attributes: Attribute) -> Value:
        return self.op(name, operands, attributes)[0]

    def _known_value(self, elements: np.ndarray, type: TensorType) -> Value:
        if elements.dtype != object:
            return self._one("constant", value=elements)
        if all(isinstance(element, int) for element in elements.flat):
            integers = wrapped(elements.ravel().tolist()).astype(type.dtype.numpy).reshape(elements.shape)
            return self._one("constant", value=integers)
        flat = self._one("sizes", values=tuple(elements.flat), dtype=type.dtype, scalar=elements.ndim == 0)
        if elements.ndim <= 1:
            return flat
        return self._made(Op("reshape", (flat,), {"shape": elements.shape}, (), (type,), self.location))[0]


class _At:
    """What `OpBuilder.at` gives: a class, as passes enter it for each op; it takes 1.1 us, a generator 2.1."""

    __slots__ = ("before", "build", "location")

    def __init__(self, build: OpBuilder, location: Location | None) -> None:
        self.build, self.location, self.before = build, location, build.location

    def __enter__(self) -> None:
        self.before, self.build.location = self.build.location, self.location

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, _: TracebackType | None
    ) -> None:
        self.build.location = self.before
        if isinstance(problem, SizeTooComplex):
            raise located(problem, self.location) from None
