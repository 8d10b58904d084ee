"""The model of a session: read, checked and typed when it is made, with other initializers where options say so."""

import copy
import json
import os
from collections.abc import Collection, Mapping, Sequence

from onnxc.compat.onnxruntime.node_args import NodeArg, declared_arg, inferred_arg
from onnxc.compat.onnxruntime.options import SessionOptions
from onnxc.compat.onnxruntime.status import Fail, InvalidArgument
from onnxc.compiler.checked_model import checked_model
from onnxc.compiler.frontend.element_types import code_of
from onnxc.compiler.frontend.infer import InferredTypes, infer_types
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto, TensorProto, ValueInfoProto
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.dtypes import dtype_of
from onnxc.compiler.options import ModelSource, make_options
from onnxc.runtime.records import record

__all__ = ["SessionModel", "open_model"]


@record
class SessionModel:
    """A model that can be compiled, and its sides. overridable: inputs that have an initializer.

    outline: what the model says of itself; its large tensors need not be in it. sizes: of the symbols that are fixed.
    """

    source: ModelSource
    outline: ModelProto
    sizes: dict[str, int]
    inputs: tuple[NodeArg, ...]
    overridable: tuple[NodeArg, ...]
    outputs: tuple[NodeArg, ...]


def open_model(source: ModelSource, options: SessionOptions) -> SessionModel:
    """The model with what the options fix of it.

    Raises ModelError, UnsupportedError, InputError; Fail for operators that nobody has brought.
    """
    if options._initializers or options._files:
        source = _with_initializers(_with_files(read_model(source).proto, options._files), options)
    loaded = read_model(source)
    graph = loaded.outline.graph
    sizes = _fixed_sizes(graph.input, options)
    present = {info.name for info in graph.input}
    known = make_options("interpreter", sizes)
    loaded, checked = checked_model(loaded, known)
    types = infer_types(checked, known.inputs)
    if types.unknown:
        raise Fail("\n".join(map(str, types.unknown)))
    stored = {tensor.name for tensor in graph.initializer} & present
    sides = [declared_arg(info, sizes) for info in graph.input]
    return SessionModel(
        source,
        loaded.outline,
        sizes,
        tuple(arg for arg in sides if arg.name not in stored),
        tuple(arg for arg in sides if arg.name in stored),
        tuple(_output(info, types, sizes, _symbols(graph.input)) for info in graph.output),
    )


def _output(info: ValueInfoProto, types: InferredTypes, sizes: Mapping[str, int], symbols: Collection[str]) -> NodeArg:
    """As it is declared, and as it was found where there is no shape."""
    is_tensor = info.type.HasField("tensor_type")
    if info.type.WhichOneof("value") is None or (is_tensor and not info.type.tensor_type.HasField("shape")):
        return inferred_arg(info.name, types.find(info.name), symbols)
    return declared_arg(info, sizes)


def _fixed_sizes(inputs: Sequence[ValueInfoProto], options: SessionOptions) -> dict[str, int]:
    """The sizes of symbols that options fix; by a denotation, of the symbols of the axes that have it."""
    fixed = {
        dim.dim_param: options._sizes_by_denotation[dim.denotation]
        for info in inputs
        for dim in info.type.tensor_type.shape.dim
        if dim.dim_param and dim.denotation in options._sizes_by_denotation
    }
    return fixed | {name: size for name, size in options._sizes_by_name.items() if name in _symbols(inputs)}


def _symbols(infos: Sequence[ValueInfoProto]) -> set[str]:
    return {dim.dim_param for info in infos for dim in info.type.tensor_type.shape.dim}


def _with_files(model: ModelProto, files: Mapping[str, memoryview]) -> ModelProto:
    """The model with the data that it has in these files. Raises InvalidArgument where a file is too short."""
    for tensor in model.graph.initializer:
        stored = {entry.key: entry.value for entry in tensor.external_data}
        if tensor.data_location != TensorProto.EXTERNAL or stored.get("location") not in files:
            continue
        data, start = files[stored["location"]], int(stored.get("offset", 0))
        stop = start + int(stored["length"]) if "length" in stored else len(data)
        if stop > len(data):
            message = f"the data of {tensor.name!r} ends at byte {stop} of {stored['location']}, which has {len(data)}"
            raise InvalidArgument(message)
        tensor.raw_data = bytes(data[start:stop])
        tensor.ClearField("data_location")
        tensor.ClearField("external_data")
    return model


def configured(options: SessionOptions, model: ModelProto) -> SessionOptions:
    """The options with those that the model has in its metadata, where the environment asks for them.

    Raises Fail where they are no JSON.
    """
    texts = [entry.value for entry in model.metadata_props if entry.key == "ort_config"]
    if os.environ.get("ORT_LOAD_CONFIG_FROM_MODEL") != "1" or not texts:
        return options
    try:
        named = json.loads(texts[0])["session_options"]
        changed = copy.copy(options)
        for name, value in named.items():
            setattr(changed, name, value)
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise Fail(f"the options in the model's metadata cannot be read: {problem}") from problem
    return changed


def _with_initializers(model: ModelProto, options: SessionOptions) -> ModelProto:
    """The model with other values for some initializers, which it must have."""
    by_name = {tensor.name: tensor for tensor in model.graph.initializer}
    for name, value in options._initializers.items():
        if name not in by_name:
            raise InvalidArgument(f"there is no initializer {name!r} to replace")
        array = value.numpy()
        by_name[name].CopyFrom(
            TensorProto(name=name, data_type=code_of(dtype_of(array.dtype)), dims=array.shape, raw_data=array.tobytes())
        )
    return model
