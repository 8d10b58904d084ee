"""The inferred types of a node's operands and results against the type constraints of its schema.

What is declared is checked before (checks/operators.py); this is about values that the model gives no type.
"""

from collections.abc import Sequence
from math import prod

from onnxc.compiler.diagnostics import Diagnostic, error
from onnxc.compiler.frontend.element_types import ELEMENT_TYPES
from onnxc.compiler.frontend.graph import GraphNode
from onnxc.compiler.frontend.schemas import Formal
from onnxc.compiler.ir.dims import lower_bound, upper_bound
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import MapType, OptionalType, SequenceType, SparseTensorType, TensorType, Type
from onnxc.compiler.limits import limits_in_force

BEYOND_ALL = 1 << 63
"""More elements than an int64 counts."""

_NAMES = {element.dtype: element.name for element in ELEMENT_TYPES.values()}
_TENSORS = {f"tensor({name})": TensorType(dtype, None) for dtype, name in _NAMES.items()}


def schema_text(type: Type) -> str:
    """The type as schemas write it: tensor(float), seq(map(int64, float))."""
    match type:
        case TensorType(dtype):
            return f"tensor({_NAMES[dtype]})"
        case SparseTensorType(dtype):
            return f"sparse_tensor({_NAMES[dtype]})"
        case SequenceType(element):
            return f"seq({schema_text(element)})"
        case OptionalType(element):
            return f"optional({schema_text(element)})"
        case MapType(key, TensorType(dtype)):
            return f"map({_NAMES[key]}, {_NAMES[dtype]})"
        case MapType(key, value):
            return f"map({_NAMES[key]}, {schema_text(value)})"


def operand_findings(node: GraphNode, operands: Sequence[Value | None]) -> list[Diagnostic]:
    """Operands of types that the operator does not take, or that differ where one constraint binds them."""
    findings: list[Diagnostic] = []
    bound: dict[str, tuple[str, str]] = {}
    for position, operand in enumerate(operands):
        formal = node.schema.input(position)
        if operand is None and formal is not None and formal.option == "variadic":
            message = f"input {position}, one of {formal.name}, is left out"
            rule = f"ONNX {node.operator}, inputs"
            findings.append(error("missing-input", message, node.location, (), rule))
        if operand is None or formal is None:
            continue
        text = schema_text(operand.type)
        values = [f'{formal.name} "{node.inputs[position]}" : {operand.type}']
        rule = f"ONNX {node.operator}, type {formal.type_str}"
        if not is_allowed(text, formal, node):
            message = f"input {formal.name} is {text}, which {node.schema.identity} does not take"
            findings.append(error("type-constraint", message, node.location, values, rule))
            continue
        if formal.type_str in node.schema.type_constraints and formal.homogeneous:
            other_type, other = bound.setdefault(formal.type_str, (text, values[0]))
            if text not in (other_type, f"optional({other_type})") and other_type != f"optional({text})":
                message = f"input {formal.name} is {text}, and {formal.type_str} is {other_type} already"
                findings.append(error("type-mismatch", message, node.location, [other, *values], rule))
    return findings


def result_findings(node: GraphNode, results: Sequence[Value | None]) -> list[Diagnostic]:
    """Results of types that the operator does not give: those that an attribute asks for."""
    findings: list[Diagnostic] = []
    for position, result in enumerate(results):
        formal = node.schema.output(position)
        if result is None or formal is None or is_allowed(schema_text(result.type), formal, node):
            continue
        message = (
            f"output {formal.name} would be {schema_text(result.type)}, which {node.schema.identity} does not give"
        )
        rule = f"ONNX {node.operator}, type {formal.type_str}"
        findings.append(error("output-type", message, node.location, (), rule))
    return findings


def type_by_schema(node: GraphNode, position: int, operands: Sequence[Value | None]) -> Type | None:
    """The type that the schema alone tells of a result: that of the operands of its constraint, or the only one."""
    formal = node.schema.output(position)
    if formal is None:
        return None
    for index, operand in enumerate(operands):
        given = node.schema.input(index)
        if operand is not None and given is not None and given.type_str == formal.type_str:
            return _TENSORS.get(schema_text(operand.type))
    allowed = node.schema.allowed_types(formal)
    return _TENSORS.get(allowed[0]) if len(allowed) == 1 else None


def size_findings(node: GraphNode, results: Sequence[Value | None]) -> list[Diagnostic]:
    """Results that no call can make: of too many axes, or of more elements than an int64 counts."""
    findings: list[Diagnostic] = []
    most = limits_in_force().tensor_rank
    for position, result in enumerate(results):
        if result is None or not isinstance(result.type, TensorType) or result.type.shape is None:
            continue
        if result.rank > most:
            message = f"output {position} has {result.rank} axes; the limit is {most}"
            findings.append(
                error("too-many-axes", message, node.location, (), f"ONNX {node.operator}, limit tensor_rank")
            )
            continue
        if any(greatest is not None and greatest <= 0 for greatest in map(upper_bound, result.shape)):
            continue
        leasts = [least for least in map(lower_bound, result.shape) if least is not None]
        known = prod(size for size in result.shape if isinstance(size, int))
        if max((known, *leasts)) >= BEYOND_ALL:
            message = f"output {position} would be {result.type}, more elements than can be counted"
            findings.append(error("impossible-size", message, node.location, (), f"ONNX {node.operator}"))
    return findings


def is_allowed(text: str, formal: Formal, node: GraphNode) -> bool:
    """Whether a constraint has the type; what is known to be present may stand for an optional."""
    return node.is_copy or any(node.schema.allows(given, formal) for given in (text, f"optional({text})"))
