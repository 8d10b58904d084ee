"""Two runs of a model, or of two versions of one: their outputs, then every value in between, node by node."""

from collections.abc import Mapping, Sequence

from onnxc.comparing.comparison import Comparison
from onnxc.comparing.differences import ValueDifference, compare_values
from onnxc.comparing.model_cuts import declared_types, node_text, with_outputs
from onnxc.comparing.sides import Side, embedded_model
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto, TypeProto
from onnxc.compiler.frontend.read import wrap_model
from onnxc.compiler.typed_model import typed_model
from onnxc.measuring.runtimes import Feed, NamedCall
from onnxc.runtime.errors import OnnxcError

__all__ = ["all_values", "compare_sides", "differs", "known_types", "lower_precision"]


def compare_sides(a: Side, b: Side, feed: Feed, *, inner: bool = True) -> Comparison:
    """The outputs of both sides for these inputs and, with `inner`, the values in between.

    Raises OnnxcError where a side cannot run; values in between that cannot be had are no error.
    """
    model_a = embedded_model(a.model)
    model_b = model_a if a.model == b.model else embedded_model(b.model)
    ours, theirs = a.open(model_a)(feed), b.open(model_b)(feed)
    outputs = _differences(model_a, ours, theirs, lower_precision(a, b))
    only_a = tuple(name for name in ours if name not in theirs)
    only_b = tuple(name for name in theirs if name not in ours)
    if not inner:
        return Comparison(a.text, b.text, outputs, (), only_a, only_b)
    try:
        values = [all_values(side, model)(feed) for side, model in ((a, model_a), (b, model_b))]
    except OnnxcError as problem:
        return Comparison(a.text, b.text, outputs, (), only_a, only_b, str(problem))
    between = [name for name in values[0] if name not in ours]
    kept = {name: values[0][name] for name in between}
    return Comparison(
        a.text, b.text, outputs, _differences(model_a, kept, values[1], lower_precision(a, b)), only_a, only_b
    )


def differs(a: Side, b: Side, model: ModelProto, feed: Feed) -> bool:
    """Whether the outputs of this model differ between the engines; not where one of them cannot run it."""
    try:
        ours, theirs = a.open(model)(feed), b.open(model)(feed)
    except OnnxcError:
        return False
    differences = _differences(model, ours, theirs, lower_precision(a, b))
    return any(not each.is_same for each in differences)


def all_values(side: Side, model: ModelProto) -> NamedCall:
    """A call that gives every tensor of the graph whose type is known, in the order of the nodes, and its outputs."""
    types = known_types(model)
    tensors = [name for node in model.graph.node for name in node.output if name and _is_tensor(types.get(name))]
    outputs = [info.name for info in model.graph.output if info.name not in tensors]
    return side.open(with_outputs(model, [*tensors, *outputs], types))


def known_types(model: ModelProto) -> dict[str, TypeProto]:
    """The types of the values of the graph: found, or where that fails as they are declared."""
    try:
        loaded = wrap_model(model, None)
        return declared_types(typed_model(loaded, check_model(loaded)))
    except OnnxcError:
        return declared_types(model)


def lower_precision(a: Side, b: Side) -> str:
    """The one that decides what is the same."""
    return next((side.precision for side in (a, b) if side.precision != "fp32"), "fp32")


def _is_tensor(type: TypeProto | None) -> bool:
    return type is not None and type.HasField("tensor_type")


def _differences(
    model: ModelProto, ours: Mapping[str, object], theirs: Mapping[str, object], precision: str
) -> tuple[ValueDifference, ...]:
    """Of the values that both have, in the order of `ours`."""
    nodes = {name: node_text(ordinal, node) for ordinal, node in enumerate(model.graph.node) for name in node.output}
    both: Sequence[str] = [name for name in ours if name in theirs]
    return tuple(compare_values(name, nodes.get(name, ""), ours[name], theirs[name], precision) for name in both)
