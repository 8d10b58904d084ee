"""A model and choices to a model with training information: an initialization, and a step of an optimizer."""

from collections.abc import Iterator, Mapping, Sequence

from onnxc.compiler.frontend.computation import TRAINING, Computation
from onnxc.compiler.frontend.element_types import code_of
from onnxc.compiler.frontend.fresh_names import FreshNames
from onnxc.compiler.frontend.functions import all_names
from onnxc.compiler.frontend.graph import Graph, Tensor
from onnxc.compiler.frontend.lower.weights import shape_floats
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto, StringStringEntryProto, TensorProto, TypeProto
from onnxc.compiler.frontend.training.making.graph_maker import AttributeValue, GraphMaker
from onnxc.compiler.frontend.training.making.initial_values import initial_values
from onnxc.compiler.frontend.training.making.losses import LOSSES, OF_CLASSES
from onnxc.compiler.frontend.training.making.optimizers import OPTIMIZERS, Weight, optimized
from onnxc.compiler.ir.dtypes import F32, F64
from onnxc.runtime.errors import InputError
from onnxc.runtime.records import record

__all__ = ["TrainingChoices", "add_training_information"]

_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)

FIRST_IR_VERSION = 7
"""That of the first models with training information."""

FIRST_OF_LAST_AXIS = 13
"""The opset from which Softmax is over the last axis where it does not say."""


@record
class TrainingChoices:
    """What a caller chose, by the names of the tables; `output` and `trainable` are None for what can be told alone."""

    loss: str
    optimizer: str
    output: str | None
    trainable: Sequence[str] | None
    learning_rate: float | None
    settings: Mapping[str, AttributeValue]
    initialization: str | None


def add_training_information(model: ModelProto, typed: ModelProto, graph: Graph, choices: TrainingChoices) -> None:
    """Adds to `model`, of which `typed` tells the types and `graph` is the checked graph.

    Raises InputError where the choices do not fit the model.
    """
    output = _expect_output(typed, graph, choices)
    weights = _weights(graph, output, choices)
    info, fresh = model.training_info.add(), FreshNames(lambda: all_names(model.graph))
    maker = GraphMaker(fresh, info.algorithm)
    updates = _algorithm(graph, output, _type_of(typed, output), weights, choices, maker)
    info.algorithm.name = "training_step"
    info.update_binding.extend(_bound(updates))
    if choices.initialization is not None:
        info.initialization.name = "initialization"
        first = initial_values(weights, graph, choices.initialization, GraphMaker(fresh, info.initialization))
        info.initialization_binding.extend(_bound(first))
    model.ir_version = max(model.ir_version, FIRST_IR_VERSION)
    if all(entry.domain != TRAINING for entry in model.opset_import):
        model.opset_import.add(domain=TRAINING, version=1)


def _algorithm(
    graph: Graph, output: str, type: TypeProto, weights: Sequence[Weight], choices: TrainingChoices, maker: GraphMaker
) -> dict[str, str]:
    """The loss, its gradients and what the optimizer makes of them; for each initializer its next value."""
    loss = LOSSES[choices.loss](output, type, maker)
    maker.output(loss, type.tensor_type.elem_type, ())
    names = [weight.name for weight in weights]
    above = Computation.of((graph,)).above(output)
    fed = [info.name for info in graph.inputs if info.name in above and info.name not in graph.initializers]
    fed += [info.name for info in maker.graph.input]
    attributes: dict[str, AttributeValue] = {"xs": names, "zs": fed, "y": loss}
    gradients = maker.node("Gradient", [*names, *fed], [f"{name}.gradient" for name in names], attributes, TRAINING)
    optimizer = OPTIMIZERS[choices.optimizer]
    rate = optimizer.rate if choices.learning_rate is None else choices.learning_rate
    return optimized(weights, gradients, optimizer, rate, choices.settings, maker)


def _expect_output(typed: ModelProto, graph: Graph, choices: TrainingChoices) -> str:
    """The value that the loss is of; for the cross entropy that before Softmax, which the loss has in itself."""
    names = [info.name for info in graph.outputs]
    output = choices.output
    if output is None:
        if len(names) != 1:
            message = f"the model has the outputs {', '.join(names) or 'none'}; output= says which the loss is of"
            raise InputError(message, code="training-output")
        output = names[0]
    rank = len(_type_of(typed, output).tensor_type.shape.dim)
    if choices.loss in OF_CLASSES:
        if rank < 2:
            raise InputError(f'"{output}" has {rank} axes, and axis 1 is that of classes', code="training-output")
        return _before_softmax(typed, output, rank) if choices.loss == "cross_entropy" else output
    return output


def _before_softmax(typed: ModelProto, output: str, rank: int) -> str:
    """What a Softmax over axis 1 makes the output of, else the output."""
    newest = {entry.domain: entry.version for entry in typed.opset_import}
    default = -1 if newest.get("", newest.get("ai.onnx", 1)) >= FIRST_OF_LAST_AXIS else 1
    for node in typed.graph.node:
        if output in node.output and (node.domain, node.op_type) in (("", "Softmax"), ("ai.onnx", "Softmax")):
            axis = next((entry.i for entry in node.attribute if entry.name == "axis"), default)
            return node.input[0] if axis % rank == 1 else output
    return output


def _weights(graph: Graph, output: str, choices: TrainingChoices) -> tuple[Weight, ...]:
    """The initializers to train: those named, else all floats with an axis that the output is computed from.

    The averages of BatchNormalization are no weights, nor is what decides shapes, as the scales of a Resize.
    """
    above = Computation.of((graph,)).above(output)
    averages = {name for node in graph.nodes if node.operator == "BatchNormalization" for name in node.inputs[3:5]}
    kept = averages | shape_floats(graph)
    known = {
        name: tensor
        for name, tensor in graph.initializers.items()
        if name in above and name != output and code_of(tensor.dtype) in _FLOATS
    }
    names = [name for name, tensor in known.items() if tensor.shape and name not in kept]
    if choices.trainable is not None:
        names = list(choices.trainable)
        for name in names:
            if name not in known:
                message = f"trainable names {name!r}; floats that the loss depends on are {', '.join(known) or 'none'}"
                raise InputError(message, code="training-weights")
    if not names or len(set(names)) != len(names):
        message = f"the weights to train are {', '.join(names) or 'none'}, expected at least one, each once"
        raise InputError(message, code="training-weights")
    return tuple(_weight(known[name], choices) for name in names)


def _weight(tensor: Tensor, choices: TrainingChoices) -> Weight:
    if OPTIMIZERS[choices.optimizer].operator and tensor.dtype not in (F32, F64):
        message = f'"{tensor.name}" is {tensor}, and {choices.optimizer} is for f32 and f64'
        raise InputError(message, code="training-weights")
    return Weight(tensor.name, code_of(tensor.dtype), tensor.shape, tensor.dtype.numpy)


def _type_of(typed: ModelProto, name: str) -> TypeProto:
    """The type of a value, which is a float of known rank."""
    graph = typed.graph
    infos = (info for info in (*graph.output, *graph.value_info, *graph.input) if info.name == name)
    type = next((info.type for info in infos), None)
    if type is None:
        raise InputError(f"output is {name!r}, which is no value of the model's graph", code="training-output")
    if not type.tensor_type.HasField("shape") or type.tensor_type.elem_type not in _FLOATS:
        raise InputError(f'the loss is of "{name}", which is no float tensor of known rank', code="training-output")
    return type


def _bound(pairs: Mapping[str, str]) -> Iterator[StringStringEntryProto]:
    return (StringStringEntryProto(key=key, value=value) for key, value in pairs.items())
