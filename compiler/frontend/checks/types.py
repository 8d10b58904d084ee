"""Types that a model declares: complete where the IR wants them, in agreement with initializers and one another."""

import math
from collections.abc import Iterable, Mapping, Sequence

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.checks.context import Context, check_tensor
from onnxc.compiler.frontend.checks.findings import listed
from onnxc.compiler.frontend.element_types import ELEMENT_TYPES
from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto
from onnxc.compiler.frontend.value_types import type_text

_RULE = "ONNX IR, TypeProto"
_SHAPE_RULE = "ONNX IR, static tensor shapes"
_INTERFACE_RULE = "ONNX IR, inputs and outputs of the main graph"

_KEY_TYPES = frozenset(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "string"))

# A tensor declared with this size has any; tools write it for want of a name.
_ANY_SIZE = -1

_DENOTATIONS = frozenset(("TENSOR", "IMAGE", "AUDIO", "TEXT"))
_AXIS_DENOTATIONS = frozenset(
    (
        "DATA_BATCH",
        "DATA_CHANNEL",
        "DATA_TIME",
        "DATA_FEATURE",
        "FILTER_IN_CHANNEL",
        "FILTER_OUT_CHANNEL",
        "FILTER_SPATIAL",
    )
)


def check_type(
    proto: TypeProto, what: str, location: Location, context: Context, *, complete: bool, depth: int = 0
) -> None:
    """Checks one type, and those inside; `complete`: nothing may be left open. `what` names what it is the type of."""
    findings = context.findings
    if depth == context.limits.type_depth:
        findings.error("nesting-too-deep", f"the type of {what} is nested too deeply", location, rule=_RULE)
        return
    kind = proto.WhichOneof("value")
    match kind:
        case "tensor_type" | "sparse_tensor_type":
            tensor = proto.tensor_type if kind == "tensor_type" else proto.sparse_tensor_type
            _check_element(tensor.elem_type, what, location, context, complete=complete)
            _check_shape(tensor.shape, what, location, context)
        case "map_type":
            key = proto.map_type.key_type
            _check_element(key, f"the keys of {what}", location, context, complete=complete)
            if key in ELEMENT_TYPES and str(ELEMENT_TYPES[key]) not in _KEY_TYPES:
                message = f"the keys of {what} are {ELEMENT_TYPES[key]}, and keys are integers or strings"
                findings.error("map-key-type", message, location, rule="ONNX IR, TypeProto.Map")
        case "opaque_type" if not proto.opaque_type.name:
            findings.error("opaque-without-name", f"the opaque type of {what} has no name", location, rule=_RULE)
        case None if complete:
            findings.error("incomplete-type", f"the type of {what} is not told in full", location, rule=_RULE)
    _check_denotation(_text(proto.denotation), _DENOTATIONS, what, location, context)
    inner = _inner_type(proto)
    if inner is not None:
        check_type(inner, what, location, context, complete=complete, depth=depth + 1)


def _inner_type(proto: TypeProto) -> TypeProto | None:
    match proto.WhichOneof("value"):
        case "sequence_type":
            return proto.sequence_type.elem_type
        case "optional_type":
            return proto.optional_type.elem_type
        case "map_type":
            return proto.map_type.value_type
    return None


def _check_element(code: int, what: str, location: Location, context: Context, *, complete: bool) -> None:
    if code == TensorProto.UNDEFINED:
        if complete:
            context.findings.error("incomplete-type", f"the element type of {what} is not told", location, rule=_RULE)
    elif code not in ELEMENT_TYPES:
        message = f"the element type of {what} is {code}, which ONNX does not know"
        context.findings.error("element-type-unknown", message, location, rule="TensorProto.DataType")


