"""A node alone as a model, with the inputs that it names."""

from collections.abc import Sequence

from onnxc.compiler.frontend.declare_types import write_type
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto, NodeProto
from onnxc.compiler.frontend.read import SupportsSerialize
from onnxc.compiler.frontend.schemas import newest_opset
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.errors import InputError

__all__ = ["model_of_node", "node_inputs"]

_IR_VERSION = 10


def node_inputs(node: SupportsSerialize) -> tuple[str, ...]:
    """The inputs that the node names, in order; one that is passed twice is there twice."""
    return tuple(name for name in NodeProto.FromString(node.SerializeToString()).input if name)


def model_of_node(node: SupportsSerialize, types: Sequence[TensorType], opset_version: int | None = None) -> ModelProto:
    """A model of the node, its inputs of these types; the types of its outputs are for inference to find."""
    names = node_inputs(node)
    if len(names) != len(types):
        raise InputError(f"{len(types)} inputs came, the node names {', '.join(names) or 'none'}", code="input-count")
    model = ModelProto(ir_version=_IR_VERSION)
    added = model.graph.node.add()
    added.MergeFromString(node.SerializeToString())
    version = opset_version or newest_opset(added.domain)
    model.opset_import.add(domain=added.domain, version=version or 1)
    model.graph.name = added.op_type
    for name, type in dict(zip(names, types, strict=True)).items():
        write_type(type, model.graph.input.add(name=name).type)
    for name in added.output:
        if name:
            model.graph.output.add(name=name)
    return model
