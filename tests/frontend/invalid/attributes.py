"""What is wrong with attributes and operators: form, presence, arity, types, subgraphs."""

import onnx
from onnx import AttributeProto, helper

from tests.frontend.invalid.case import Case, Cases
from tests.frontend.model_texts import CALL, IF, LEAKY, LOOP, RELU, Edit, first_attribute, first_node

SOFTMAX = RELU.replace("Relu(", "Softmax<axis = 0>(")
CONSTANT = "g () => (float[2] y) { y = Constant<value = float[2] {1, 2}>() }"


def attribute(**fields: object) -> Edit:
    """The first attribute of the first node is this one."""
    return lambda m: first_attribute(m).CopyFrom(AttributeProto(**fields))  # type: ignore[arg-type]


ATTRIBUTES: Cases = {
    "an attribute that does not say its type": Case(
        "attribute-without-type", SOFTMAX, lambda m: first_attribute(m).ClearField("type")
    ),
    "an attribute of an undefined type": Case("attribute-without-type", SOFTMAX, attribute(name="axis", type=0, i=1)),
    "a reference that does not say its type": Case(
        "attribute-without-type", LEAKY, lambda m: m.functions[0].node[0].attribute[0].ClearField("type")
    ),
    "floats in the place of a float": Case("attribute-type", RELU.replace("Relu(", "LeakyRelu<alpha = [1.0]>(")),
    "a string in the place of an int": Case("attribute-type", RELU.replace("Relu(", 'Softmax<axis = "0">(')),
    "a tensor in the place of an int": Case(
        "attribute-type", SOFTMAX, lambda m: first_attribute(m).CopyFrom(helper.make_attribute("axis", first_tensor()))
    ),
    "a graph in the place of an int": Case(
        "attribute-type",
        SOFTMAX,
        lambda m: first_attribute(m).CopyFrom(helper.make_attribute("axis", helper.make_graph([], "h", [], []))),
    ),
    "an int in the place of a graph": Case(
        "attribute-type", IF, lambda m: first_node(m).attribute[1].CopyFrom(helper.make_attribute("else_branch", 1))
    ),
    "a reference of another type than the operator takes": Case(
        "attribute-type",
        LEAKY,
        lambda m: (
            setattr(m.functions[0].node[0].attribute[0], "type", AttributeProto.INT)
            or first_attribute(m).CopyFrom(helper.make_attribute("alpha", 1))
        ),
    ),
    "an attribute of type ints with floats": Case(
        "attribute-type",
        "g (float[N, M] x) => (y) { y = Transpose<perm = [1, 0]>(x) }",
        attribute(name="perm", type=AttributeProto.INTS, floats=[1.0, 0.0]),
    ),
    "an int and a string": Case("attribute-ambiguous", SOFTMAX, lambda m: setattr(first_attribute(m), "s", b"a")),
    "ints and floats": Case(
        "attribute-ambiguous",
        "g (float[N, M] x) => (y) { y = Transpose<perm = [1, 0]>(x) }",
        lambda m: first_attribute(m).floats.append(1.0),
    ),
    "a graph attribute without a graph": Case(
        "attribute-without-value", IF, lambda m: first_attribute(m).ClearField("g")
    ),
    "a type attribute without a type": Case(
        "attribute-without-value",
        "g () => (optional(float[N]) y) { y = Optional<type = float[N]>() }",
        lambda m: first_attribute(m).ClearField("tp"),
    ),
    "a sparse attribute without a tensor": Case(
        "attribute-without-value", CONSTANT, attribute(name="sparse_value", type=AttributeProto.SPARSE_TENSOR)
    ),
    "two attributes without names": Case(
        "attribute-without-name",
        RELU,
        lambda m: [first_node(m).attribute.add(type=AttributeProto.INT, i=1) for _ in range(2)],
    ),
    "an attribute thrice": Case(
        "duplicate-attribute",
        SOFTMAX,
        lambda m: [first_node(m).attribute.append(first_attribute(m)) for _ in range(2)],
    ),
    "an attribute twice in a branch": Case(
        "duplicate-attribute",
        IF.replace("Relu(x)", "Softmax<axis = 0>(x)"),
        lambda m: first_attribute(m).g.node[0].attribute.append(first_attribute(m).g.node[0].attribute[0]),
    ),
    "an unknown attribute in a branch": Case("unknown-attribute", IF.replace("Relu(x)", "Relu<slope = 1.0>(x)")),
    "an unknown attribute in a function": Case("unknown-attribute", CALL.replace("Relu(a)", "Relu<slope = 1.0>(a)")),
    "an attribute of a later version": Case(
        "unknown-attribute", "g (float[N, 2] x) => (y) { y = Softmax<axis = 0, stable = 1>(x) }"
    ),
    "an attribute of an earlier version": Case(
        "unknown-attribute", RELU.replace("Relu(", "Relu<consumed_inputs = [0]>(")
    ),
    "a reference within a branch outside functions": Case(
        "attribute-reference-outside-function", IF.replace("Relu(x)", "LeakyRelu<alpha: float = @slope>(x)")
    ),
    "no constant value": Case("missing-attribute", "g (float[N] x) => (y) { y = Cast(x) }"),
    "no body of a loop": Case("missing-attribute", LOOP, lambda m: first_node(m).attribute.pop()),
    "a list that is not UTF-8": Case(
        "invalid-utf8",
        'g () => (string[1] y) { y = Constant<value_strings = ["a"]>() }',
        lambda m: first_attribute(m).strings.__setitem__(0, b"\xc3"),
    ),
    # Arity and types
    "too many inputs of a sum of two": Case("input-count", RELU.replace("Relu(x)", "Mul(x, x, x)")),
    "no input": Case("input-count", RELU, lambda m: first_node(m).ClearField("input")),
    "more outputs than the operator has": Case("output-count", RELU, lambda m: first_node(m).output.extend(["p", "q"])),
    "an output of a call left away": Case(
        "node-without-outputs", CALL, lambda m: m.graph.node.add(op_type="f", domain="own")
    ),
    "a required output left out": Case(
        "missing-output",
        RELU.replace("y = R", "y = R"),
        lambda m: m.graph.node.add(op_type="Relu", input=["x"], output=[""]),
    ),
    "one of many operands left out": Case(
        "missing-input", RELU.replace("Relu(x", "Max(x, x, x"), lambda m: first_node(m).input.__setitem__(1, "")
    ),
    "the last of many operands left out": Case(
        "missing-input", RELU.replace("Relu(x", "Concat<axis = 0>(x"), lambda m: first_node(m).input.append("")
    ),
    "all operands of a sum left out": Case(
        "missing-input", RELU.replace("Relu(x)", "Sum(x)"), lambda m: first_node(m).input.__setitem__(0, "")
    ),
    "a negative bool": Case("type-constraint", "g (bool[N] x) => (bool[N] y) { y = Neg(x) }"),
    "strings where numbers belong": Case("type-constraint", "g (string[N] x) => (string[N] y) { y = Abs(x) }"),
    "a condition that is a number": Case("type-constraint", IF.replace("bool c", "float c")),
    "a map where a tensor belongs": Case("type-constraint", "g (map(int64, float) x) => (float[N] y) { y = Relu(x) }"),
    "indices that are floats": Case(
        "type-constraint", "g (float[N] x, float[N] i) => (float[N] y) { y = Gather(x, i) }"
    ),
    "a type that came in a later version": Case(
        "type-constraint",
        "g (bfloat16[N] x) => (bfloat16[N] y) { y = Relu(x) }",
        lambda m: setattr(m.opset_import[0], "version", 12),
    ),
    "branches that give another type than is declared": Case(
        "type-mismatch", RELU.replace("=> (float[N] y)", "=> (float16[N] y)")
    ),
    "two types in a selection": Case(
        "type-mismatch", "g (bool[N] c, float[N] x, int64[N] z) => (y) { y = Where(c, x, z) }"
    ),
    "two types in a variadic operator": Case("type-mismatch", "g (float[N] x, double[N] z) => (y) { y = Max(x, z) }"),
    "a value_info of another type": Case(
        "type-mismatch",
        "g (float[N] x) => (float[N] y) { z = Relu(x) y = Neg(z) }",
        lambda m: m.graph.value_info.append(helper.make_tensor_value_info("z", 11, ["N"])),
    ),
    # Subgraphs
    "a branch that returns too little": Case("subgraph-arity", IF.replace("y = If", "y, z = If")),
    "a branch with an input": Case("subgraph-arity", IF.replace("e ()", "e (bool k)")),
    "a loop body that takes too much": Case("subgraph-arity", LOOP.replace("float[N] s)", "float[N] s, float[N] s2)")),
    "a loop that returns too much": Case("subgraph-arity", LOOP.replace("y = Loop", "y, z = Loop")),
    "a loop body without inputs": Case(
        "subgraph-arity",
        LOOP.replace("int64 i, bool k, float[N] s", "")
        .replace("Identity(k)", "Identity(c)")
        .replace("Relu(s)", "Relu(x)"),
    ),
    "a scan body that takes too little": Case(
        "subgraph-arity",
        """g (float[N] s, float[T, N] x) => (float[N] f, float[T, N] y) {
             f, y = Scan <num_scan_inputs = 1, body = b (float[N] p) => (float[N] r, float[N] u) {
               r = Neg(p) u = Identity(r) }> (s, x) }""",
    ),
    "a map over sequences that takes too little": Case(
        "subgraph-arity",
        """g (seq(float[N]) s, seq(float[N]) r) => (seq(float[N]) y) {
             y = SequenceMap <body = b (float[N] p) => (float[N] q) { q = Neg(p) }> (s, r) }""",
    ),
}


def first_tensor() -> onnx.TensorProto:
    return helper.make_tensor("t", onnx.TensorProto.INT64, [1], [0])
