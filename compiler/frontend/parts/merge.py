"""Two models as one: outputs of the first become inputs of the second."""

from collections.abc import Iterable, Mapping

from onnxc.compiler.frontend.checks.findings import listed
from onnxc.compiler.frontend.functions import ModelFunction, all_names, imported_opsets
from onnxc.compiler.frontend.parts.rename import rename_values
from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto, ModelProto, OperatorSetIdProto
from onnxc.runtime.errors import InputError, UnsupportedError

__all__ = ["merge_models"]


def merge_models(first: ModelProto, second: ModelProto, links: Mapping[str, str]) -> ModelProto:
    """The model that computes the first, then the second; `links` leads from outputs of one to inputs of the other.

    Both must be in the same versions of the operator sets that both use. Outputs that are linked are none any more.
    Raises InputError for what is no output or input, and for names that both have; UnsupportedError for versions.
    """
    _expect_sides(first.graph, second.graph, links)
    _expect_one_version(first, second)
    renamed = rename_values(second, {there: here for here, there in links.items() if here != there})
    shared = (set(all_names(first.graph)) & set(all_names(renamed.graph))) - {*links, ""}
    if shared:
        raise InputError(f"both models have {listed(sorted(shared))}: give one a prefix", code="name-taken")
    merged = ModelProto()
    merged.CopyFrom(first)
    merged.ir_version = max(first.ir_version, second.ir_version)
    known = imported_opsets(first.opset_import)
    merged.opset_import.extend(
        OperatorSetIdProto(domain=domain, version=version)
        for domain, version in imported_opsets(second.opset_import).items()
        if domain not in known
    )
    _join_graphs(merged.graph, renamed.graph, links)
    _join_functions(merged, second)
    _join_entries(merged, second)
    merged.training_info.extend(renamed.training_info)
    merged.configuration.extend(each for each in second.configuration if each not in first.configuration)
    return merged


def _expect_sides(first: GraphProto, second: GraphProto, links: Mapping[str, str]) -> None:
    outputs, inputs = ({info.name for info in side} for side in (first.output, second.input))
    wrong = [name for name in links if name not in outputs] + [name for name in links.values() if name not in inputs]
    if not links or wrong or len({*links.values()}) < len(links):
        message = f"links lead from outputs of the first model ({listed(sorted(outputs))}) to inputs of the second"
        raise InputError(f"{message} ({listed(sorted(inputs))}), each once: {dict(links)}", code="merge-links")


def _expect_one_version(first: ModelProto, second: ModelProto) -> None:
    ours, theirs = (imported_opsets(model.opset_import) for model in (first, second))
    for domain in ours.keys() & theirs.keys():
        if ours[domain] != theirs[domain]:
            name = domain or "ai.onnx"
            message = f"the models are in opsets {ours[domain]} and {theirs[domain]} of {name}"
            raise UnsupportedError(message, code="opset-conflict")


def _join_graphs(graph: GraphProto, other: GraphProto, links: Mapping[str, str]) -> None:
    outputs = [info for info in graph.output if info.name not in links]
    declared = {info.name for info in graph.value_info}
    graph.value_info.extend(info for info in graph.output if info.name in links and info.name not in declared)
    del graph.output[:]
    graph.output.extend([*outputs, *other.output])
    graph.input.extend(info for info in other.input if info.name not in links)
    # What the first model computes is in place of a default that the second one has.
    graph.initializer.extend(tensor for tensor in other.initializer if tensor.name not in links)
    for field in ("node", "sparse_initializer", "value_info", "quantization_annotation"):
        getattr(graph, field).extend(getattr(other, field))


def _join_functions(merged: ModelProto, second: ModelProto) -> None:
    known = {ModelFunction(function).key: function for function in merged.functions}
    for function in second.functions:
        same = known.get(ModelFunction(function).key)
        if same is not None and same != function:
            raise InputError(f"both models have a function {ModelFunction(function)}", code="name-taken")
        if same is None:
            merged.functions.append(function)


def _join_entries(merged: ModelProto, second: ModelProto) -> None:
    known = {entry.key: entry.value for entry in merged.metadata_props}
    clashes = [entry.key for entry in second.metadata_props if known.get(entry.key, entry.value) != entry.value]
    if clashes:
        raise InputError(f"both models have metadata {listed(_texts(clashes))}, of other values", code="name-taken")
    merged.metadata_props.extend(entry for entry in second.metadata_props if entry.key not in known)


def _texts(names: Iterable[object]) -> list[str]:
    return [repr(name) for name in names]
