"""A model without compiling it: every finding about it, the types of its values, a file of it."""

from collections.abc import Mapping, Sequence

from onnxc.compiler.checked_model import checked_model
from onnxc.compiler.diagnostics import DiagnosedModelError, Diagnostic, error, model_error, warning
from onnxc.compiler.frontend.check import check_model, collect_findings
from onnxc.compiler.frontend.custom.operators import NO_OPERATORS, CustomOperator, CustomOperators
from onnxc.compiler.frontend.external.save import save_model
from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.frontend.infer import InferredTypes, annotate_model, infer_types
from onnxc.compiler.frontend.parts.model_of_part import PartVersions, is_part, model_of_part, part_findings
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.read import LoadedModel, read_model, rewritten
from onnxc.compiler.frontend.training.binding_types import binding_findings
from onnxc.compiler.frontend.training.graphs import resolve_training
from onnxc.compiler.frontend.training.programs import training_programs
from onnxc.compiler.inline_model import expand_functions
from onnxc.compiler.limits import DEFAULT_LIMITS, Limits, make_limits
from onnxc.compiler.model_symbols import expect_known_dims
from onnxc.compiler.model_warnings import warn_of
from onnxc.compiler.options import CompileOptions, ModelSource, custom_operators
from onnxc.runtime.errors import InputError, ModelError, UnsupportedError
from onnxc.runtime.files.plain_files import AnyPath
from onnxc.runtime.records import record

__all__ = ["Inspection", "declare_types", "find_all", "find_types", "inspect_loaded", "write_model"]


def find_all(
    source: ModelSource,
    limits: Limits | Mapping[str, int] | None = None,
    operators: Sequence[CustomOperator] = (),
    allow_links: bool = False,
    opset: int | None = None,
    opset_imports: Mapping[str, int] | None = None,
    ir_version: int | None = None,
) -> tuple[Diagnostic, ...]:
    """The findings of the checker; where it finds no error, also those of type inference, training included.

    The source may be a part of a model, in these versions. Nodes that cannot be compiled yet are one warning. Raises
    InputError for limits, operators and versions that cannot be.
    """
    within, brought = make_limits(limits), custom_operators(operators)
    try:
        if is_part(source):
            part = model_of_part(source, PartVersions(opset, opset_imports, ir_version))
            return part_findings(inspect_loaded(read_model(part), within, brought).findings, source)
        if opset_imports is not None or ir_version is not None:
            message = "opset_imports and ir_version are for parts; a model says its own"
            raise InputError(message, code="versions-of-model")
        return inspect_loaded(_read(source, opset, allow_links=allow_links), within, brought).findings
    except DiagnosedModelError as refusal:
        return refusal.diagnostics
    except ModelError as problem:
        return (error(problem.code, str(problem)),)


@record
class Inspection:
    """What is known of a model: its findings, and as far as these let it be known, the model checked and its types."""

    findings: tuple[Diagnostic, ...]
    checked: CheckedModel | None = None
    types: InferredTypes | None = None


def inspect_loaded(
    loaded: LoadedModel, limits: Limits = DEFAULT_LIMITS, operators: CustomOperators = NO_OPERATORS
) -> Inspection:
    """The findings of the checker and of type inference, with what both made; nothing is raised for what is wrong.

    Training information has findings of its own, which leave the types of the model as they are.
    """
    findings = collect_findings(loaded, limits=limits, operators=operators)
    # What cannot be fed is legal, and nothing behind it can be inferred.
    if any(finding.severity == "error" or finding.code == "unsupported-type" for finding in findings):
        return Inspection(findings)
    checked, types = None, None
    try:
        checked = check_model(loaded, limits=limits, operators=operators)
        types = infer_types(checked)
        findings = (*findings, *types.warnings, *types.unknown)
        programs = training_programs(checked, resolve_training(loaded, limits, operators))
        return Inspection((*findings, *binding_findings(programs)), checked, types)
    except DiagnosedModelError as refusal:
        return Inspection((*findings, *refusal.diagnostics), checked, types)
    except ModelError as problem:
        return Inspection((*findings, error(problem.code, str(problem))), checked, types)
    except UnsupportedError as problem:
        _, _, listing = str(problem).partition(": ")
        message, *nodes = listing.split("\n")
        listed = [node.removeprefix("  --> ") for node in nodes]
        return Inspection((*findings, warning(problem.code, message, values=listed)), checked, types)


def _read(source: ModelSource, opset: int | None, *, allow_links: bool) -> LoadedModel:
    """The model; that there is no file of one is a finding as any other."""
    try:
        return read_model(source, opset=opset, allow_links=allow_links)
    except InputError as problem:
        message = str(problem).removeprefix(f"error[{problem.code}]: ")
        raise model_error([error(problem.code, message)]) from problem


def declare_types(source: ModelSource, options: CompileOptions) -> ModelProto:
    """The model with the type of every value declared.

    Where options override element types, functions are expanded: what they cast may differ from call to call.
    """
    loaded = read_model(source, opset=options.opset, allow_links=options.allow_links)
    is_cast = bool(options.inputs.dtypes) or options.inputs.floats is not None
    if is_cast and loaded.outline.functions:
        loaded = rewritten(loaded, expand_functions(source, None, options.limits, options.allow_links, options.opset))
    loaded, checked, types = _inferred(loaded, options)
    return annotate_model(loaded, checked, types)


def find_types(source: ModelSource, options: CompileOptions) -> InferredTypes:
    """The type of every value of the model; nodes of operators of others are a ModelWarning."""
    loaded = read_model(source, opset=options.opset, allow_links=options.allow_links)
    return _inferred(loaded, options)[-1]


def _inferred(loaded: LoadedModel, options: CompileOptions) -> tuple[LoadedModel, CheckedModel, InferredTypes]:
    loaded, checked = checked_model(loaded, options)
    expect_known_dims(checked, options.inputs)
    types = infer_types(checked, options.inputs)
    warn_of(types.unknown)
    return loaded, checked, types


def write_model(source: ModelSource, path: AnyPath, external_data: str | None, allow_links: bool) -> None:
    """Writes the model, with the large initializers in a file beside it where that has a name."""
    save_model(read_model(source, allow_links=allow_links), path, external_data)
