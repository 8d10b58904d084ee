"""What `inspect` prints: tables of a model, and of an artifact."""

import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from rich.console import RenderableType
from rich.table import Table

from onnxc.command_line.report import report_parts
from onnxc.command_line.texts.tables import facts_table, formatted, json_text, table
from onnxc.compiler.checked_model import check_or_repair
from onnxc.compiler.frontend.graph import CheckedModel, Graph, GraphNode, Tensor
from onnxc.compiler.frontend.quantization_annotations import QuantizationHint, quantization_hints
from onnxc.compiler.frontend.read import read_model
from onnxc.runtime.load import read_artifact, signature_of


def model_parts(path: Path) -> Iterator[RenderableType]:
    """What is in an ONNX model: versions, inputs, outputs, operators, parameters, annotations."""
    loaded, model = check_or_repair(read_model(path))
    yield facts_table(model_facts(model, path))
    yield ""
    made = table("", "name", "type")
    for side, values in (("input", model.graph.inputs), ("output", model.graph.outputs)):
        for value in values:
            made.add_row(side, value.name, str(value.type or "not declared"))
    yield made
    yield ""
    counts = Counter(f"{node.domain + '.' if node.domain else ''}{node.operator}" for node in all_nodes(model.graph))
    operators = table("operator", "nodes")
    for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        operators.add_row(name, str(count))
    yield operators
    hints = quantization_hints(loaded, model)
    if hints:
        yield ""
        yield hints_table(hints)
    yield from map(str, model.warnings)


def hints_table(hints: Sequence[QuantizationHint]) -> Table:
    """The tensors that the model annotates for quantization, and what their quantized types can stand for."""
    made = table("annotated", "scale", "zero point", "type", "from", "to")
    for hint in hints:
        name = hint.name if hint.path == "main" else f"{hint.path}: {hint.name}"
        span = ["" if end is None else formatted(end) for end in (hint.low, hint.high)]
        made.add_row(name, hint.scale, hint.zero_point, "" if hint.quantized is None else str(hint.quantized), *span)
    return made


def model_facts(model: CheckedModel, path: Path) -> dict[str, str]:
    tensors = [*all_parameters(model.graph)]
    elements = sum(int(np.prod(tensor.shape, dtype=np.int64)) for tensor in tensors)
    return {
        "model": model.name or "(no name)",
        "file": f"{path} ({path.stat().st_size / 1e6:.2f} MB)",
        "IR version": str(model.ir_version),
        "operator sets": ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in model.opsets.items()),
        "parameters": f"{elements:,} in {len(tensors)} tensors",
        "digest": model.digest,
        **model.about,
        **{f"metadata {key}": text for key, text in model.metadata.items()},
    }


def all_parameters(graph: Graph) -> Iterator[Tensor]:
    """The constants of a graph and of those in it, those of Constant nodes too."""
    yield from graph.initializers.values()
    for node in graph.nodes:
        yield from (value for value in node.attributes.values() if isinstance(value, Tensor))
        for nested in node.subgraphs():
            yield from all_parameters(nested)


def all_nodes(graph: Graph) -> Iterator[GraphNode]:
    for node in graph.nodes:
        yield node
        for nested in node.subgraphs():
            yield from all_nodes(nested)


def artifact_parts(path: Path) -> Iterator[RenderableType]:
    """What is in an artifact: signature, targets, sizes of its members, the report of its compilation."""
    artifact = read_artifact(path)
    signature = signature_of(artifact)
    facts = {"model": artifact.program.name, "file": f"{path} ({path.stat().st_size / 1e6:.2f} MB)"}
    facts |= {
        target: f"needs {', '.join(features) or 'nothing special'}" for target, features in artifact.features.items()
    }
    facts |= {
        key: json_text(value) for key, value in artifact.provenance.items() if not isinstance(value, list | tuple)
    }
    yield facts_table(facts)
    yield ""
    values = table("", "name", "type")
    for side, infos in (("input", signature.inputs), ("output", signature.outputs)):
        for info in infos:
            values.add_row(side, info.name, info.text + (" (optional)" if info.optional else ""))
    yield values
    yield ""
    sizes = table("member", "bytes")
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            sizes.add_row(member.filename, f"{member.file_size:,}")
    yield sizes
    yield ""
    yield from report_parts(artifact.report)
