"""Pages that show a model or an artifact: what `onnxc inspect --html` writes."""

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from onnxc.compiler.diagnostics import Diagnostic
from onnxc.compiler.frontend.about import about_model, free_text
from onnxc.compiler.frontend.external.data_files import ExternalFiles
from onnxc.compiler.frontend.infer import annotate_model
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.read import LoadedModel, read_model, wrap_model
from onnxc.compiler.frontend.tensors import TensorStore
from onnxc.compiler.inspect_model import Inspection, inspect_loaded
from onnxc.inspecting.program_views import program_views
from onnxc.inspecting.report_tables import Json, Table, report_tables, table
from onnxc.inspecting.views import model_views
from onnxc.runtime.load import read_artifact
from onnxc.runtime.pages.fill_page import fill_page
from onnxc.runtime.program import JsonValue, Program

__all__ = ["artifact_page", "model_page", "view_page"]


def model_page(path: Path) -> str:
    """The page of a model: its graphs with types, weights and findings; of a model that is wrong as far as it goes.

    Raises ModelError for what is no model at all.
    """
    loaded = read_model(path)
    inspection = inspect_loaded(loaded)
    store = TensorStore(ExternalFiles(loaded.folder), loaded.lifted)
    return view_page(
        free_text(loaded.outline.graph.name) or path.name,
        _model_facts(path, loaded),
        model_views(_typed_outline(loaded, inspection), store, inspection.findings),
        [_finding(finding) for finding in inspection.findings],
    )


def artifact_page(path: Path) -> str:
    """The page of an artifact: its steps, launches with their kernels, memory, and what it was made from.

    Raises DeviceError where the file is damaged.
    """
    artifact = read_artifact(path)
    facts = {"file": f"{path.name}, {path.stat().st_size / 1e6:.2f} MB"}
    facts |= {name: str(value) for name, value in artifact.provenance.items() if isinstance(value, str | int)}
    facts |= {f"needs for {target}": ", ".join(needed) or "nothing" for target, needed in artifact.features.items()}
    tables = [*report_tables(artifact.report), _signature(artifact.program), _members(path)]
    return view_page(artifact.program.name, facts, program_views(artifact.program), tables=tables)


def view_page(
    title: str,
    facts: Mapping[str, str],
    views: Sequence[Json],
    findings: Sequence[JsonValue] = (),
    tables: Iterable[Table] = (),
) -> str:
    """The page that draws views; `facts` and `tables` stand beside them, `findings` are those that boxes name."""
    folder = files("onnxc.inspecting")
    template = (folder / "page.html").read_text("utf8")
    template = template.replace("/*PANELS*/", (folder / "panels.js").read_text("utf8"), 1)
    data: Json = {"title": title, "facts": facts, "findings": findings, "tables": [*tables], "views": views}
    return fill_page(template, data)


def _typed_outline(loaded: LoadedModel, inspection: Inspection) -> ModelProto:
    """The model without the elements of its large tensors, with the types that inference found if it did."""
    if inspection.checked is None or inspection.types is None:
        return loaded.outline
    return annotate_model(wrap_model(loaded.outline, loaded.folder), inspection.checked, inspection.types)


def _model_facts(path: Path, loaded: LoadedModel) -> dict[str, str]:
    model = loaded.outline
    opsets = (f"{free_text(each.domain) or 'ai.onnx'} {each.version}" for each in model.opset_import)
    return {
        "file": f"{path.name}, {path.stat().st_size / 1e6:.2f} MB",
        "IR version": str(model.ir_version),
        "operator sets": ", ".join(opsets),
        "nodes": str(len(model.graph.node)),
        **about_model(model),
        **{f"metadata {free_text(entry.key)}": free_text(entry.value) for entry in model.metadata_props},
    }


def _finding(finding: Diagnostic) -> JsonValue:
    return {"severity": finding.severity, "code": finding.code, "message": finding.message, "text": str(finding)}


def _signature(program: Program) -> Table:
    sides = (("input", program.inputs), ("output", program.outputs))
    rows = [(side, each.name, each.text) for side, parameters in sides for each in parameters]
    ranges = [("size", each.name, f"{each.low}..{'' if each.high is None else each.high}") for each in program.symbols]
    return table("Signature", ("", "name", "type"), [*rows, *ranges])


def _members(path: Path) -> Table:
    with zipfile.ZipFile(path) as archive:
        rows = [(member.filename, member.file_size) for member in archive.infolist()]
    return table("Members of the file", ("member", "bytes"), rows)
