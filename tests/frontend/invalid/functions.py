"""What is wrong with functions of the model and their calls."""

from onnx import AttributeProto, helper

from tests.frontend.invalid.case import Case, Cases, ir_version
from tests.frontend.model_texts import CALL, IF, LEAKY, LOOP, RELU, first_attribute, first_node

UNUSED = RELU + '<domain: "own", opset_import: ["": 21, "own": 1]> f (a) => (b) { b = Neg(a) }'

FUNCTIONS: Cases = {
    "a function without a domain": Case(
        "function-without-domain", UNUSED, lambda m: m.functions[0].ClearField("domain")
    ),
    "a function that nothing calls, and that calls itself": Case(
        "recursive-function", UNUSED.replace("Neg(a)", "own.f(a)")
    ),
    "a function that nothing calls, with an unknown operator": Case("unknown-operator", UNUSED.replace("Neg", "Ngee")),
    "a function that nothing calls, with an undefined name": Case("undefined-name", UNUSED.replace("Neg(a)", "Neg(q)")),
    "three functions that call each other": Case(
        "recursive-function",
        CALL.replace("Relu(a)", "own.p(a)")
        + '<domain: "own", opset_import: ["own": 1, "": 21]> p (a) => (b) { b = own.q(a) }'
        + '<domain: "own", opset_import: ["own": 1, "": 21]> q (a) => (b) { b = own.f(a) }',
    ),
    "two overloads before there were any": Case(
        "overload-version",
        CALL,
        lambda m: [m.functions.append(m.functions[0]), setattr(m.functions[1], "overload", "fast")],
        ir_version(9, 21),
    ),
    "two functions of one overload": Case(
        "duplicate-function",
        CALL,
        lambda m: [
            setattr(m.functions[0], "overload", "fast"),
            setattr(first_node(m), "overload", "fast"),
            m.functions.append(m.functions[0]),
        ],
    ),
    "two functions of the default domain under both its names": Case(
        "duplicate-function",
        RELU
        + '<domain: "", opset_import: ["": 21]> Own (a) => (b) { b = Neg(a) }'
        + '<domain: "ai.onnx", opset_import: ["": 21]> Own (a) => (b) { b = Neg(a) }',
    ),
    "an attribute of a function without a name": Case(
        "attribute-without-name", CALL, lambda m: m.functions[0].attribute.append("")
    ),
    "a default of a function without a name": Case(
        "attribute-without-name",
        CALL,
        lambda m: m.functions[0].attribute_proto.add(type=AttributeProto.INT, i=1),
    ),
    "an attribute with and without a default": Case(
        "duplicate-attribute",
        LEAKY,
        lambda m: m.functions[0].attribute_proto.append(helper.make_attribute("alpha", 0.5)),
    ),
    "two defaults": Case(
        "duplicate-attribute",
        CALL,
        lambda m: m.functions[0].attribute_proto.extend([helper.make_attribute("beta", 0.5)] * 2),
    ),
    "a default that refers to another attribute": Case(
        "attribute-without-value",
        CALL,
        lambda m: m.functions[0].attribute_proto.add(name="beta", type=AttributeProto.FLOAT, ref_attr_name="alpha"),
    ),
    "a default of another type than its use": Case(
        "attribute-type",
        LEAKY.replace("<alpha: float = 0.5>", "").replace("f <alpha>", "f"),
        lambda m: m.functions[0].attribute_proto.append(helper.make_attribute("alpha", 1)),
    ),
    "a call with an attribute of another type": Case("attribute-type", LEAKY.replace("float = 0.5", 'string = "a"')),
    "a call with an attribute that has no value": Case(
        "attribute-without-type", LEAKY, lambda m: first_attribute(m).CopyFrom(AttributeProto(name="alpha"))
    ),
    "a call with an attribute twice": Case(
        "duplicate-attribute", LEAKY, lambda m: first_node(m).attribute.append(first_attribute(m))
    ),
    "a call outside functions with a reference": Case(
        "attribute-reference-outside-function", LEAKY.replace("alpha: float = 0.5", "alpha: float = @slope")
    ),
    "a reference to an unknown parameter in a branch of a function": Case(
        "unknown-attribute-reference",
        LEAKY.replace(
            "b = LeakyRelu <alpha: float = @alpha> (a)",
            "k = Cast<to = 9>(a) b = If (k) <then_branch = t () => (p) { p = LeakyRelu<alpha: float = @slope>(a) }, "
            "else_branch = e () => (q) { q = LeakyRelu<alpha: float = @alpha>(a) }>",
        ),
    ),
    "too many inputs of a call in a branch": Case(
        "input-count", IF.replace("Relu(x)", "own.f(x, x)") + CALL.split("\n", 1)[1]
    ),
    "too many outputs of a call in a loop": Case(
        "output-count", LOOP.replace("t = Relu(s)", "t, t2 = own.f(s)") + CALL.split("\n", 1)[1]
    ),
    "a call of a function that does not exist": Case("unknown-domain", CALL.replace("own.f(x)", "own.h(x)")),
    "a call in small letters": Case("unknown-domain", CALL.replace("> f (a)", "> F (a)")),
    "a body with too many inputs": Case("input-count", CALL.replace("Relu(a)", "Relu(a, a)")),
    "a body without a required attribute": Case("missing-attribute", CALL.replace("Relu(a)", "Cast(a)")),
    "a body with an unknown domain": Case("unknown-domain", CALL.replace("Relu(a)", "com.other.Relu(a)")),
    "no opset for a branch in a function": Case(
        "missing-opset-import",
        CALL.replace('opset_import: ["": 21, "own": 1]> f', 'opset_import: ["own": 1]> f'),
    ),
    "a body of a later opset than is known": Case(
        "unsupported-opset-version", CALL, lambda m: setattr(m.functions[0].opset_import[0], "version", 30)
    ),
}
