"""Training information: graphs that set and update initializers, and which output goes to which initializer."""

from collections.abc import Collection, Iterable

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.checks.context import Context
from onnxc.compiler.frontend.checks.graphs import check_graph
from onnxc.compiler.frontend.checks.known_types import KnownTypes
from onnxc.compiler.frontend.checks.names import check_graph_names, check_joined_names
from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto, ModelProto, StringStringEntryProto, TrainingInfoProto

_RULE = "ONNX IR, TrainingInfoProto"

_Bindings = Iterable[StringStringEntryProto]


def check_training(model: ModelProto, context: Context) -> None:
    """Checks every TrainingInfoProto of a model; an inference never runs what is in them."""
    _warn_of_shared_variables(model, context)
    for ordinal, info in enumerate(model.training_info):
        path = f"training_info[{ordinal}]"
        if info.HasField("initialization"):
            _expect_no_inputs(info.initialization, Location(f"{path}.initialization"), context)
            check_graph_names(info.initialization, f"{path}.initialization", context)
            check_graph(info.initialization, f"{path}.initialization", context)
        if info.HasField("algorithm"):
            # It is run as the continuation of the main graph, and sees what that defines.
            check_joined_names(info.algorithm, f"{path}.algorithm", model.graph, context)
            check_graph(info.algorithm, f"{path}.algorithm", context, KnownTypes.of_graph(model.graph, None))
        _check_bindings(model, info, path, context)


def _expect_no_inputs(graph: GraphProto, location: Location, context: Context) -> None:
    stored = _initializers(graph)
    for info in graph.input:
        if info.name not in stored:
            message = f'the initialization has an input "{info.name}", and nothing is fed to it'
            context.findings.error("training-initialization-input", message, location, rule=_RULE)


def _check_bindings(model: ModelProto, info: TrainingInfoProto, path: str, context: Context) -> None:
    location, findings = Location(path), context.findings
    if info.initialization_binding and not info.HasField("initialization"):
        message = "values are bound to outputs of an initialization, and there is none"
        findings.error("training-without-initialization", message, location, rule=_RULE)
    states = _initializers(model.graph) | _initializers(info.algorithm)
    first = {output.name for output in info.initialization.output}
    later = {output.name for graph in (info.algorithm, model.graph) for output in graph.output}
    kinds: tuple[tuple[str, _Bindings, Collection[str]], ...] = (
        ("initialization", info.initialization_binding, first),
        ("update", info.update_binding, later),
    )
    for kind, bindings, outputs in kinds:
        bound: set[str] = set()
        for binding in bindings:
            if binding.key in bound:
                message = f'the {kind} binding assigns to "{binding.key}" twice'
                findings.error("duplicate-training-binding", message, location, rule=_RULE)
            bound.add(binding.key)
            if binding.key not in states:
                message = f'the {kind} binding assigns to "{binding.key}", which is no initializer'
                findings.error("training-binding-key", message, location, rule=_RULE)
            if binding.value not in outputs and (kind == "update" or info.HasField("initialization")):
                message = f'the {kind} binding takes "{binding.value}", which is no output of its graph'
                findings.error("training-binding-value", message, location, rule=_RULE)


def _initializers(graph: GraphProto) -> set[str]:
    dense = {tensor.name for tensor in graph.initializer}
    return dense | {sparse.values.name for sparse in graph.sparse_initializer}


def _warn_of_shared_variables(model: ModelProto, context: Context) -> None:
    """A variable of the main graph should have one update; algorithms run in order, so that several have a meaning."""
    main, updated = _initializers(model.graph), dict[str, int]()
    for ordinal, info in enumerate(model.training_info):
        for name in {binding.key: None for binding in info.update_binding if binding.key in main}:
            if name in updated:
                message = f'"{name}" is updated by training_info[{updated[name]}] too, and keys should be unique'
                location = Location(f"training_info[{ordinal}]")
                context.findings.warning("shared-training-variable", message, location, rule=_RULE)
            updated.setdefault(name, ordinal)
