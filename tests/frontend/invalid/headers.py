"""What is wrong with a model as a whole: versions, opsets, metadata."""

from onnx import helper

from tests.frontend.invalid.case import Case, Cases, ir_version
from tests.frontend.model_texts import ADD, CALL, IF, RELU, first_attribute, first_node, setting

SCALER = "g (float[N, 3] x) => (float[N, 3] y) { y = ai.onnx.ml.Scaler(x) }"

HEADERS: Cases = {
    "a negative IR version": Case("missing-ir-version", RELU, setting("ir_version", -1)),
    "the IR version after the newest": Case("unsupported-ir-version", RELU, setting("ir_version", 2**40)),
    "opsets before they were": Case("unexpected-opset-import", RELU, setting("ir_version", 2)),
    "opsets in the first version": Case("unexpected-opset-import", RELU, setting("ir_version", 1)),
    "only another domain imported": Case("missing-opset-import", RELU, lambda m: m.opset_import.pop(0)),
    "no import of a function's domain": Case("missing-opset-import", CALL, lambda m: m.opset_import.pop()),
    "no import of a function's domain in another function": Case(
        "missing-opset-import",
        CALL.replace("b = Relu(a)", "b = own.h(a)").replace(
            'opset_import: ["": 21, "own": 1]> f', 'opset_import: ["": 21]> f'
        )
        + '<domain: "own", opset_import: ["": 21, "own": 1]> h (a) => (b) { b = Relu(a) }',
    ),
    "opset 0": Case("unsupported-opset-version", RELU, lambda m: setattr(m.opset_import[0], "version", 0)),
    "a negative opset": Case("unsupported-opset-version", RELU, lambda m: setattr(m.opset_import[0], "version", -3)),
    "an ai.onnx.ml of the future": Case(
        "unsupported-opset-version", SCALER, lambda m: m.opset_import.add(domain="ai.onnx.ml", version=99)
    ),
    "an opset of more than 31 bits": Case(
        "opset-version-range", RELU, lambda m: setattr(m.opset_import[1], "version", 1 << 31)
    ),
    "a negative opset of an own domain": Case(
        "opset-version-range", RELU, lambda m: setattr(m.opset_import[1], "version", -1)
    ),
    "an own domain in two versions": Case(
        "duplicate-opset-import", RELU, lambda m: m.opset_import.add(domain="own", version=2)
    ),
    "the default domain under both names": Case(
        "duplicate-opset-import", RELU, lambda m: m.opset_import.insert(0, helper.make_opsetid("ai.onnx", 20))
    ),
    "one domain in two versions in a function": Case(
        "duplicate-opset-import", CALL, lambda m: m.functions[0].opset_import.add(domain="", version=20)
    ),
    "one key of the metadata twice": Case(
        "duplicate-metadata", RELU, lambda m: [m.metadata_props.add(key="a", value=str(i)) for i in range(2)]
    ),
    "one key of the metadata thrice": Case(
        "duplicate-metadata", RELU, lambda m: [m.metadata_props.add(key="author", value="me") for _ in range(3)]
    ),
    "a graph without a name": Case("missing-graph-name", RELU, lambda m: m.graph.ClearField("name")),
    "a graph of nothing": Case("missing-graph-name", RELU, lambda m: [m.ClearField("graph"), m.graph.SetInParent()]),
    "a branch without a name": Case("missing-graph-name", IF, lambda m: first_attribute(m).g.ClearField("name")),
    "an operator before its opset": Case(
        "operator-not-in-opset", "g (float[N] x) => (float[N] y) { y = Gelu(x) }", None, ir_version(10, 19)
    ),
    "an experimental operator that was removed": Case(
        "unknown-operator", 'g (float[N] x) => (float[N] y) { y = ATen<operator = "relu">(x) }', None, ir_version(3, 1)
    ),
    "an operator in the wrong domain": Case(
        "unknown-operator",
        "g (float[N] x) => (float[N] y) { y = ai.onnx.ml.Relu(x) }",
        lambda m: m.opset_import.add(domain="ai.onnx.ml", version=3),
    ),
    "an operator of ai.onnx.ml in the default domain": Case(
        "unknown-operator", "g (float[N, 3] x) => (float[N, 3] y) { y = Scaler(x) }"
    ),
    "a domain with a capital": Case("unknown-domain", RELU, lambda m: setattr(first_node(m), "domain", "AI.ONNX")),
    "an operator of another runtime that is not imported": Case(
        "unknown-domain", "g (float[N] x) => (float[N] y) { y = com.other.FastGelu(x) }"
    ),
    "initializers that are no inputs before IR version 4": Case("initializer-without-input", ADD, None, ir_version(3)),
    "a sparse initializer that is no input before IR version 4": Case(
        "initializer-without-input",
        RELU,
        lambda m: m.graph.sparse_initializer.add(
            values=helper.make_tensor("s", 1, [1], [2.0]), indices=helper.make_tensor("i", 7, [1], [0]), dims=[3]
        ),
        ir_version(3),
    ),
}
