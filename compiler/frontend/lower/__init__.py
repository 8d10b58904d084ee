"""CheckedModel to Module: every node becomes primitives, typed as they are made.

This walk is also type and shape inference: the type of an ONNX value is the type of the IR value that was built for
it. All nodes that cannot be lowered are reported together.

`walk` goes over the nodes of a graph, `nodes` hands each to its operator, `subgraphs` lowers the graphs in it, `cases`
tells apart what only data decides, and `declared` holds values against what the model says of them.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from onnxc.compiler.diagnostics import DiagnosedModelError, Diagnostic, unknown_nodes
from onnxc.compiler.frontend.case_split import ConditionSplit
from onnxc.compiler.frontend.devices.node_shardings import NodeShardings
from onnxc.compiler.frontend.graph import CheckedModel, Graph, all_nodes
from onnxc.compiler.frontend.input_options import InputOptions
from onnxc.compiler.frontend.lower.attempt import Attempt, CastValue, LoweredType, RenewedSizes
from onnxc.compiler.frontend.lower.channel_blocks import channel_blocks
from onnxc.compiler.frontend.lower.frame import Frame, GraphOutcome, Session
from onnxc.compiler.frontend.lower.inputs import expect_known_inputs, input_type
from onnxc.compiler.frontend.lower.nodes import without_lowering
from onnxc.compiler.frontend.lower.overrides import (
    as_declared,
    restrictions,
    with_free_types,
    with_overrides,
    without_overrides,
)
from onnxc.compiler.frontend.lower.walk import lower_graph
from onnxc.compiler.frontend.lower.weights import weight_names
from onnxc.compiler.frontend.overriding.as_declared import AsDeclared
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.building.random_state import RandomState
from onnxc.compiler.ir.dtypes import U32
from onnxc.compiler.ir.module import Function, Module, Value
from onnxc.compiler.ir.types import TensorType, type_symbols
from onnxc.compiler.model_warnings import warn_of
from onnxc.runtime.errors import UnsupportedError
from onnxc.runtime.random_state import RANDOM_STATE
from onnxc.runtime.records import record

__all__ = ["Lowered", "lower_model", "lower_typed"]

LEAST_WORK, WORK_PER_NODE = 4000, 200
"""How many nodes may be lowered, and ops made, to tell cases apart: so many, and so many more for each node.

