"""Two models as one: outputs of the first become inputs of the second."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from onnxc.compiler.frontend.checks.findings import listed
from onnxc.compiler.frontend.functions import ModelFunction, all_names, imported_opsets
from onnxc.compiler.frontend.parts.rename import rename_values
from onnxc.compiler.frontend.parts.shared_values import expect_shared, leave_out
from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto, ModelProto, NodeProto, OperatorSetIdProto
from onnxc.runtime.errors import InputError, UnsupportedError

__all__ = ["Links", "merge_models"]


Links = Mapping[str, str | Sequence[str]]
"""From outputs of one model to inputs of the other; one output may be several inputs."""


def merge_models(first: ModelProto, second: ModelProto, links: Links, shared: Collection[str] = ()) -> ModelProto:
    """The model that computes the first, then the second.

    Both must be in the same versions of the operator sets that both use. Outputs that are linked are none any more,
    but for inputs of the second that are outputs of it too: those stay, of an Identity of what they are linked to.
    shared: inputs and constants that are one in both.
    Raises InputError for what is no output or input, for names that both have and that are not shared, and for shared
    ones that differ; UnsupportedError for versions.
    """
    sources = {there: here for here, side in links.items() for there in ([side] if isinstance(side, str) else side)}
    _expect_sides(first.graph, second.graph, links, sources)
    _expect_one_version(first, second)
    expect_shared(first.graph, second.graph, shared, linked=sources)
    taken = (set(all_names(first.graph)) & set(all_names(second.graph))) - {*sources, *shared, ""}
    if taken:
        raise InputError(f"both models have {listed(sorted(taken))}: give one a prefix", code="name-taken")
    renamed = _linked(second, {there: here for there, here in sources.items() if here != there}, first.graph)
    leave_out(renamed.graph, shared)
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


def _expect_sides(first: GraphProto, second: GraphProto, links: Links, sources: Mapping[str, str]) -> None:
    outputs, inputs = ({info.name for info in side} for side in (first.output, second.input))
    wrong = [name for name in links if name not in outputs] + [name for name in sources if name not in inputs]
    count = sum(1 if isinstance(side, str) else len(side) for side in links.values())
    if not all(links.values()) or not links or wrong or len(sources) < count:
        message = f"links lead from outputs of the first model ({listed(sorted(outputs))}) to inputs of the second"
        raise InputError(f"{message} ({listed(sorted(inputs))}), each once: {dict(links)}", code="merge-links")


def _expect_one_version(first: ModelProto, second: ModelProto) -> None:
    ours, theirs = (imported_opsets(model.opset_import) for model in (first, second))
    for domain in ours.keys() & theirs.keys():
        if ours[domain] != theirs[domain]:
            name = domain or "ai.onnx"
            message = f"the models are in opsets {ours[domain]} and {theirs[domain]} of {name}"
            raise UnsupportedError(message, code="opset-conflict")


def _linked(second: ModelProto, renames: Mapping[str, str], first: GraphProto) -> ModelProto:
    """The second model with linked inputs by the names of outputs of the first; its own outputs keep their names."""
    passed = [(info.name, index) for index, info in enumerate(second.graph.output) if info.name in renames]
    clashes = sorted({name for name, _ in passed} & set(all_names(first)))
    if clashes:
        raise InputError(f"both models have {listed(clashes)}: give one a prefix", code="name-taken")
    renamed = rename_values(second, renames, may_join=True)
    for name, index in passed:
        renamed.graph.output[index].name = name
        renamed.graph.node.append(NodeProto(op_type="Identity", input=[renames[name]], output=[name]))
    return renamed


def _join_graphs(graph: GraphProto, other: GraphProto, links: Links) -> None:
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
