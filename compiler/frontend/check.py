"""ModelProto to CheckedModel: all findings in one pass, then names resolved, versions chosen, functions inlined.

The rules are in checks/, one family a file. A check does not raise, whatever a parsed model holds, and takes time in
proportion to the model.
"""

from dataclasses import replace
from pathlib import Path

from onnxc.compiler.diagnostics import Diagnostic, model_error
from onnxc.compiler.frontend.checks.context import Context
from onnxc.compiler.frontend.checks.devices import check_configurations
from onnxc.compiler.frontend.checks.findings import Findings
from onnxc.compiler.frontend.checks.functions import (
    UNREACHED,
    CallGraph,
    check_compatible_opsets,
    check_signature,
    find_functions,
)
from onnxc.compiler.frontend.checks.graphs import check_graph, check_nodes
from onnxc.compiler.frontend.checks.known_types import KnownTypes
from onnxc.compiler.frontend.checks.model import check_header, check_imports
from onnxc.compiler.frontend.checks.names import check_function_names, check_graph_names
from onnxc.compiler.frontend.checks.training import check_training
from onnxc.compiler.frontend.custom.functions import with_functions
from onnxc.compiler.frontend.custom.operators import NO_OPERATORS, CustomOperators
from onnxc.compiler.frontend.external.data_files import ExternalFiles
from onnxc.compiler.frontend.external.unread import UnreadFiles
from onnxc.compiler.frontend.functions import ModelFunction, imported_opsets
from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.read import LoadedModel, wrap_model
from onnxc.compiler.frontend.resolve import resolve_model
from onnxc.compiler.frontend.schemas import newest_opset
from onnxc.compiler.frontend.tensors import TensorStore
from onnxc.compiler.limits import DEFAULT_LIMITS, Limits


def check_model(
    model: LoadedModel | ModelProto,
    folder: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
    operators: CustomOperators = NO_OPERATORS,
) -> CheckedModel:
    """The checked model; ModelError tells every error there is.

    `folder` is where the external data of a ModelProto is; a LoadedModel knows its own. `operators` are those that the
    caller brings.
    """
    store = _store(model, folder, limits)
    findings = _collect(_outline(model), store, operators)
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        raise model_error(errors)
    loaded = model if isinstance(model, LoadedModel) else wrap_model(model, folder)
    return resolve_model(with_functions(loaded.outline, operators), loaded.digest, store, findings, operators)


def collect_findings(
    model: LoadedModel | ModelProto,
    folder: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
    operators: CustomOperators = NO_OPERATORS,
) -> tuple[Diagnostic, ...]:
    """Every error and warning there is."""
    return _collect(_outline(model), _store(model, folder, limits), operators)


def _outline(model: LoadedModel | ModelProto) -> ModelProto:
    return model.outline if isinstance(model, LoadedModel) else model


def _store(model: LoadedModel | ModelProto, folder: Path | None, limits: Limits) -> TensorStore:
    if isinstance(model, LoadedModel):
        files = ExternalFiles if model.reads_data else UnreadFiles
        return TensorStore(files(model.folder, allow_links=model.allow_links), model.lifted, limits)
    return TensorStore(ExternalFiles(folder), limits=limits)


def _collect(model: ModelProto, store: TensorStore, operators: CustomOperators) -> tuple[Diagnostic, ...]:
    limits = store.limits
    findings = Findings(limits.findings_per_code)
    check_header(model, findings)
    model = with_functions(model, operators)
    configurations = check_configurations(model.configuration, findings)
    functions = find_functions(model, findings, limits)
    context = Context(
        findings,
        model.ir_version,
        _opsets(model),
        functions,
        store,
        limits=limits,
        configurations=configurations,
        operators=operators,
    )
    if model.HasField("graph"):
        check_graph_names(model.graph, "main", context)
        check_graph(model.graph, "main", context)
    check_training(model, context)
    check_imports(model.opset_import, context.used_domains, "main", findings)
    calls = CallGraph(model, functions, limits)
    reached = calls.reached()
    for key, function in functions.items():
        with findings.demoted(() if key in reached else UNREACHED):
            _check_function(function, context)
    calls.check(findings)
    return findings.all()


def _opsets(model: ModelProto) -> dict[str, int]:
    """The opsets imported. Before IR version 3 there was one; a later model without any is wrong for this alone."""
    implied = newest_opset("") or 1 if model.ir_version >= 3 else 1
    return imported_opsets(model.opset_import) or {"": implied}


def _check_function(function: ModelFunction, model: Context) -> None:
    context = replace(model, opsets=function.opsets, parameters=function.parameters, used_domains=set())
    check_signature(function, context)
    check_function_names(function, context)
    check_nodes(function.proto.node, function.path, context, KnownTypes.of_function(function.proto))
    check_imports(function.proto.opset_import, context.used_domains, function.path, model.findings)
    check_compatible_opsets(function, model)
