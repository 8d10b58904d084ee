"""Counterparts of onnx.version_converter, compose, inliner and utils."""

from collections.abc import Collection, Mapping, Sequence

import onnx
from onnx import GraphProto, ModelProto, NodeProto, helper
from onnx.checker import ValidationError
from onnx.version_converter import ConvertError

import onnxc
from tests.onnx_suites.errors import errors_as

__all__ = [
    "Extractor",
    "add_prefix",
    "add_prefix_graph",
    "convert_version",
    "extract_model",
    "inline_local_functions",
    "inline_selected_functions",
    "merge_graphs",
    "merge_models",
]

Links = Sequence[tuple[str, str]]


class Refusal(ConvertError, RuntimeError):
    """What cannot be converted, of which the tests expect the one class or the other."""


def _official(model: object) -> ModelProto:
    return ModelProto.FromString(model.SerializeToString())  # type: ignore[attr-defined]


def convert_version(model: ModelProto, target_version: int) -> ModelProto:
    """The model in another version of ai.onnx."""
    with errors_as(Refusal):
        return _official(onnxc.convert_version(model, target_version))


def merge_models(
    m1: ModelProto,
    m2: ModelProto,
    io_map: Links,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    prefix1: str | None = None,
    prefix2: str | None = None,
    name: str | None = None,
    doc_string: str | None = None,
    producer_name: str | None = "onnx.compose.merge_models",
    producer_version: str | None = "1.0",
) -> ModelProto:
    """Both models as one; of which a part, if inputs or outputs are chosen."""
    before, after = prefix1 or "", prefix2 or ""
    links: dict[str, list[str]] = {}
    for here, there in io_map:
        links.setdefault(before + here, []).append(after + there)
    with errors_as(ValueError):
        first = onnxc.rename(m1, prefix=before) if before else m1
        second = onnxc.rename(m2, prefix=after) if after else m2
        merged = onnxc.merge(first, second, {here: tuple(there) for here, there in links.items()})
        if inputs or outputs:
            known = [info.name for info in merged.graph.output]
            merged = onnxc.extract(merged, outputs or known, inputs)
    made = _official(merged)
    made.graph.name = name or f"{m1.graph.name}_{m2.graph.name}"
    made.doc_string = doc_string or made.doc_string
    made.producer_name, made.producer_version = producer_name or "", producer_version or ""
    return made


def merge_graphs(
    g1: GraphProto,
    g2: GraphProto,
    io_map: Links,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    prefix1: str | None = None,
    prefix2: str | None = None,
    name: str | None = None,
    doc_string: str | None = None,
) -> GraphProto:
    """Both graphs as one, as models of the opset that the tests are in."""
    first, second = (_model(graph) for graph in (g1, g2))
    made = merge_models(first, second, io_map, inputs, outputs, prefix1, prefix2, name).graph
    made.doc_string = doc_string or made.doc_string
    return made


def _model(graph: GraphProto) -> ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)])


def add_prefix(model: ModelProto, prefix: str, inplace: bool | None = False, **kinds: bool) -> ModelProto:
    """The model with a prefix before its names: all of them, or of the kinds that are asked for."""
    with errors_as(ValueError):
        if all(kinds.values()):
            made = _official(onnxc.rename(model, prefix=prefix))
        else:
            names = {name: prefix + name for name in _chosen(model.graph, kinds)}
            made = _official(onnxc.rename(model, names, node_prefix=prefix if kinds.get("rename_nodes") else ""))
    if inplace:
        model.CopyFrom(made)
    return model if inplace else made


def _chosen(graph: GraphProto, kinds: Mapping[str, bool]) -> set[str]:
    """The names of values that are to be renamed, of those kinds that are values."""
    sides = {"rename_inputs": graph.input, "rename_outputs": graph.output, "rename_initializers": graph.initializer}
    named = {kind: {each.name for each in side} for kind, side in sides.items()}
    used = {name for node in graph.node for name in (*node.input, *node.output) if name}
    named["rename_edges"] = used - set().union(*named.values())
    return set().union(*(names for kind, names in named.items() if kinds.get(kind)))


def add_prefix_graph(graph: GraphProto, prefix: str, inplace: bool | None = False, **kinds: bool) -> GraphProto:
    """The graph with a prefix before its names."""
    made = add_prefix(_model(graph), prefix, **{kind: wanted for kind, wanted in kinds.items() if kind != "name_map"})
    if inplace:
        graph.CopyFrom(made.graph)
    return graph if inplace else made.graph


def inline_local_functions(model: ModelProto, convert_version: bool = False) -> ModelProto:
    """The model with all its functions expanded."""
    del convert_version
    with errors_as(ValidationError):
        return _official(onnxc.inline(model))


def inline_selected_functions(
    model: ModelProto,
    function_ids: Collection[tuple[str, str]],
    exclude: bool = False,
    inline_schema_functions: bool = False,
) -> ModelProto:
    """The model with these functions expanded, or all but these; the standard's own among them where they are asked."""
    known = {(function.domain, function.name) for function in model.functions}
    if inline_schema_functions:
        known |= {(node.domain, node.op_type) for node in model.graph.node if _is_function(node)}
    chosen = known - {*function_ids} if exclude else {*function_ids}
    with errors_as(ValidationError):
        return _official(onnxc.inline(model, [".".join(each) for each in sorted(chosen)]))


def _is_function(node: NodeProto) -> bool:
    """Whether the standard defines the operator of a node as a function."""
    if not onnx.defs.has(node.op_type, node.domain):
        return False
    known = onnx.defs.get_schema(node.op_type, node.domain)
    return known.has_function or known.has_context_dependent_function


class Extractor:
    """Parts of one model."""

    def __init__(self, model: ModelProto) -> None:
        self.model = model

    def extract_model(self, input_names: Sequence[str], output_names: Sequence[str]) -> ModelProto:
        """The part that computes the outputs from the inputs."""
        with errors_as(ValueError):
            return _official(onnxc.extract(self.model, output_names, input_names))


def extract_model(
    input_path: str,
    output_path: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    check_model: bool = True,
    infer_shapes: bool = True,
) -> None:
    """Writes the part of a file, under the name of the tool that this stands for."""
    del check_model, infer_shapes
    made = Extractor(onnx.load(input_path)).extract_model(input_names, output_names)
    made.producer_name = "onnx.utils.extract_model"
    onnxc.save_model(made, output_path)
