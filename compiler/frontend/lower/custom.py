"""Nodes of custom operators: their bodies called, and what these give held against what was declared."""

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from onnxc.compiler.diagnostics import error, model_error
from onnxc.compiler.frontend.case_split import CasesNeeded
from onnxc.compiler.frontend.custom.checked_builder import CheckedBuilder
from onnxc.compiler.frontend.custom.element_types import element_type
from onnxc.compiler.frontend.custom.face import ResultType, TypeRule
from onnxc.compiler.frontend.custom.operators import Access, Built, CustomOperator, HostFunction, NativeBody
from onnxc.compiler.frontend.operator import Lowering, Node, NodeResults, NotYetSupported
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Attribute, Attributes, Value
from onnxc.compiler.ir.primitives.native import ATTRIBUTE, host_attributes, triton_parameters
from onnxc.compiler.ir.types import TensorType, type_symbols
from onnxc.runtime.errors import ModelError, OnnxcError

T = TypeVar("T")

_RULE = "onnxc.custom_operator"


def lowering_of(operator: CustomOperator) -> Lowering:
    """How nodes of the operator become ops."""
    body = operator.body
    match body:
        case Built():
            return lambda node, ir: _built(body, node, ir)
        case HostFunction():
            return lambda node, ir: _host_step(body, node, ir)
        case NativeBody():
            return lambda node, ir: _native_call(body, str(operator), node, ir)
    raise AssertionError(f"{operator} is a function, which is expanded before")


def _built(body: Built, node: Node, ir: Builder) -> NodeResults:
    """What a body made of ops gives, of the operands of the node and nothing else."""
    ops_before = len(ir.ops)
    made = _called(lambda: body.build(node, CheckedBuilder(ir)), "its body", node)
    results = _results(made, node)
    ops = ir.ops[ops_before:]
    known = {*node.operands, *(result for op in ops for result in op.results)}
    used = {*results, *(operand for op in ops for operand in op.operands)}
    if not used <= known:
        message = "its body used a value of another node, or of another compilation"
        raise _failed("custom-operator-result", message, node)
    return results


def _called(body: Callable[[], T], what: str, node: Node) -> T:
    """What a function of the caller gives; whatever it raises that is not ours is a finding at the node."""
    try:
        return body()
    except (OnnxcError, CasesNeeded, NotYetSupported):
        raise
    except Exception as problem:
        where = traceback.extract_tb(problem.__traceback__)[-1]
        message = f"{what} raised {type(problem).__name__}: {problem} ({where.filename}, line {where.lineno})"
        raise _failed("custom-operator-failed", message, node) from problem


def _failed(code: str, message: str, node: Node) -> ModelError:
    return model_error([node.described(error(code, message, node.location, rule=_RULE))])


def _results(made: object, node: Node) -> tuple[Value, ...]:
    """What a body made of ops gave: one tensor for each output that the node names, or more."""
    results = made if isinstance(made, tuple) else (made,)
    values = tuple(result for result in results if isinstance(result, Value))
    for index, result in enumerate(results):
        if not isinstance(result, Value):
            message = f"its body gave {type(result).__name__} as output {index}, expected a value of the builder"
            raise _failed("custom-operator-result", message, node)
    _expect_count(len(results), "its body gave", node)
    return values[: node.output_count]


def _expect_count(count: int, what: str, node: Node) -> None:
    if count < node.output_count:
        message = f"{what} {count} output(s), and the node has {node.output_count}"
        raise _failed("custom-operator-result", message, node)


def _host_step(body: HostFunction, node: Node, ir: Builder) -> NodeResults:
    """A step of the host, whose results have the types that the rule gives."""
    wanted = _wanted_types(body.types, node)
    types = [TensorType(dtype, tuple(ir.fresh_symbol("given") if d is None else d for d in s)) for dtype, s in wanted]
    fixed = sum(formal.option != "variadic" for formal in node.graph_node.schema.inputs)
    present = [value is not None for value in node.operands]
    operands = [value for value in node.operands if value is not None]
    # Inputs at the end that the node leaves out are absent as those in the middle are.
    present += [False] * (fixed - len(present))
    named = {f"{ATTRIBUTE}{name}": _attribute(name, node) for name in node.graph_node.attributes}
    attributes = host_attributes(body.path, present, wanted, named)
    return ir.host("custom_operator", operands, types, attributes)[: node.output_count]


