"""A model whose variables have other values; all else in it stays as it is."""

import secrets
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from onnxc.compiler.frontend.element_types import code_of
from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto, ModelProto, TensorProto
from onnxc.compiler.frontend.read import LoadedModel
from onnxc.compiler.frontend.training.programs import Variable

__all__ = ["with_values"]

_KEPT = ("name", "doc_string", "metadata_props")


def with_values(source: LoadedModel, values: Sequence[tuple[Variable, np.ndarray]]) -> LoadedModel:
    """The model with these values of its variables; a sparse initializer becomes a dense one."""
    model, lifted = ModelProto(), dict(source.lifted)
    model.CopyFrom(source.outline)
    for variable, value in values:
        graph = model.graph if variable.owner is None else model.training_info[variable.owner].algorithm
        tensor = _initializer(graph, variable)
        tensor.dims.extend(value.shape)
        tensor.data_type = code_of(variable.tensor.dtype)
        if value.size:
            tensor.raw_data = secrets.token_bytes(24)
            lifted[tensor.raw_data] = value.reshape(-1).view(np.uint8).data
    return replace(source, outline=model, lifted=lifted)


def _initializer(graph: GraphProto, variable: Variable) -> TensorProto:
    """The initializer of this name in the message, without a type and elements."""
    for tensor in graph.initializer:
        if tensor.name == variable.name:
            kept = {field: getattr(tensor, field) for field in _KEPT}
            fresh = TensorProto(**kept)
            tensor.CopyFrom(fresh)
            return tensor
    sparse = next(entry for entry in graph.sparse_initializer if entry.values.name == variable.name)
    graph.sparse_initializer.remove(sparse)
    return graph.initializer.add(name=variable.name)
