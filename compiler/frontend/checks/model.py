"""The model as a whole: IR version, operator sets, metadata."""

from collections.abc import Iterable

from compiler.diagnostics import Location
from compiler.frontend.checks.findings import Findings
from compiler.frontend.proto.onnxc_pb2 import ModelProto, OperatorSetIdProto
from compiler.frontend.schemas import newest_ir_version, newest_opset, normal_domain

_RULE = "ONNX IR, ModelProto"
_OPSET_RULE = "ONNX IR, operator sets"


def check_header(model: ModelProto, findings: Findings) -> None:
    """Checks everything outside the graph, save which opsets are needed."""
    newest = newest_ir_version()
    if model.ir_version < 1:
        findings.error("missing-ir-version", f"the IR version is {model.ir_version}", Location(), rule=_RULE)
    elif model.ir_version > newest:
        message = f"the IR version is {model.ir_version}, and the newest one known is {newest}"
        findings.error("unsupported-ir-version", message, Location(), rule=_RULE)
    if not model.HasField("graph"):
        findings.error("missing-graph", "the model has no graph", Location(), rule=_RULE)
    if model.ir_version >= 3 and not model.opset_import:
        findings.error("missing-opset-import", "no opset is imported", Location(), rule=_OPSET_RULE)
    if 1 <= model.ir_version < 3 and model.opset_import:
        message = f"opsets are imported, which IR version {model.ir_version} has not; they are used all the same"
        findings.warning("unexpected-opset-import", message, Location(), rule=_OPSET_RULE)
    keys = [entry.key for entry in model.metadata_props]
    if len(set(keys)) < len(keys):
        findings.warning("duplicate-metadata", "a key of the metadata is there twice; the last counts", rule=_RULE)


def check_imports(
    imports: Iterable[OperatorSetIdProto], used_domains: Iterable[str], path: str, findings: Findings
) -> None:
    """Checks the opsets that a model or function imports, once it is known which of them its nodes use."""
    used, seen = frozenset(used_domains), dict[str, int]()
    for imported in imports:
        domain, version = normal_domain(imported.domain), imported.version
        shown = f"{domain or 'ai.onnx'} {version}"
        if domain in seen:
            report = findings.error if seen[domain] != version else findings.warning
            message = f"{domain or 'ai.onnx'} is imported twice, in versions {seen[domain]} and {version}"
            report("duplicate-opset-import", message, Location(path), rule=_OPSET_RULE)
        seen[domain] = version
        newest = newest_opset(domain)
        if newest is not None and not 1 <= version <= newest:
            report = findings.error if domain in used else findings.warning
            message = f"opset {shown} is imported, and versions 1 to {newest} are known"
            report("unsupported-opset-version", message, Location(path), rule=_OPSET_RULE)