def _check_shape(shape: TensorShapeProto, what: str, location: Location, context: Context) -> None:
    findings, limits = context.findings, context.limits
    if len(shape.dim) > limits.tensor_rank:
        message = f"{what} has {len(shape.dim)} axes; the limit is {limits.tensor_rank}"
        findings.error("too-many-axes", message, location, rule="limits, tensor_rank")
    for axis, dim in enumerate(shape.dim):
        if dim.dim_value == _ANY_SIZE:
            message = f"axis {axis} of {what} has size {dim.dim_value}, which is taken as unknown"
            findings.warning("negative-size", message, location, rule=_SHAPE_RULE)
        elif dim.dim_value < 0:
            message = f"axis {axis} of {what} has size {dim.dim_value}"
            findings.error("negative-size", message, location, rule=_SHAPE_RULE)
        if dim.denotation:
            _check_denotation(_text(dim.denotation), _AXIS_DENOTATIONS, f"axis {axis} of {what}", location, context)
    if (elements := math.prod(dim.dim_value for dim in shape.dim if dim.dim_value > 0)) > limits.tensor_elements:
        message = f"{what} has {elements} elements or more; the limit is {limits.tensor_elements}"
        findings.error("too-many-elements", message, location, rule="limits, tensor_elements")


def _check_denotation(text: str, known: Iterable[str], what: str, location: Location, context: Context) -> None:
    if text and text not in known:
        message = f"{what} is denoted {text!r}; the standard has {listed(sorted(known))}"
        context.findings.warning("unknown-denotation", message, location, rule="ONNX IR, denotations")


def _text(text: str | bytes) -> str:
    """Free text, which need not be UTF-8."""
    return text.decode(errors="replace") if isinstance(text, bytes) else text


def check_interface(graph: GraphProto, path: str, context: Context) -> None:
    """Checks what a graph declares of its inputs, outputs, initializers and values."""
    location = Location(path)
    inputs = {info.name: info for info in graph.input}
    others = {info.name: info for infos in (graph.value_info, graph.output) for info in infos}
    is_main = path == "main"
    for info in graph.input:
        if is_main:
            _check_main_info(info, f'input "{info.name}"', location, context, is_input=True)
        else:
            _check_info(info, f'input "{info.name}"', location, context)
    for info in graph.output:
        if is_main:
            _check_main_info(info, f'output "{info.name}"', location, context, is_input=False)
        else:
            _check_info(info, f'output "{info.name}"', location, context)
    for info in graph.value_info:
        _check_info(info, f'value "{info.name}"', location, context)
    check_distinct_infos(graph.value_info, path, context)
    _check_described_again(graph, location, context)
    for tensor in graph.initializer:
        what = f'initializer "{tensor.name}"'
        check_tensor(tensor, what, location, context)
        shape = tuple(tensor.dims)
        _check_initializer(tensor.name, tensor.data_type, shape, inputs, others, location, context)
    for sparse in graph.sparse_initializer:
        what, name = f'initializer "{sparse.values.name}"', sparse.values.name
        check_tensor(sparse, what, location, context)
        shape = tuple(sparse.dims)
        _check_initializer(name, sparse.values.data_type, shape, inputs, others, location, context)


def check_distinct_infos(infos: Iterable[ValueInfoProto], path: str, context: Context) -> None:
    """Checks that no value is described twice: differently is an error, the same twice is merely odd."""
    seen: dict[str, ValueInfoProto] = {}
    for info in infos:
        other = seen.setdefault(info.name, info)
        if other is info:
            continue
        kinds = [type_text(each.type) for each in (other, info)]
        if None not in kinds and kinds[0] != kinds[1]:
            message = f'the value "{info.name}" is described as {kinds[0]} and as {kinds[1]}'
            context.findings.error("contradictory-value-info", message, Location(path), rule="ONNX IR, value_info")
        else:
            message = f'the value "{info.name}" is described twice'
            context.findings.warning("duplicate-value-info", message, Location(path), rule="ONNX IR, value_info")


