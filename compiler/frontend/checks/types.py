"""Types that a model declares: complete where the IR wants them, in agreement with initializers."""

from collections.abc import Mapping

from compiler.diagnostics import Location
from compiler.frontend.checks.context import Context, check_tensor
from compiler.frontend.checks.findings import Findings, listed
from compiler.frontend.element_types import ELEMENT_TYPES
from compiler.frontend.proto.onnxc_pb2 import GraphProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto
from compiler.frontend.value_types import TYPE_DEPTH_LIMIT

_RULE = "ONNX IR, TypeProto"


def check_type(
    proto: TypeProto,
    what: str,
    location: Location,
    findings: Findings,
    *,
    complete: bool,
    depth: int = TYPE_DEPTH_LIMIT,
) -> None:
    """Checks one type, and those inside; `complete`: nothing may be left open. `what` names what it is the type of."""
    if depth == 0:
        findings.error("nesting-too-deep", f"the type of {what} is nested too deeply", location, rule=_RULE)
        return
    kind = proto.WhichOneof("value")
    match kind:
        case "tensor_type" | "sparse_tensor_type":
            tensor = proto.tensor_type if kind == "tensor_type" else proto.sparse_tensor_type
            _check_element(tensor.elem_type, what, location, findings, complete=complete)
            _check_shape(tensor.shape, what, location, findings)
        case "map_type":
            _check_element(proto.map_type.key_type, f"the keys of {what}", location, findings, complete=complete)
        case None if complete:
            findings.error("incomplete-type", f"the type of {what} is not told in full", location, rule=_RULE)
    inner = _inner_type(proto)
    if inner is not None:
        check_type(inner, what, location, findings, complete=complete, depth=depth - 1)


def _inner_type(proto: TypeProto) -> TypeProto | None:
    match proto.WhichOneof("value"):
        case "sequence_type":
            return proto.sequence_type.elem_type
        case "optional_type":
            return proto.optional_type.elem_type
        case "map_type":
            return proto.map_type.value_type
    return None


def _check_element(number: int, what: str, location: Location, findings: Findings, *, complete: bool) -> None:
    if number == TensorProto.UNDEFINED:
        if complete:
            findings.error("incomplete-type", f"the element type of {what} is not told", location, rule=_RULE)
    elif number not in ELEMENT_TYPES:
        message = f"the element type of {what} is {number}, which ONNX does not know"
        findings.error("element-type-unknown", message, location, rule="TensorProto.DataType")


def _check_shape(shape: TensorShapeProto, what: str, location: Location, findings: Findings) -> None:
    for axis, dim in enumerate(shape.dim):
        if dim.dim_value < 0:
            message = f"axis {axis} of {what} has size {dim.dim_value}, which is taken as unknown"
            findings.warning("negative-size", message, location, rule="ONNX IR, TensorShapeProto")


def check_interface(graph: GraphProto, path: str, context: Context) -> None:
    """Checks what a graph declares of its inputs, outputs, initializers and values."""
    location, findings = Location(path), context.findings
    inputs = {info.name: info for info in graph.input}
    check_input = _check_main_input if path == "main" else _check_info
    for info in graph.input:
        check_input(info, f'input "{info.name}"', location, findings)
    for info in graph.output:
        _check_info(info, f'output "{info.name}"', location, findings)
    for info in graph.value_info:
        _check_info(info, f'value "{info.name}"', location, findings)
    for tensor in graph.initializer:
        what = f'initializer "{tensor.name}"'
        check_tensor(tensor, what, location, context)
        _check_initializer(tensor.name, tensor.data_type, tuple(tensor.dims), inputs, location, context)
    for sparse in graph.sparse_initializer:
        what = f'initializer "{sparse.values.name}"'
        check_tensor(sparse, what, location, context)
        _check_initializer(sparse.values.name, sparse.values.data_type, tuple(sparse.dims), inputs, location, context)


def _check_info(info: ValueInfoProto, what: str, location: Location, findings: Findings) -> None:
    check_type(info.type, what, location, findings, complete=False)


def _check_main_input(info: ValueInfoProto, what: str, location: Location, findings: Findings) -> None:
    kind = info.type.WhichOneof("value")
    if kind is None:
        findings.error("missing-type", f"{what} has no type", location, rule="ONNX IR, inputs of the main graph")
        return
    check_type(info.type, what, location, findings, complete=True)
    if kind == "tensor_type" and not info.type.tensor_type.HasField("shape"):
        message = f"{what} has no shape, so its rank is known only when it is fed"
        findings.warning("missing-shape", message, location, rule="ONNX IR, inputs of the main graph")
    if kind in ("opaque_type", "sparse_tensor_type"):
        message = f"{what} is of {kind.removesuffix('_type').replace('_', ' ')} type, which cannot be fed"
        findings.error("unsupported-type", message, location, rule=_RULE)


def _check_initializer(
    name: str,
    data_type: int,
    dims: tuple[int, ...],
    inputs: Mapping[str, ValueInfoProto],
    location: Location,
    context: Context,
) -> None:
    info = inputs.get(name)
    if info is None:
        if context.ir_version < 4 and name:
            message = f'initializer "{name}" is no graph input, as IR version {context.ir_version} wants it'
            context.findings.warning("initializer-without-input", message, location, rule="ONNX IR before version 4")
        return
    tensor = info.type.tensor_type
    declared, stored = ELEMENT_TYPES.get(tensor.elem_type), ELEMENT_TYPES.get(data_type)
    if declared and stored and declared != stored:
        message = f'input "{name}" is declared {declared} and its initializer is {stored}'
        context.findings.error("initializer-type", message, location, rule="ONNX IR, initializers of inputs")
    if tensor.HasField("shape") and not _fits(dims, tensor.shape):
        sizes = (dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim)
        declared_shape, stored_shape = listed(sizes, none=""), listed(dims, none="")
        message = f'input "{name}" is declared [{declared_shape}] and its initializer has shape [{stored_shape}]'
        context.findings.error("initializer-shape", message, location, rule="ONNX IR, initializers of inputs")


def _fits(dims: tuple[int, ...], shape: TensorShapeProto) -> bool:
    if len(dims) != len(shape.dim):
        return False
    return all(
        not dim.HasField("dim_value") or dim.dim_value < 0 or dim.dim_value == size
        for dim, size in zip(shape.dim, dims, strict=True)
    )
