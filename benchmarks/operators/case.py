"""A case of the sweep: a graph of one operator with what stands around it, and the inputs of a call."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from onnx import ModelProto, helper, parser, shape_inference

from benchmarks.inputs import InputSpec

# What the text of a graph calls the element types of NumPy.
TYPE_NAMES = {"float32": "float", "float64": "double"}


@dataclass(frozen=True)
class OperatorCase:
    """`nodes` compute y from the inputs; `constants` are declared as in the text of a graph, `int64[1] k = {3}`.

    title: what stands for the nodes in the name, where they do not tell cases from each other.
    """

    operator: str
    nodes: str
    inputs: tuple[InputSpec, ...]
    constants: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    opset: int = 21
    domain: str = ""
    form: str = "alone"
    title: str = ""

    @property
    def name(self) -> str:
        """What tells the case from all others, in one line."""
        types = " ".join(f"{spec.name}:{spec.dtype}[{','.join(map(str, spec.shape))}]" for spec in self.inputs)
        constants = f" {{{self.constants}}}" if self.constants else ""
        nodes = self.title or re.sub(r"\[[^]]{40,}\]", "[...]", "; ".join(self.nodes.splitlines()))
        return f"{self.form}: {nodes} {types}{constants}"


def operand(name: str, dtype: str, shape: Sequence[int | str], fill: str = "", high: int = 0) -> InputSpec:
    """An input; of integers and booleans the elements are small, so that sums and products of them fit."""
    if not fill:
        fill = "normal" if dtype.startswith("float") else "integers"
    return InputSpec(name, dtype, tuple(shape), fill, high or (2 if dtype == "bool" else 100))


def case(
    call: str,
    *operands: InputSpec,
    constants: str = "",
    opset: int = 21,
    domain: str = "",
    outputs: str = "y",
    title: str = "",
) -> OperatorCase:
    """A case of `call` alone, as "Softmax<axis = 1>(x)"."""
    operator = call.split("(", maxsplit=1)[0].split("<", maxsplit=1)[0].strip()
    nodes = f"{outputs} = {call}"
    return OperatorCase(operator, nodes, operands, constants, opset=opset, domain=domain, title=title)


def with_nodes(base: OperatorCase, form: str, nodes: str, *inputs: InputSpec, constants: str = "") -> OperatorCase:
    """The case in another form: with other nodes and inputs, and more constants."""
    joined = ", ".join(part for part in (base.constants, constants) if part)
    return replace(base, form=form, nodes=nodes, inputs=inputs, constants=joined)


def build_model(case: OperatorCase) -> ModelProto:
    """The model of a case; the types of its outputs are inferred."""
    inputs = ", ".join(f"{_type(spec)} {spec.name}" for spec in case.inputs)
    constants = f"<{case.constants}>" if case.constants else ""
    graph = parser.parse_graph(f"g ({inputs}) => (y) {constants} {{ {case.nodes} }}")
    opsets = [helper.make_opsetid("", case.opset)]
    if case.domain:
        opsets.append(helper.make_opsetid(case.domain, 4))
        for node in graph.node:
            node.domain = case.domain if node.op_type == case.operator else ""
    return shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def _type(spec: InputSpec) -> str:
    """The type of an input as text, in which empty brackets would mean any rank."""
    sizes = f"[{', '.join(map(str, spec.shape))}]" if spec.shape else ""
    return f"{TYPE_NAMES.get(spec.dtype, spec.dtype)}{sizes}"
