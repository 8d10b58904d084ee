"""What an operator's lowering sees: the registry, and the view of one node with its operands as IR values.

An operator is a function from a `Node` and a `Builder` to the values of its outputs. Names, arity, attribute types and
defaults come from the schema table; the function says only what the operator computes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import NoReturn, Protocol

import numpy as np

from onnxc.compiler.diagnostics import Diagnostic, Location, error, model_error, warning
from onnxc.compiler.frontend.case_split import CaseKey, CasesNeeded, ConditionSplit, RankSplit
from onnxc.compiler.frontend.computation import Computation
from onnxc.compiler.frontend.element_types import dtype_of_element_type
from onnxc.compiler.frontend.fixed_ranks import fixed_rank
from onnxc.compiler.frontend.graph import AttributeValue, Graph, GraphNode, Tensor
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.building.random_state import RandomState
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import MapType, OptionalType, SequenceType, ShapedType, TensorType, Type
from onnxc.runtime.records import record

NodeResults = Value | tuple[Value | None, ...]
Lowering = Callable[["Node", Builder], NodeResults]
OperatorKey = tuple[str, str, int]

# `Node` has methods named like the types.
Int = int
Float = float

_OPERATORS: dict[OperatorKey, Lowering] = {}
OPERATORS: Mapping[OperatorKey, Lowering] = _OPERATORS
"""Lowering of each (domain, name, since_version)."""


def operator(name: str, since: Sequence[int], domain: str = "") -> Callable[[Lowering], Lowering]:
    """Registers the decorated function as the lowering of the schema versions `since` of an operator."""

    def register(lowering: Lowering) -> Lowering:
        for version in since:
            key = (domain, name, version)
            assert key not in _OPERATORS, key
            _OPERATORS[key] = lowering
        return lowering

    return register


class NotYetSupported(Exception):
    """A legal node that the frontend cannot lower yet; collected, and raised as one UnsupportedError."""


class SubgraphLowering(Protocol):
    """Lowers a graph attribute within the scope of its node."""

    def __call__(
        self, graph: Graph, parameters: Sequence[Value], ir: Builder, rounds: Sequence[Value] = ()
    ) -> tuple[Value, ...]:
        """The results of `graph` with its inputs bound to `parameters`; ops are made by `ir`.

        rounds: i64[] of each loop that the node makes of the graph, the outermost first.
        """

    def forget(self) -> None:
        """What was lowered so far for this node was an attempt: the types found in it count no more."""

    @property
    def enclosing(self) -> Computation:
        """The graphs around the node."""

    def compute_again(self, result: str, given: Mapping[str, Value], ir: Builder) -> Value:
        """The value `result` of the graphs around, where the names in `given` have the values there."""


@record
class Node:
    """One node to lower. Operands are None where an optional input is absent.

    `key` stands for this lowering of the node. `may_split`: whether it may ask for the cases of a condition. `assumed`:
    what its condition is in the case at hand. `random_state`: what its draws depend on, None where they are the same in
    every call. `channels_in_block`: of filters in blocks. `warnings` collects what is wrong and does not matter.
    """

    graph_node: GraphNode
    operands: tuple[Value | None, ...]
    lower_subgraph: SubgraphLowering
    key: CaseKey
    may_split: bool
    assumed: bool | None
    random_state: RandomState | None = None
    channels_in_block: Int = 0
    warnings: list[Diagnostic] = field(default_factory=list)

    @property
    def operator(self) -> str:
        return self.graph_node.operator

    @property
    def since(self) -> Int:
        """The schema version that was chosen for the node."""
        return self.graph_node.since

    @property
    def opset(self) -> Int:
        return self.graph_node.opset

    @property
    def location(self) -> Location:
        return self.graph_node.location

    # Inputs

    def inputs(self, *names: str) -> tuple[Value, ...]:
        """The required tensors of these names."""
        return tuple(self.input(name) for name in names)

    def input(self, name: str) -> Value:
        """The required tensor `name`."""
        value = self.optional(name)
        if value is None:
            self.fail("missing-input", f"input {name} is required and absent", rule=f"ONNX {self.operator}")
        return value

    def optional(self, name: str) -> Value | None:
        """The tensor `name`, or None where it is absent."""
        position = self._position(name)
        value = self.operands[position] if position < len(self.operands) else None
        return None if value is None else self.tensor_of(value)

    def variadic(self) -> tuple[Value, ...]:
        """All inputs, as tensors."""
        return tuple(self.tensor_of(value) for value in self.operands if value is not None)

    def host_input(self, name: str) -> Value | None:
        """The input `name` of whatever type, or None."""
        position = self._position(name)
        return self.operands[position] if position < len(self.operands) else None

    def _position(self, name: str) -> Int:
        names = [formal.name for formal in self.graph_node.schema.inputs]
        if name not in names:
            raise KeyError(f"{self.operator} has no input {name!r}, its inputs are {', '.join(names)}")
        return names.index(name)

    def tensor_of(self, value: Value, rank: Int | None = None) -> Value:
        """The value, which is a tensor of known rank; where only data tells it, of `rank`, if that is given."""
        if not isinstance(value.type, TensorType):
            self.unsupported(f"an operand is {value.type}, not a tensor")
        if value.type.shape is None:
            self._split_by_rank(value, rank)
        return value

    # Cases

    def _split_by_rank(self, value: Value, given: Int | None) -> NoReturn:
        """The node is lowered for each rank that `value` may have, or for the one that is given or that is fixed."""
        reason = "the rank of an operand is only known at run time; give the input a shape with shapes="
        if given is not None:
            raise CasesNeeded(RankSplit(value, reason, rank=given))
        rank = fixed_rank(self.graph_node, self.operands.index(value)) if value in self.operands else None
        if isinstance(rank, str):
            raise CasesNeeded(RankSplit(value, reason, rank=0, is_element=True))
        if isinstance(rank, tuple):
            name, more = rank
            rank = max(self.input(name).rank + more, 0)
        raise CasesNeeded(RankSplit(value, reason, rank=rank))

    def split_by_size(self, value: Value, axis: Int, reason: str) -> NoReturn:
        """The node is lowered for each size that `axis` of the operand may have, as a rank depends on that."""
        raise CasesNeeded(RankSplit(value, reason, axis))

    def split_by_condition(self, condition: Value) -> NoReturn:
        """The node is lowered where `condition` holds and where not, as the ranks of what it gives depend on that."""
        assert self.may_split, self.location
        raise CasesNeeded(ConditionSplit(condition, self.key))

    # Outputs

    @property
    def output_count(self) -> Int:
        return len(self.graph_node.outputs)

    def wants(self, index: Int) -> bool:
        """Whether output `index` is used under a name."""
        return index < len(self.graph_node.outputs) and self.graph_node.outputs[index] != ""

    # Attributes

    def has(self, name: str) -> bool:
        """Whether the attribute is given, or has a default in the schema."""
        return name in self.graph_node.attributes

    def _attribute(self, name: str) -> AttributeValue:
        if name not in self.graph_node.attributes:
            self.fail("missing-attribute", f"attribute {name} is required and absent", rule=f"ONNX {self.operator}")
        return self.graph_node.attributes[name]

    def _wrong(self, name: str, kind: str) -> NoReturn:
        self.fail("attribute-type", f"attribute {name} is not {kind}", rule=f"ONNX {self.operator}, attribute {name}")

    def int(self, name: str, default: Int | None = None) -> Int:
        """An integer attribute."""
        if default is not None and not self.has(name):
            return default
        value = self._attribute(name)
        return value if isinstance(value, int) else self._wrong(name, "an integer")

    def flag(self, name: str, default: bool | None = None) -> bool:
        """An integer attribute that is 0 or not."""
        return self.int(name, None if default is None else int(default)) != 0

    def float(self, name: str, default: Float | None = None) -> Float:
        """A float attribute."""
        if default is not None and not self.has(name):
            return default
        value = self._attribute(name)
        return float(value) if isinstance(value, int | float) else self._wrong(name, "a float")

    def string(self, name: str, default: str | None = None) -> str:
        """A text attribute."""
        if default is not None and not self.has(name):
            return default
        value = self._attribute(name)
        return value if isinstance(value, str) else self._wrong(name, "a string")

    def choice(
        self, name: str, options: Sequence[str], default: str | None = None, elsewhere: Sequence[str] = ()
    ) -> str:
        """A text attribute that must be one of `options`; with a warning, one that the operator has `elsewhere`.

        elsewhere: what it takes in other versions. ONNX Runtime takes it in this one too.
        """
        value = self.string(name, default)
        if value not in options:
            message = f"{name} is {value!r}, not one of {', '.join(options)}"
            rule = f"ONNX {self.operator}, attribute {name}"
            if value not in elsewhere:
                self.fail("attribute-value", message, rule=rule)
            self.warn("attribute-value", f"{message}; it is in another version, and means the same here", rule)
        return value

    def _list(self, name: str) -> tuple[object, ...]:
        value = self._attribute(name)
        return value if isinstance(value, tuple) else self._wrong(name, "a list")

    def ints(self, name: str, default: Sequence[Int] | None = None) -> tuple[Int, ...]:
        """An attribute that is a list of integers."""
        if default is not None and not self.has(name):
            return tuple(default)
        return tuple(item for item in self._list(name) if isinstance(item, int))

    def floats(self, name: str, default: Sequence[Float] | None = None) -> tuple[Float, ...]:
        """An attribute that is a list of floats."""
        if default is not None and not self.has(name):
            return tuple(default)
        return tuple(item for item in self._list(name) if isinstance(item, float))

    def strings(self, name: str, default: Sequence[str] | None = None) -> tuple[str, ...]:
        """An attribute that is a list of texts."""
        if default is not None and not self.has(name):
            return tuple(default)
        return tuple(item for item in self._list(name) if isinstance(item, str))

    def tensor(self, name: str) -> np.ndarray:
        """A tensor attribute."""
        value = self._attribute(name)
        return value.array() if isinstance(value, Tensor) else self._wrong(name, "a tensor")

    def dtype(self, name: str) -> DType:
        """An integer attribute that numbers an element type."""
        dtype = dtype_of_element_type(self.int(name))
        if dtype is None:
            message = f"{name} is {self.int(name)}, which is no element type"
            self.fail("unknown-element-type", message, rule="TensorProto.DataType")
        return dtype

    def graph(self, name: str) -> Graph:
        """A graph attribute."""
        value = self._attribute(name)
        return value if isinstance(value, Graph) else self._wrong(name, "a graph")

    def value_type(self, name: str) -> Type:
        """An attribute that is the type of a value."""
        value = self._attribute(name)
        if isinstance(value, ShapedType | SequenceType | OptionalType | MapType):
            return value
        return self._wrong(name, "a type")

    def axis(self, name: str, rank: Int, default: Int | None = None) -> Int:
        """An integer attribute that is an axis, counted from the start."""
        return self.axes_list((self.int(name, default),), rank, name)[0]

    def axes_list(self, axes: Sequence[Int], rank: Int, name: str = "axes") -> tuple[Int, ...]:
        """`axes` counted from the start; error axis-out-of-range, or repeated-axis, where they are not axes."""
        for axis in axes:
            if not -rank <= axis < rank:
                message = f"{name} is {axis}, outside [{-rank}, {rank - 1}]"
                self.fail("axis-out-of-range", message, rule=f"ONNX {self.operator}, {name}")
        normalized = tuple(axis % rank for axis in axes)
        if len(set(normalized)) != len(normalized):
            self.fail("repeated-axis", f"{name} {list(axes)} names an axis twice", rule=f"ONNX {self.operator}, {name}")
        return normalized

    # Errors

    def fail(self, code: str, message: str, rule: str = "") -> NoReturn:
        """A ModelError at this node, which lists the operands."""
        raise model_error([error(code, message, self.location, self._listed(), rule)])

    def warn(self, code: str, message: str, rule: str) -> None:
        """Notes what is wrong with the node and does not keep it from being compiled."""
        self.warnings.append(warning(code, message, self.location, self._listed(), rule))

    def described(self, finding: Diagnostic) -> Diagnostic:
        """A finding made while the node was lowered, with what it lacks: the operands, and the operator as its rule."""
        if finding.location not in (None, self.location):
            return finding
        return replace(
            finding,
            location=self.location,
            values=finding.values or self._listed(),
            rule=finding.rule or f"ONNX {self.operator}",
        )

    def _listed(self) -> tuple[str, ...]:
        listed = zip(self.graph_node.inputs, self.operands, strict=False)
        return tuple(f'"{name}" : {value.type}' for name, value in listed if value is not None)

    def unsupported(self, reason: str) -> NoReturn:
        """This legal node cannot be lowered yet, because of `reason`."""
        raise NotYetSupported(reason)
