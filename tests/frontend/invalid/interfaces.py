"""What is wrong with declared types: inputs, outputs, values, initializers."""

from onnx import TensorProto, TypeProto, helper

from tests.frontend.invalid.case import Case, Cases
from tests.frontend.model_texts import ADD, CALL, IF, RELU, Edit, first_attribute

SPARE = "g (float[N] s, float[N] x) => (float[N] y) { y = Relu(x) }"
WEIGHTED = "g (float[N] x, float[2] w) => (float[N] y) <float[2] w = {1, 2}> { y = Add(x, w) }"


def described(name: str, kind: int, shape: list[int | str]) -> Edit:
    """value_info of a value."""
    return lambda m: m.graph.value_info.append(helper.make_tensor_value_info(name, kind, shape))


def with_type(proto: TypeProto, *, output: bool = False) -> Edit:
    """The first input, or output, of this type."""
    return lambda m: (m.graph.output if output else m.graph.input)[0].type.CopyFrom(proto)


def map_of(key: int) -> TypeProto:
    return helper.make_map_type_proto(key, helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))


INTERFACES: Cases = {
    "an input described again as of another type": Case(
        "contradictory-value-info", RELU, described("x", TensorProto.INT64, ["N"])
    ),
    "an output described again as of another type": Case(
        "contradictory-value-info", RELU, described("y", TensorProto.DOUBLE, ["N"])
    ),
    "an input of an undefined element type": Case(
        "incomplete-type", SPARE, with_type(helper.make_tensor_type_proto(TensorProto.UNDEFINED, [2]))
    ),
    "an output without an element type": Case(
        "incomplete-type", RELU, lambda m: m.graph.output[0].type.tensor_type.ClearField("elem_type")
    ),
    "an optional of nothing": Case("incomplete-type", SPARE, with_type(TypeProto(optional_type=TypeProto.Optional()))),
    "a sequence of an optional of nothing": Case(
        "incomplete-type",
        SPARE,
        with_type(helper.make_sequence_type_proto(TypeProto(optional_type=TypeProto.Optional()))),
    ),
    "a map without keys": Case(
        "incomplete-type",
        SPARE,
        with_type(TypeProto(map_type=TypeProto.Map(value_type=helper.make_tensor_type_proto(1, [2])))),
    ),
    "a map without values": Case(
        "incomplete-type", SPARE, with_type(TypeProto(map_type=TypeProto.Map(key_type=TensorProto.INT64)))
    ),
    "a sequence of tensors of no element type": Case(
        "incomplete-type", SPARE, with_type(helper.make_sequence_type_proto(helper.make_tensor_type_proto(0, [2])))
    ),
    "keys that are floats": Case("map-key-type", SPARE, with_type(map_of(TensorProto.FLOAT))),
    "keys that are bools": Case("map-key-type", SPARE, with_type(map_of(TensorProto.BOOL))),
    "keys that are float16": Case("map-key-type", SPARE, with_type(map_of(TensorProto.FLOAT16))),
    "keys that are complex": Case("map-key-type", SPARE, with_type(map_of(TensorProto.COMPLEX64))),
    "keys of four bits in a sequence": Case(
        "map-key-type", SPARE, with_type(helper.make_sequence_type_proto(map_of(TensorProto.INT4)))
    ),
    "keys of an unknown type": Case("element-type-unknown", SPARE, with_type(map_of(99))),
    "an element type below zero": Case(
        "element-type-unknown", SPARE, lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", -2)
    ),
    "a value of an unknown element type": Case("element-type-unknown", RELU, described("z", 29, [2])),
    "an unknown element type in a branch": Case(
        "element-type-unknown",
        IF,
        lambda m: setattr(first_attribute(m).g.output[0].type.tensor_type, "elem_type", 100),
    ),
    "an unknown element type in a function": Case(
        "element-type-unknown",
        CALL,
        lambda m: m.functions[0].value_info.append(helper.make_tensor_value_info("b", 77, [])),
    ),
    "an opaque output without a name": Case(
        "opaque-without-name",
        "g (float[N] x) => (float[N] y, float[N] z) { y = Relu(x) z = Neg(x) }",
        lambda m: m.graph.output[1].type.opaque_type.SetInParent(),
    ),
    "a size of -2": Case(
        "negative-size", RELU, lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", -2)
    ),
    "a negative size of an output": Case(
        "negative-size", RELU, lambda m: setattr(m.graph.output[0].type.tensor_type.shape.dim[0], "dim_value", -9)
    ),
    "a negative size of elements of a sequence": Case(
        "negative-size", SPARE, with_type(helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [-4])))
    ),
    "a value that is described in two ways": Case(
        "contradictory-value-info",
        "g (float[N] x) => (float[N] y) { z = Relu(x) y = Neg(z) }",
        lambda m: m.graph.value_info.extend([helper.make_tensor_value_info("q", kind, [3]) for kind in (1, 7)]),
    ),
    "a value of a function that is described in two ways": Case(
        "contradictory-value-info",
        CALL,
        lambda m: m.functions[0].value_info.extend([helper.make_tensor_value_info("q", kind, [3]) for kind in (1, 7)]),
    ),
    "an initializer of another type than its description": Case(
        "initializer-type",
        RELU,
        lambda m: [
            m.graph.initializer.add(name="w", data_type=1, dims=[2], float_data=[1, 2]),
            m.graph.value_info.append(helper.make_tensor_value_info("w", TensorProto.INT32, [2])),
        ],
    ),
    "an initializer of another shape than its description": Case(
        "initializer-shape", ADD, described("w", TensorProto.FLOAT, [3])
    ),
    "an initializer of another shape than the output that it is": Case(
        "initializer-shape",
        "g (float[N] x) => (float[3] w) <float[2] w = {1, 2}> { y = Relu(x) }",
    ),
    "an initializer of an input that is a sequence": Case(
        "initializer-type",
        "g (seq(float[N]) w, float[N] x) => (float[N] y) { y = Relu(x) }",
        lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[2], float_data=[1, 2]),
    ),
    "a scalar initializer of an input that is a vector": Case(
        "initializer-shape", WEIGHTED, lambda m: m.graph.initializer[0].CopyFrom(helper.make_tensor("w", 1, [], [1.0]))
    ),
    "an operand of another type than an initializer in a branch": Case(
        "type-mismatch",
        IF.replace("a = Relu(x)", "a = Add(x, w)"),
        lambda m: first_attribute(m).g.initializer.add(name="w", data_type=11, dims=[1], double_data=[1.0]),
    ),
    "quantization of an unknown tensor": Case(
        "quantization-tensor", RELU, lambda m: m.graph.quantization_annotation.add(tensor_name="z")
    ),
    "quantization of nothing": Case("quantization-tensor", RELU, lambda m: m.graph.quantization_annotation.add()),
    "quantization of a tensor twice": Case(
        "duplicate-quantization",
        RELU,
        lambda m: [m.graph.quantization_annotation.add(tensor_name="x") for _ in range(2)],
    ),
    "a scale that does not exist": Case(
        "quantization-parameter",
        RELU,
        lambda m: m.graph.quantization_annotation.add(tensor_name="x").quant_parameter_tensor_names.add(
            key="SCALE_TENSOR", value="x_scale"
        ),
    ),
    "a zero point that does not exist": Case(
        "quantization-parameter",
        RELU,
        lambda m: m.graph.quantization_annotation.add(tensor_name="y").quant_parameter_tensor_names.add(
            key="ZERO_POINT_TENSOR", value=""
        ),
    ),
    "a scale of integers": Case(
        "quantization-parameter",
        "g (float[N] x) => (float[N] y) <int8[1] q = {1}> { y = Relu(x) }",
        lambda m: m.graph.quantization_annotation.add(tensor_name="x").quant_parameter_tensor_names.add(
            key="SCALE_TENSOR", value="q"
        ),
    ),
    "two scales": Case(
        "quantization-key",
        ADD,
        lambda m: m.graph.quantization_annotation.add(tensor_name="x").quant_parameter_tensor_names.extend(
            [helper.onnx.StringStringEntryProto(key="SCALE_TENSOR", value="w") for _ in range(2)]
        ),
    ),
}