def _check_described_again(graph: GraphProto, location: Location, context: Context) -> None:
    """An input or output that is described among the values as well is so in the same way."""
    described = {info.name: type_text(info.type) for info in graph.value_info}
    for info in (*graph.input, *graph.output):
        kinds = type_text(info.type), described.get(info.name)
        if None not in kinds and kinds[0] != kinds[1]:
            message = f'the value "{info.name}" is described as {kinds[0]} and as {kinds[1]}'
            context.findings.error("contradictory-value-info", message, location, rule="ONNX IR, value_info")


def _check_info(info: ValueInfoProto, what: str, location: Location, context: Context) -> None:
    check_type(info.type, what, location, context, complete=False)


def _check_main_info(info: ValueInfoProto, what: str, location: Location, context: Context, *, is_input: bool) -> None:
    """The standard wants both in full; of an output what is not told is inferred."""
    kind, findings = info.type.WhichOneof("value"), context.findings
    if kind is None:
        report = findings.error if is_input else findings.warning
        report("missing-type", f"{what} has no type", location, rule=_INTERFACE_RULE)
        return
    check_type(info.type, what, location, context, complete=True)
    tensor = _tensor_of(info.type)
    if tensor is not None and not tensor.HasField("shape"):
        message = f"{what} has no shape, so its rank is known only when the model runs"
        findings.warning("missing-shape", message, location, rule=_INTERFACE_RULE)
    if is_input and kind == "opaque_type":
        message = f"{what} is of opaque type, which cannot be fed"
        findings.warning("unsupported-type", message, location, rule=_RULE)


def _check_initializer(
    name: str,
    data_type: int,
    dims: tuple[int, ...],
    inputs: Mapping[str, ValueInfoProto],
    others: Mapping[str, ValueInfoProto],
    location: Location,
    context: Context,
) -> None:
    info = inputs.get(name)
    if info is None and context.ir_version < 4 and name:
        message = (
            f'initializer "{name}" is no graph input, as IR version {context.ir_version} wants it; see `onnxc repair`'
        )
        context.findings.error("initializer-without-input", message, location, rule="ONNX IR before version 4")
    kind = "input" if info is not None else "value"
    info = info or others.get(name)
    if info is None or info.type.WhichOneof("value") is None:
        return
    tensor = _tensor_of(info.type)
    if tensor is None:
        message = f'{kind} "{name}" is declared {type_text(info.type)} and its initializer is a tensor'
        context.findings.error("initializer-type", message, location, rule="ONNX IR, initializers")
        return
    declared, stored = ELEMENT_TYPES.get(tensor.elem_type), ELEMENT_TYPES.get(data_type)
    if declared and stored and declared != stored:
        message = f'{kind} "{name}" is declared {declared} and its initializer is {stored}'
        context.findings.error("initializer-type", message, location, rule="ONNX IR, initializers")
    if tensor.HasField("shape") and not fits_shape(dims, tensor.shape):
        sizes = (dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim)
        declared_shape, stored_shape = listed(sizes, none=""), listed(dims, none="")
        message = f'{kind} "{name}" is declared [{declared_shape}] and its initializer has shape [{stored_shape}]'
        context.findings.error("initializer-shape", message, location, rule="ONNX IR, initializers")


def _tensor_of(proto: TypeProto) -> TypeProto.Tensor | TypeProto.SparseTensor | None:
    """What is told of a tensor, dense or sparse; None of any other value."""
    match proto.WhichOneof("value"):
        case "tensor_type":
            return proto.tensor_type
        case "sparse_tensor_type":
            return proto.sparse_tensor_type
    return None


def fits_shape(dims: Sequence[int], shape: TensorShapeProto) -> bool:
    """Whether sizes are those of a declared shape, as far as these are numbers."""
    if len(dims) != len(shape.dim):
        return False
    return all(
        not dim.HasField("dim_value") or dim.dim_value < 0 or dim.dim_value == size
        for dim, size in zip(shape.dim, dims, strict=True)
    )
