"""Quantization annotations: which tensors hold the scale and the zero point of another.

They change nothing of what a model computes, but a reader that trusts them must find what they name.
"""

from collections.abc import Collection, Mapping

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.checks.context import Context
from onnxc.compiler.frontend.checks.findings import listed
from onnxc.compiler.frontend.checks.known_types import KnownTypes
from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto, TensorAnnotation

_RULE = "ONNX IR, quantization_annotation"

# The keys that the standard defines, and the element types that go with each; what a zero point is, it does not say.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "SCALE_TENSOR": ("float", "double", "float16", "bfloat16"),
    "ZERO_POINT_TENSOR": (),
}


def check_quantization(graph: GraphProto, path: str, context: Context, outer: KnownTypes | None) -> None:
    """Checks that annotations name values, each once, and give parameters that exist and go together."""
    if not graph.quantization_annotation:
        return
    location, findings = Location(path), context.findings
    # A nested graph may annotate what graphs around it define.
    values = None if outer is not None else _values(graph)
    types, annotated = KnownTypes.of_graph(graph, outer), set[str]()
    for annotation in graph.quantization_annotation:
        name = annotation.tensor_name
        if values is not None and name not in values:
            message = f'the annotated tensor "{name}" is no value of the graph'
            findings.error("quantization-tensor", message, location, rule=_RULE)
        if name in annotated:
            message = f'"{name}" is annotated twice'
            findings.error("duplicate-quantization", message, location, rule=_RULE)
        annotated.add(name)
        _check_parameters(annotation, values, types, location, context)
        _check_pair(annotation, types, location, context)


def _check_parameters(
    annotation: TensorAnnotation,
    values: Collection[str] | None,
    types: KnownTypes,
    location: Location,
    context: Context,
) -> None:
    name, seen = annotation.tensor_name, set[str]()
    for entry in annotation.quant_parameter_tensor_names:
        key, parameter = entry.key, entry.value
        if key in seen:
            message = f'the annotation of "{name}" has two entries {key!r}'
            context.findings.error("quantization-key", message, location, rule=_RULE)
        seen.add(key)
        if key not in _KEYS:
            message = f'the annotation of "{name}" has the key {key!r}; the standard has {listed(_KEYS)}'
            context.findings.warning("quantization-key", message, location, rule=_RULE)
        elif values is not None and parameter not in values:
            message = f'the {key} of "{name}" is "{parameter}", which is no value of the graph'
            context.findings.error("quantization-parameter", message, location, rule=_RULE)
        elif (
            _KEYS[key]
            and (actual := types.find(parameter))
            and actual not in {f"tensor({kind})" for kind in _KEYS[key]}
        ):
            message = f'the {key} of "{name}" is "{parameter}", a {actual}; a scale is a floating-point tensor'
            context.findings.error("quantization-parameter", message, location, rule=_RULE)


def _check_pair(annotation: TensorAnnotation, types: KnownTypes, location: Location, context: Context) -> None:
    """Warns of a scale and a zero point of which nobody could make a range."""
    named = {entry.key: entry.value for entry in annotation.quant_parameter_tensor_names}
    name, scale, zero = annotation.tensor_name, named.get("SCALE_TENSOR"), named.get("ZERO_POINT_TENSOR")
    if scale is None and zero is not None:
        message = f'"{name}" has a zero point and no scale'
        context.findings.warning("quantization-pair", message, location, rule=_RULE)
    shapes = [types.shape(parameter) if parameter else None for parameter in (scale, zero)]
    if all(shape is not None and None not in shape for shape in shapes) and shapes[0] != shapes[1]:
        message = f'the scale of "{name}" has shape {list(shapes[0] or ())}, its zero point {list(shapes[1] or ())}'
        context.findings.warning("quantization-pair", message, location, rule=_RULE)


def _values(graph: GraphProto) -> Collection[str]:
    names = dict.fromkeys(info.name for info in graph.input)
    names |= dict.fromkeys(tensor.name for tensor in graph.initializer)
    names |= dict.fromkeys(sparse.values.name for sparse in graph.sparse_initializer)
    for node in graph.node:
        names |= dict.fromkeys(node.output)
    return names
