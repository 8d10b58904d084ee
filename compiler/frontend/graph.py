"""A checked model: names resolved, operator versions chosen, functions inlined, tensors readable.

Nothing here knows the wire format. No name is defined twice along a path from a graph to its subgraphs, so a name means
one value wherever it is visible; an empty name is an operand that is left out.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Union

import numpy as np

from onnxc.compiler.diagnostics import Diagnostic, Location
from onnxc.compiler.frontend.custom.operators import CustomOperator
from onnxc.compiler.frontend.devices.annotations import NodeDevices
from onnxc.compiler.frontend.schemas import Schema
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.types import Type
from onnxc.runtime.records import record

AttributeScalar = Union[int, float, str, "Tensor", "Graph", Type]
AttributeValue = AttributeScalar | tuple[AttributeScalar, ...]


@record
class Tensor:
    """A constant of the model; its elements are read when asked for."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    load: Callable[[], np.ndarray] = field(repr=False, compare=False)

    def array(self) -> np.ndarray:
        """The elements, read-only; large ones are mapped as they lie in the file, which may be unaligned.

        Each call reads anew. Strings come as an object array of `str`.
        """
        return self.load()

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@record
class ValueInfo:
    """A name and what is declared of its type, if anything."""

    name: str
    type: Type | None

    def __str__(self) -> str:
        return self.name if self.type is None else f"{self.name}: {self.type}"


@record
class GraphNode:
    """A call of an operator; `since` is the version of its schema, `attributes` holds given values and defaults.

    `is_copy`: an Identity that the expansion of functions made, for a value of whatever type. `custom`: the operator,
    where a caller brought it. `devices`: what it says of each device configuration that it names.
    """

    operator: str
    domain: str
    since: int
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeValue]
    location: Location
    schema: Schema
    is_copy: bool = False
    custom: CustomOperator | None = None
    devices: tuple[NodeDevices, ...] = ()

    def __str__(self) -> str:
        attributes = [f"{name} = {_attribute_text(value)}" for name, value in self.attributes.items()]
        results = ", ".join(name or "_" for name in self.outputs)
        operands = ", ".join(name or "_" for name in self.inputs)
        text = f"{results} = {self.schema.identity}({operands})"
        return f"{text} {{{', '.join(attributes)}}}" if attributes else text

    def subgraphs(self) -> Iterator["Graph"]:
        """The graphs among the attributes, in order."""
        for value in self.attributes.values():
            # A list is of one kind: forests have hundreds of thousands of numbers.
            if isinstance(value, tuple) and value and isinstance(value[0], Graph):
                yield from (part for part in value if isinstance(part, Graph))
            elif isinstance(value, Graph):
                yield value


@record
class Graph:
    """Nodes in an order of execution; `inputs` includes those that an initializer backs.

    path: where the graph is within the model, as in main/If_3.then_branch.
    function_infos: what functions declare of the values in their bodies, for the calls that are expanded here.
    """

    name: str
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]
    initializers: Mapping[str, Tensor]
    nodes: tuple[GraphNode, ...]
    value_infos: Mapping[str, ValueInfo]
    path: str = "main"
    function_infos: Mapping[str, ValueInfo] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"graph {self.name}({', '.join(map(str, self.inputs))}) {{"]
        lines += [f"  {name} = constant : {tensor}" for name, tensor in self.initializers.items()]
        for node in self.nodes:
            lines += ["  " + line for line in str(node).split("\n")]
        return "\n".join([*lines, f"  return {', '.join(map(str, self.outputs))}", "}"])


@record
class CheckedModel:
    """A model without errors; `opsets` are the main graph's imports, ai.onnx under the empty name.

    metadata: its metadata_props; about: what else it says of itself, for people.
    configurations: the device configurations, with how many devices each has.
    """

    graph: Graph
    name: str
    ir_version: int
    opsets: Mapping[str, int]
    warnings: tuple[Diagnostic, ...]
    digest: str
    metadata: Mapping[str, str]
    about: Mapping[str, str] = field(default_factory=dict)
    configurations: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in self.opsets.items())
        return f"model {self.name} (ir {self.ir_version}, {opsets})\n{self.graph}"


def all_nodes(graph: Graph) -> Iterator[GraphNode]:
    """The nodes of the graph, each before those of its subgraphs."""
    for node in graph.nodes:
        yield node
        for inner in node.subgraphs():
            yield from all_nodes(inner)


def _attribute_text(value: AttributeValue) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_attribute_text(part) for part in value)}]"
    if isinstance(value, str):
        return f'"{value}"'
    return str(value)
