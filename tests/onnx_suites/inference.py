"""Counterparts of onnx.shape_inference, and the comparison of types where ours tell more."""

from collections.abc import Mapping, Sequence

import onnx
from onnx import (
    AttributeProto,
    FunctionProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    SparseTensorProto,
    TensorProto,
    TensorShapeProto,
    TypeProto,
    ValueInfoProto,
    helper,
)
from onnx.defs import OpSchema
from onnx.shape_inference import InferenceError

import onnxc
from tests.onnx_suites.errors import errors_as

__all__ = ["EXACTER", "infer_function_output_types", "infer_node_outputs", "infer_shapes"]

EXACTER: list[str] = []
"""The names of values of which our types tell more than onnx's, since it was emptied."""

theirs = onnx.shape_inference.infer_shapes


def infer_shapes(
    model: ModelProto | bytes, check_type: bool = False, strict_mode: bool = False, data_prop: bool = False
) -> ModelProto:
    """Our types; where all of them tell at least what onnx's do, onnx's own, and the names in `EXACTER`."""
    message = ModelProto.FromString(model) if isinstance(model, bytes) else model
    try:
        with errors_as(InferenceError):
            ours = ModelProto.FromString(onnxc.infer(message).SerializeToString())
    except InferenceError:
        if check_type or strict_mode:
            raise
        return message
    known = _declared(ours)
    expected = theirs(message, check_type, strict_mode, data_prop)
    verdicts = {name: _compared(known.get(name), type) for name, type in _declared(expected).items()}
    if any(verdict is None for verdict in verdicts.values()):
        return ours
    EXACTER.extend(name for name, verdict in verdicts.items() if verdict)
    return expected


def _declared(model: ModelProto) -> dict[str, TypeProto]:
    """The types of values, by graph and name."""
    infos = [("", info) for info in (*model.graph.value_info, *model.graph.output)]
    infos += [(function.name, info) for function in model.functions for info in function.value_info]
    return {f"{path}/{info.name}": info.type for path, info in infos}


def _compared(ours: TypeProto | None, expected: TypeProto) -> bool | None:
    """Whether ours tells more; None where it tells something else, or less."""
    kind = expected.WhichOneof("value")
    if kind is None:
        return ours is not None and ours.WhichOneof("value") is not None
    if ours is None or ours.WhichOneof("value") != kind:
        return None
    if kind in ("sequence_type", "optional_type"):
        return _compared(getattr(ours, kind).elem_type, getattr(expected, kind).elem_type)
    if kind == "map_type":
        return False if ours == expected else None
    return _compared_tensors(getattr(ours, kind), getattr(expected, kind))


def _compared_tensors(ours: TypeProto.Tensor, expected: TypeProto.Tensor) -> bool | None:
    if ours.elem_type != expected.elem_type and expected.elem_type:
        return None
    if not expected.HasField("shape"):
        return ours.HasField("shape")
    if not ours.HasField("shape") or len(ours.shape.dim) != len(expected.shape.dim):
        return None
    verdicts = [_compared_sizes(*pair) for pair in zip(ours.shape.dim, expected.shape.dim, strict=True)]
    return None if None in verdicts else any(verdicts)


def _compared_sizes(ours: TensorShapeProto.Dimension, expected: TensorShapeProto.Dimension) -> bool | None:
    """A number tells more than a name; a name that onnx made up tells no more than any other."""
    if ours == expected:
        return False
    if expected.HasField("dim_value"):
        return None
    if expected.dim_param and not expected.dim_param.startswith("unk__"):
        return True if ours.HasField("dim_value") else None
    return ours.HasField("dim_value") or bool(ours.dim_param)


def infer_node_outputs(
    schema: OpSchema,
    node: NodeProto,
    input_types: Mapping[str, TypeProto],
    input_data: Mapping[str, TensorProto] | None = None,
    input_sparse_data: Mapping[str, SparseTensorProto] | None = None,
    opset_imports: Sequence[OperatorSetIdProto] | None = None,
    ir_version: int = onnx.IR_VERSION,
) -> dict[str, TypeProto]:
    """The types of the outputs of one node, as those of a model of that node."""
    del ir_version
    data, sparse = input_data or {}, input_sparse_data or {}
    given = [helper.make_value_info(name, type) for name, type in input_types.items()]
    outputs = [ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "node", given, outputs)
    graph.initializer.extend(_named(tensor, name) for name, tensor in data.items())
    assert not sparse, node
    imports = {each.domain: each.version for each in opset_imports or ()} | {schema.domain: schema.since_version}
    opsets = [helper.make_opsetid(*each) for each in imports.items()]
    with errors_as(onnx.checker.ValidationError):
        typed = onnxc.infer(helper.make_model(graph, opset_imports=opsets))
    found = ModelProto.FromString(typed.SerializeToString()).graph.output
    return {info.name: info.type for info in found if info.type.WhichOneof("value")}


def _named(tensor: TensorProto, name: str) -> TensorProto:
    named = TensorProto()
    named.CopyFrom(tensor)
    named.name = name
    return named


def infer_function_output_types(
    function: FunctionProto, input_types: Sequence[TypeProto], attributes: Sequence[AttributeProto]
) -> list[TypeProto]:
    """The types of the outputs of a function, as those of a model that calls it."""
    names = [f"in_{index}" if type.WhichOneof("value") else "" for index, type in enumerate(input_types)]
    given = [helper.make_value_info(name, type) for name, type in zip(names, input_types, strict=True) if name]
    outputs = [ValueInfoProto(name=f"out_{index}") for index in range(len(function.output))]
    call = NodeProto(op_type=function.name, domain=function.domain, input=names, output=[o.name for o in outputs])
    call.attribute.extend(attributes)
    imports = {each.domain: each.version for each in function.opset_import} | {function.domain: 1}
    model = helper.make_model(
        helper.make_graph([call], "call", given, outputs),
        opset_imports=[helper.make_opsetid(*each) for each in imports.items()],
        functions=[function],
    )
    with errors_as(InferenceError):
        typed = ModelProto.FromString(onnxc.infer(model).SerializeToString())
    return [info.type for info in typed.graph.output]
