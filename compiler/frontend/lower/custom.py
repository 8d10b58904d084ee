"""Nodes of custom operators: their bodies called, and what these give held against what was declared."""

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from onnxc.compiler.diagnostics import error, model_error
from onnxc.compiler.frontend.case_split import CasesNeeded
from onnxc.compiler.frontend.custom.checked_builder import CheckedBuilder
from onnxc.compiler.frontend.custom.face import ResultType
from onnxc.compiler.frontend.custom.operators import Built, CustomOperator, HostFunction
from onnxc.compiler.frontend.operator import Lowering, Node, NodeResults, NotYetSupported
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import DTYPES, DType, dtype_of
from onnxc.compiler.ir.module import Attribute, Attributes, Value
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
    rule = _called(lambda: body.types(node), "its rule of types", node)
    if isinstance(rule, str) or not isinstance(rule, Sequence):
        message = f"its rule of types gave {type(rule).__name__}, expected a sequence of pairs (element type, shape)"
        raise _failed("custom-operator-result", message, node)
    _expect_count(len(rule), "its rule of types gave", node)
    wanted = [_wanted_type(given, index, node) for index, given in enumerate(rule)]
    types = [TensorType(dtype, tuple(ir.fresh_symbol("given") if d is None else d for d in s)) for dtype, s in wanted]
    fixed = sum(formal.option != "variadic" for formal in node.graph_node.schema.inputs)
    present = [value is not None for value in node.operands]
    operands = [value for value in node.operands if value is not None]
    attributes: Attributes = {
        "path": body.path,
        # Inputs at the end that the node leaves out are absent as those in the middle are.
        "present": tuple(map(int, [*present, *[False] * (fixed - len(present))])),
        "dtypes": tuple(dtype for dtype, _ in wanted),
        "ranks": tuple(len(shape) for _, shape in wanted),
        "sizes": tuple(-1 if size is None else size for _, shape in wanted for size in shape),
        **{f"attribute.{name}": _attribute(name, node) for name in node.graph_node.attributes},
    }
    return ir.host("custom_operator", operands, types, attributes)[: node.output_count]


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
    return _element_type(given[0], index, node), sizes


def _element_type(given: object, index: int, node: Node) -> DType:
    """An element type, by whatever names one."""
    if isinstance(given, DType):
        return given
    if isinstance(given, str) and given in DTYPES:
        return DTYPES[given]
    try:
        return dtype_of(np.dtype(given))  # type: ignore[call-overload]
    except (TypeError, KeyError) as problem:
        known = ", ".join(DTYPES)
        message = f"its rule of types gave {given!r} as the element type of output {index}, known are {known}"
        raise _failed("custom-operator-result", message, node) from problem


def _attribute(name: str, node: Node) -> Attribute:
    """An attribute as host functions get it."""
    readers: Mapping[str, Callable[[str], Attribute]] = {
        "int": node.int, "float": node.float, "string": node.string, "tensor": node.tensor,
        "ints": node.ints, "floats": node.floats, "strings": node.strings,
    }  # fmt: skip
    return readers[node.graph_node.schema.attributes[name].kind](name)