def _native_call(body: NativeBody, operator: str, node: Node, ir: Builder) -> NodeResults:
    """A kernel of the caller's own, on operands that suit its access."""
    operands = [value for value in node.operands if value is not None]
    types: list[TensorType] = []
    for index, (dtype, sizes) in enumerate(_wanted_types(body.types, node)):
        shape = tuple(size for size in sizes if size is not None)
        if len(shape) < len(sizes):
            message = f"its rule of types gave a size of output {index} as None, which native code must know"
            raise _failed("custom-operator-result", message, node)
        types.append(TensorType(dtype, shape))
    for dtype in (*(value.dtype for value in operands), *(type.dtype for type in types)):
        if dtype.is_string:
            raise _failed("custom-operator-result", "its body is native code, which takes and gives no texts", node)
    shapes = [*(value.shape for value in operands), *(type.known_shape for type in types)]
    _expect_access(body.access, shapes, node)
    names = tuple(node.graph_node.schema.attributes)
    if body.triton is not None:
        expected = triton_parameters(body.access, len(operands), [len(shape) for shape in shapes]) + len(names)
        _expect_parameters(body.triton.parameters, expected, node)
    attributes: Attributes = {
        "operator": operator,
        "llvm": body.llvm,
        "triton": "" if body.triton is None else body.triton.text,
        "access": body.access,
        "path": body.path,
        "scalars": names,
        **{f"{ATTRIBUTE}{name}": _attribute(name, node) for name in names},
    }
    return ir.native_call(operands, types, attributes)[: node.output_count]


def _expect_parameters(count: int, expected: int, node: Node) -> None:
    if count != expected:
        message = f"its Triton function has {count} parameter(s), and {expected} are given to it"
        raise _failed("custom-operator-result", message, node)


def _expect_access(access: Access, shapes: Sequence[tuple[Dim, ...]], node: Node) -> None:
    """Refuses shapes, of all inputs and outputs, that code with this access cannot step through."""
    first = shapes[0]
    if access == "elements" and any(shape != first for shape in shapes):
        expected = "one shape"
    elif access == "rows" and any(not shape or shape[:-1] != first[:-1] for shape in shapes):
        expected = "axes, and all but the last alike"
    else:
        return
    listed = ", ".join(f"[{', '.join(map(str, shape))}]" for shape in shapes)
    message = f"its code computes {access}, so all inputs and outputs must have {expected}: they are {listed}"
    raise _failed("custom-operator-result", message, node)


def _wanted_types(types: TypeRule, node: Node) -> list[tuple[DType, tuple[Dim | None, ...]]]:
    """What a rule gives for the outputs of a node."""
    rule = _called(lambda: types(node), "its rule of types", node)
    if isinstance(rule, str) or not isinstance(rule, Sequence):
        message = f"its rule of types gave {type(rule).__name__}, expected a sequence of pairs (element type, shape)"
        raise _failed("custom-operator-result", message, node)
    _expect_count(len(rule), "its rule of types gave", node)
    return [_wanted_type(given, index, node) for index, given in enumerate(rule)]


def _wanted_type(given: ResultType, index: int, node: Node) -> tuple[DType, tuple[Dim | None, ...]]:
    """An element type and a shape that a rule gave."""
    if not isinstance(given, tuple) or len(given) != 2 or not isinstance(given[1], Sequence):
        message = f"its rule of types gave {given!r} for output {index}, expected a pair (element type, shape)"
        raise _failed("custom-operator-result", message, node)
    sizes = tuple(given[1])
    for size in sizes:
        is_size = size is None or isinstance(size, Size) or (isinstance(size, int) and size >= 0)
        if not is_size or isinstance(size, bool):
            message = f"its rule of types gave {size!r} as a size of output {index}, expected a size or None"
            raise _failed("custom-operator-result", message, node)
    known = frozenset().union(*(type_symbols(value.type) for value in node.operands if value is not None))
    if not frozenset().union(*(symbols_of(size) for size in sizes if size is not None)) <= known:
        message = (
            f"its rule of types gave {list(sizes)} for output {index}, which has sizes that no input of the node has"
        )
        raise _failed("custom-operator-result", message, node)
    try:
        return element_type(given[0]), sizes
    except TypeError as problem:
        message = f"its rule of types gave {given[0]!r} as the element type of output {index}: {problem}"
        raise _failed("custom-operator-result", message, node) from problem


def _attribute(name: str, node: Node) -> Attribute:
    """An attribute as host functions get it."""
    readers: Mapping[str, Callable[[str], Attribute]] = {
        "int": node.int, "float": node.float, "string": node.string, "tensor": node.tensor,
        "ints": node.ints, "floats": node.floats, "strings": node.strings,
    }  # fmt: skip
    return readers[node.graph_node.schema.attributes[name].kind](name)