One takes 0.1 to 0.3 ms of one core of a busy Intel Xeon (sizes of long formulas take most), so that a node takes 20 to
60 ms at most, and a model of few nodes about 1 s. Measured: a Reshape to a shape of unknown length with Neg behind it
takes 301; two with MatMul, 3,226; Where of three operands of any rank, 3,661; three Reshapes added up, 34,907 and 10 s.
"""


@record
class Lowered:
    """The module, and each type that was found for an ONNX value: one for each time that the value was lowered.

    graph: what was lowered, without the declared types that the options overrule. warnings: what is wrong in the model
    and does not keep it from being compiled. unknown: one finding of all nodes of operators of others. renewed:
    constants that the options overrule. casts: values whose element types they do.
    """

    module: Module
    graph: Graph
    types: Sequence[LoweredType]
    warnings: Sequence[Diagnostic]
    unknown: Sequence[Diagnostic] = ()
    renewed: Sequence[RenewedSizes] = ()
    casts: Sequence[CastValue] = ()


def lower_model(
    model: CheckedModel, options: InputOptions | None = None, shardings: NodeShardings | None = None
) -> Module:
    """The typed module of `model`; with `shardings`, its values are divided by `reshard` as they say.

    Raises ModelError with all type findings, else UnsupportedError with all nodes that cannot be lowered yet. What is
    wrong and does not matter is a ModelWarning, or with the option `strict` a ModelError too.
    """
    given = options or InputOptions()
    lowered = _lowered(model, given, types_all=False, shardings=shardings)
    warn_of(lowered.warnings)
    return lowered.module


def lower_typed(model: CheckedModel, options: InputOptions | None = None) -> Lowered:
    """As `lower_model`, with the types of the ONNX values, also of those in branches that are never taken.

    What nodes of operators of others give has the type that is declared, if any, and the module cannot run.
    """
    return _lowered(model, options or InputOptions(), types_all=True)


def _lowered(
    model: CheckedModel, options: InputOptions, *, types_all: bool, shardings: NodeShardings | None = None
) -> Lowered:
    expect_known_inputs(options, model.graph)
    record = as_declared(model.graph, options)
    if record is None:
        session = _session(model.graph, types_all=types_all)
        return _lowered_graph(model.graph, options, replace(session, shardings=shardings))
    graph, warnings = _freed_graph(model.graph, options, record)

    def lowered(before: AsDeclared) -> Lowered:
        session = replace(_session(graph, types_all=types_all), shardings=shardings, before=before)
        return _lowered_graph(graph, options, replace(session, floats=options.floats), warnings)

    try:
        return lowered(record)
    except DiagnosedModelError:
        with suppress(DiagnosedModelError, UnsupportedError):
            if record.inputs and any(node.operator == "Resize" for node in all_nodes(graph)):
                return lowered(replace(record, follows_resized=True, held={}))
        raise


def _freed_graph(graph: Graph, options: InputOptions, record: AsDeclared) -> tuple[Graph, Sequence[Diagnostic]]:
    """The graph without the declared types that follow from what is overridden; `record` gets it as it is declared.

    Where element types are overridden, with what is wrong in those that it is without.
    """
    attempt, session = Attempt(), replace(_session(graph, types_all=True), record=record)
    _lower_main(graph, without_overrides(graph, options), session, attempt)
    keeps_elements = not options.dtypes and options.floats is None
    warnings = [] if keeps_elements else [finding for finding in attempt.warnings if finding.code == "declared-type"]
    return with_free_types(graph, attempt.types, keeps_elements=keeps_elements), warnings


def _session(graph: Graph, *, types_all: bool) -> Session:
    work = LEAST_WORK + WORK_PER_NODE * sum(1 for _ in all_nodes(graph))
    return Session(work, channel_blocks(graph), types_all, goes_on=types_all)


def _lowered_graph(
    graph: Graph, options: InputOptions, session: Session, warnings: Sequence[Diagnostic] = ()
) -> Lowered:
    attempt = Attempt(warnings=[*warnings])
    module = _lower_main(graph, options, session, attempt)
    attempt.warnings += session.channel_blocks.warnings
    if options.strict:
        attempt.findings += (replace(finding, severity="error") for finding in attempt.warnings)
    if session.before is not None:
        if not attempt.objection_count:
            attempt.findings += restrictions(module, session.before.overridden)
        attempt.findings = [with_overrides(finding, session.before, graph) for finding in attempt.findings]
    if attempt.unsupported or attempt.unknown:
        # Where one node cannot be lowered, what is behind it is not come to.
        everywhere = without_lowering(all_nodes(graph))
        attempt.unsupported = [*dict.fromkeys((*everywhere, *attempt.unsupported))] if attempt.unsupported else []
        attempt.unknown = [*dict.fromkeys((*everywhere, *attempt.unknown))]
    attempt.raise_objections()
    unknown = unknown_nodes(attempt.unknown)
    return Lowered(
        module, graph, attempt.types, tuple(dict.fromkeys(attempt.warnings)), unknown, attempt.renewed, attempt.casts
    )


def _lower_main(graph: Graph, options: InputOptions, session: Session, attempt: Attempt) -> Module:
    """The module; where the attempt holds objections, not all of it."""
    ir = Builder()
    parameters, scope, defaults = _inputs(graph, options, ir)
    session.bound = frozenset().union(*(type_symbols(parameter.type) for parameter in parameters))
    for name, tensor in graph.initializers.items():
        if name not in scope:
            scope[name] = ir.constant(tensor.array())
    state = ir.parameter(RANDOM_STATE, TensorType(U32, (2,)))
    if options.random_state is not None:
        given = scope[options.random_state]
        assert given is not None, options
        state = given
    outcome = lower_graph(Frame((graph,), scope, ir, attempt, session, random_state=RandomState(state)))
    draws = options.random_state is None and any(state in op.operands for op in ir.ops)
    if not session.types_all and (draws or RANDOM_STATE in defaults):
        _expect_no_input(RANDOM_STATE, graph)
    if draws:
        parameters, defaults = [*parameters, state], {**defaults, RANDOM_STATE: np.zeros(2, np.uint32)}
    return _module(graph, parameters, outcome, defaults, ir)


def _expect_no_input(name: str, graph: Graph) -> None:
    """UnsupportedError where the model has an input or initializer of a name that is the compiler's."""
    if name in graph.initializers or any(info.name == name for info in graph.inputs):
        message = f'the model has an input or initializer "{name}", which is what the random state of a model is called'
        raise UnsupportedError(message, code="reserved-name")


def _inputs(
    graph: Graph, options: InputOptions, ir: Builder
) -> tuple[list[Value], dict[str, Value | None], dict[str, np.ndarray]]:
    """The parameters of the program, their names, and the values of those that a call may leave out."""
    parameters: list[Value] = []
    scope: dict[str, Value | None] = {}
    defaults: dict[str, np.ndarray] = {}
    for info in graph.inputs:
        tensor = graph.initializers.get(info.name)
        if tensor is not None and options.freeze_params:
            continue
        parameter = ir.parameter(info.name, input_type(info, options, ir))
        parameters.append(parameter)
        scope[info.name] = parameter
        if tensor is not None and not isinstance(parameter.type, TensorType):
            message = f'input "{info.name}" is {parameter.type} with a default, which is a constant only'
            raise UnsupportedError(message, code="sparse-default")
        if tensor is not None:
            defaults[info.name] = tensor.array()
    for name in () if options.freeze_params else weight_names(graph):
        tensor = graph.initializers[name]
        scope[name] = parameter = ir.parameter(name, TensorType(tensor.dtype, tensor.shape))
        parameters.append(parameter)
        defaults[name] = tensor.array()
    return parameters, scope, defaults


def _module(
    graph: Graph, parameters: Sequence[Value], outcome: GraphOutcome, defaults: Mapping[str, np.ndarray], ir: Builder
) -> Module:
    assert not isinstance(outcome, ConditionSplit), outcome
    body = ir.block(parameters, [result for result in outcome if result is not None])
    names = tuple(info.name for info in graph.outputs)
    bound = frozenset().union(*(type_symbols(parameter.type) for parameter in parameters))
    ranges = {name: span for name, span in ir.symbols.ranges.items() if name in bound}
    return Module(graph.name or "main", (Function("main", body, names, ranges, defaults),))
