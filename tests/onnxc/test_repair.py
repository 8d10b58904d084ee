"""Models repaired: nodes put in order, names and imports given, the IR version raised; and what is none of that."""

from collections.abc import Callable

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, checker, helper

import onnxc
from tests.support.models import model_from_text

HEADER = '<ir_version: 10, opset_import: ["" : 21, "own" : 1]>'
FUNCTION = '<domain: "own", opset_import: ["" : 21]> f (h) => (r) { r = Add (n, h) n = Neg (m) m = Mul (h, h) }'
BRANCHES = """
g (float[N] x, bool c) => (float[N] y) {
   y = own.f (b)
   b = If (c) <then_branch = t () => (p) { p = Exp (k) k = Abs (late) },
               else_branch = e () => (q) { q = Identity (late) }>
   late = Add (x, one)
   one = Constant <value_float = 1.0> ()
}"""


YES = np.array(True)


def operators(made: ModelProto) -> list[str]:
    return [node.op_type for node in made.graph.node]


def test_every_graph_and_function_is_sorted() -> None:
    model = model_from_text(HEADER + BRANCHES + FUNCTION)
    assert {finding.code for finding in onnxc.check(model)} == {"not-topologically-sorted"}
    made = ModelProto.FromString(onnxc.repair(model).SerializeToString())
    checker.check_model(made, full_check=True)
    assert operators(made) == ["Constant", "Add", "If", "f"]
    assert [node.op_type for node in made.functions[0].node] == ["Mul", "Neg", "Add"]
    exe = onnxc.compile(made, target="interpreter")
    x = np.float32([-3, 0, 0.5])
    for condition, b in ((True, np.exp(np.abs(x + 1))), (False, x + 1)):
        np.testing.assert_allclose(exe(x, np.array(condition)), b - b * b, rtol=1e-6)


def test_what_is_in_order_stays_as_it_is() -> None:
    text = HEADER + "g (float[N] x) => (float[N] y) { b = Exp (x) unused = Neg (x) a = Abs (x) y = Add (a, b) }"
    model = model_from_text(text)
    assert onnxc.repair(model).SerializeToString() == model.SerializeToString()


def test_of_several_orders_it_is_the_nearest() -> None:
    text = HEADER + "g (float[N] x) => (float[N] y) { y = Add (a, b) b = Exp (x) z = Neg (b) a = Abs (x) }"
    assert operators(onnxc.repair(model_from_text(text))) == ["Exp", "Neg", "Abs", "Add"]


def test_a_circle_has_no_order() -> None:
    text = HEADER + "g (float[N] x) => (float[N] y) { y = Add (a, x) a = Exp (b) b = Neg (a) }"
    with pytest.raises(onnxc.ModelError, match="depends on itself") as caught:
        onnxc.repair(model_from_text(text))
    assert {finding.code for finding in caught.value.diagnostics} == {"cycle", "not-topologically-sorted"}


def test_graphs_get_names_those_within_too() -> None:
    model = onnxc.repair(model_from_text(HEADER + BRANCHES + FUNCTION))
    branches = [attribute.g for node in model.graph.node for attribute in node.attribute if attribute.HasField("g")]
    assert len(branches) == 2
    for graph in (model.graph, *branches):
        graph.ClearField("name")
    assert {finding.code for finding in onnxc.check(model)} == {"missing-graph-name"}
    made = onnxc.repair(model)
    assert onnxc.check(made) == ()
    assert operators(ModelProto.FromString(made.SerializeToString())) == ["Constant", "Add", "If", "f"]


@pytest.mark.parametrize("ir_version", [1, 2])
@pytest.mark.parametrize("is_input", [True, False])
def test_opsets_are_imported_from_ir_version_3_on(ir_version: int, is_input: bool) -> None:
    model = model_from_text(
        '<ir_version: 8, opset_import: ["" : 7]> g (float[2] x, float[1] w) => (float[2] y) { y = Add (x, w) }'
    )
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [1], [3]))
    model.ir_version = ir_version
    if not is_input:
        del model.graph.input[1]
    assert "unexpected-opset-import" in {finding.code for finding in onnxc.check(model)}
    made = onnxc.repair(model)
    assert onnxc.check(made) == ()
    assert made.ir_version == (3 if is_input else 4)
    with pytest.warns(onnxc.ModelWarning, match="opsets are imported|is no graph input"):
        exe = onnxc.compile(model, target="interpreter")
    np.testing.assert_array_equal(exe(np.float32([1, -1])), np.float32([4, 2]))


def test_initializers_are_no_inputs_from_ir_version_4_on() -> None:
    text = "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }"
    model = model_from_text('<ir_version: 3, opset_import: ["" : 9]>' + text)
    assert {finding.code for finding in onnxc.check(model)} == {"initializer-without-input"}
    made = onnxc.repair(model)
    assert made.ir_version == 4
    assert [info.name for info in made.graph.input] == ["x"]
    np.testing.assert_array_equal(
        onnxc.compile(made, "interpreter")(np.float32([5, 6])), np.float32([6, 8]), strict=True
    )


def test_an_operator_of_com_microsoft_has_its_import() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = com.microsoft.QuickGelu (x) }'
    model = model_from_text(text)
    assert {finding.code for finding in onnxc.check(model)} == {"missing-opset-import"}
    made = onnxc.repair(model)
    assert [(each.domain, each.version) for each in made.opset_import] == [("", 17), ("com.microsoft", 1)]
    assert onnxc.repair(made).SerializeToString() == made.SerializeToString()


@pytest.mark.parametrize(("kind", "shape"), [(10, [2]), (1, [3]), (1, [1, 2]), (1, None)])
def test_what_is_declared_of_an_initializer_and_is_wrong_goes(kind: int, shape: list[int] | None) -> None:
    text = HEADER + "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Mul (x, w) y = Neg (a) }"
    model = model_from_text(text)
    model.graph.value_info.append(helper.make_tensor_value_info("w", kind, shape))
    model.graph.value_info.append(helper.make_tensor_value_info("a", 1, [2]))
    made = onnxc.repair(model)
    assert [info.name for info in made.graph.value_info] == (["a"] if shape else ["w", "a"])
    assert onnxc.check(made) == ()


def test_an_input_with_a_default_of_another_type_is_an_error() -> None:
    text = HEADER + "g (float[2] x, float[2] w) => (float[2] y) { y = Mul (x, w) }"
    model = model_from_text(text)
    model.graph.initializer.append(helper.make_tensor("w", 1, [3], [1, 2, 3]))
    with pytest.raises(onnxc.ModelError, match="initializer-shape"):
        onnxc.compile(model)


CALLS = """
g (float[N] x) => (float[N] y, float[N] z) { y = own.outer <slope = 0.5> (x) z = own.outer (x) }
<domain: "own", opset_import: ["" : 21, "own" : 1]> outer <slope: float = 0.25> (h) => (r) {
    r = own.inner <s: float = @slope> (h)
}
<domain: "own", opset_import: ["" : 21]> inner <s> (h) => (r) { r = LeakyRelu <alpha: float = @s> (h) }
"""


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_attributes_get_the_type_of_their_value_or_of_what_they_refer_to(target: str) -> None:
    model = model_from_text(HEADER + CALLS)
    sound = model.SerializeToString()
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    for attribute in (attribute for node in nodes for attribute in node.attribute):
        attribute.ClearField("type")
    assert {finding.code for finding in onnxc.check(model)} == {"attribute-without-type"}
    assert onnxc.repair(model).SerializeToString() == sound
    with pytest.warns(onnxc.ModelWarning, match="attribute-without-type"):
        exe = onnxc.compile(model, target)
    y, z = exe(np.float32([-4, 2]))
    np.testing.assert_array_equal(y, np.float32([-2, 2]), strict=True)
    np.testing.assert_array_equal(z, np.float32([-1, 2]), strict=True)


def test_an_attribute_whose_type_nothing_tells_is_an_error() -> None:
    model = model_from_text(HEADER + "g (float[N] x) => (float[N] y) { y = Softmax <axis: int = 0> (x) }")
    model.graph.node[0].attribute[0].Clear()
    model.graph.node[0].attribute[0].name = "axis"
    with pytest.raises(onnxc.ModelError, match="has no type and no value"):
        onnxc.repair(model)


def test_what_cannot_be_repaired_is_told_of_the_model_as_it_was_read() -> None:
    model = model_from_text(HEADER + "g (float[N] x) => (float[N] y) { y = Softmax <axis: int = 0> (a) a = Exp (x) }")
    model.graph.node[0].attribute[0].Clear()
    model.graph.node[0].attribute[0].name = "axis"
    with pytest.raises(onnxc.ModelError, match="attribute-without-type") as caught:
        onnxc.compile(model)
    assert {finding.code for finding in caught.value.diagnostics} == {
        "attribute-without-type",
        "not-topologically-sorted",
    }


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_a_constant_with_the_name_of_an_input_is_its_default(target: str) -> None:
    text = (
        HEADER
        + """g (float[2] x, float[2] w) => (float[2] y) {
        y = Mul (x, w)
        w = Constant <value = float[2] {2, 3}> ()
    }"""
    )
    model = model_from_text(text)
    assert {finding.code for finding in onnxc.check(model)} == {"duplicate-name"}
    with pytest.warns(onnxc.ModelWarning, match="duplicate-name"):
        exe = onnxc.compile(model, target, freeze_params=False)
    x = np.float32([5, 7])
    np.testing.assert_array_equal(exe(x), np.float32([10, 21]), strict=True)
    np.testing.assert_array_equal(exe(x, np.float32([-1, 1])), np.float32([-5, 7]), strict=True)


def test_of_equal_constants_one_stays() -> None:
    text = (
        HEADER
        + """g (float[2] x, bool c) => (float[2] y) <float[2] w = {2, 3}, float[2] w = {2, 3}> {
        w = Constant <value = float[2] {2, 3}> ()
        k = Constant <value_float = 4.0> ()
        k = Constant <value_float = 4.0> ()
        a = Mul (x, w)
        y = If (c) <then_branch = t () => (p) <float[1] v = {1}, float[1] v = {1}> { p = Add (a, v) },
                    else_branch = e () => (q) { q = Add (a, k) }>
    }"""
    )
    model = model_from_text(text)
    # As it writes the initializer.
    model.graph.node[0].attribute[0].t.CopyFrom(model.graph.initializer[0])
    assert {finding.code for finding in onnxc.check(model)} == {"duplicate-name"}
    made = ModelProto.FromString(onnxc.repair(model).SerializeToString())
    checker.check_model(made, full_check=True)
    assert operators(made) == ["Constant", "Mul", "If"]
    exe = onnxc.compile(made, target="interpreter")
    np.testing.assert_array_equal(exe(np.float32([1, 2]), YES), np.float32([3, 7]), strict=True)
    np.testing.assert_array_equal(exe(np.float32([1, 2]), ~YES), np.float32([6, 10]), strict=True)


def test_constants_of_one_name_that_differ_are_an_error() -> None:
    text = HEADER + "g (float[2] x) => (float[2] y) <float[2] w = {2, 3}, float[2] w = {2, 4}> { y = Mul (x, w) }"
    with pytest.raises(onnxc.ModelError, match="duplicate-name"):
        onnxc.compile(model_from_text(text))


def test_annotations_of_tensors_that_are_gone_go() -> None:
    model = model_from_text(HEADER + "g (float[2] x) => (float[2] y) <float s = {0.5}> { y = Mul (x, s) }")
    for name in ("gone", "x", "lost", "y"):
        annotation = model.graph.quantization_annotation.add(tensor_name=name)
        annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    assert {finding.code for finding in onnxc.check(model)} == {"quantization-tensor"}
    made = onnxc.repair(model)
    assert [annotation.tensor_name for annotation in made.graph.quantization_annotation] == ["x", "y"]
    assert onnxc.check(made) == ()


def test_metadata_that_is_there_twice_alike_is_there_once() -> None:
    model = model_from_text(HEADER + "g (float[2] x) => (float[2] y) { y = Neg (x) }")
    for key, value in ("a", "1"), ("b", "1"), ("a", "1"), ("b", "1"), ("a", "1"):
        model.metadata_props.add(key=key, value=value)
    made = onnxc.repair(model)
    assert [(entry.key, entry.value) for entry in made.metadata_props] == [("a", "1"), ("b", "1")]
    assert onnxc.check(made) == ()
    model.metadata_props.add(key="a", value="2")
    with pytest.raises(onnxc.ModelError, match="duplicate-metadata"):
        onnxc.repair(model)


def test_other_errors_stay() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu (z) }'
    with pytest.raises(onnxc.ModelError) as caught:
        onnxc.repair(model_from_text(text))
    assert {finding.code for finding in caught.value.diagnostics} == {"undefined-name"}


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_a_model_that_can_be_repaired_is_compiled_with_a_warning(target: str) -> None:
    model = model_from_text(HEADER + BRANCHES + FUNCTION)
    x = np.float32([-3, 0, 0.5])
    with pytest.warns(onnxc.ModelWarning, match="not-topologically-sorted") as given:
        exe = onnxc.compile(model, target)
    assert len(given) == 1
    np.testing.assert_allclose(exe(x, YES), onnxc.compile(onnxc.repair(model), "interpreter")(x, YES), rtol=1e-6)
    with pytest.raises(onnxc.ModelError, match="onnxc repair"):
        onnxc.compile(model, target, strict=True)


def test_types_of_a_model_that_can_be_repaired_are_inferred() -> None:
    with pytest.warns(onnxc.ModelWarning, match="not-topologically-sorted"):
        made = onnxc.infer(model_from_text(HEADER + BRANCHES + FUNCTION))
    assert operators(made) == ["Constant", "Add", "If", "f"]
    assert {info.name for info in made.graph.value_info} >= {"late", "b", "one"}


REWRITES: dict[str, Callable[[ModelProto], object]] = {
    "convert_version": lambda model: onnxc.convert_version(model, 20),
    "extract": lambda model: onnxc.extract(model, ["y"]),
    "inline": onnxc.inline,
    "make_training": lambda model: onnxc.make_training(model, "output"),
    "merge": lambda model: onnxc.merge(model, onnxc.repair(onnxc.rename(model, prefix="b/")), {"y": "b/x"}),
    "rename": lambda model: onnxc.rename(model, {"late": "early"}),
    "shard": lambda model: onnxc.shard(model, dp=2),
    "split": lambda model: onnxc.split(model, ["late"])[0],
}


@pytest.mark.parametrize("rewrite", REWRITES.values(), ids=REWRITES)
def test_a_model_that_can_be_repaired_is_rewritten_with_a_warning(rewrite: Callable[[ModelProto], object]) -> None:
    text = HEADER + "g (float[N] x) => (float[N] y) <float[1] w = {2}> { y = Mul (late, w) late = Exp (x) }"
    with pytest.warns(onnxc.ModelWarning, match="not-topologically-sorted"):
        made = rewrite(model_from_text(text))
    assert not any(finding.severity == "error" for finding in onnxc.check(made))


def test_a_model_that_is_wrong_in_something_else_too_is_refused_for_all() -> None:
    text = HEADER + "g (float[N] x) => (float[N] y) { y = Add (a, missing) a = Exp (x) }"
    with pytest.raises(onnxc.ModelError) as caught:
        onnxc.compile(model_from_text(text))
    assert {finding.code for finding in caught.value.diagnostics} == {"undefined-name", "not-topologically-sorted"}


SHADOWS = """
g (float[N] x, bool c, bool d) => (float[N] y, float[N] a) {
    a = Neg (x)
    y = If (c) <then_branch = t () => (a) { a = Mul (x, x) },
                else_branch = e () => (p) {
                    a = Abs (x)
                    p = If (d) <then_branch = tt () => (a) { a = Exp (x) },
                                else_branch = ee () => (q) { a_1 = Add (a, x) q = Neg (a_1) }> }>
}"""


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_what_shadows_a_value_gets_a_name_of_its_own(target: str) -> None:
    model = model_from_text(HEADER + SHADOWS)
    assert {finding.code for finding in onnxc.check(model)} == {"shadowed-name"}
    made = onnxc.repair(model)
    assert onnxc.check(made) == ()
    exe = onnxc.compile(made, target)
    x = np.float32([-3, 0, 0.5])
    cases = {(True, True): x * x, (True, False): x * x, (False, True): np.exp(x), (False, False): -(np.abs(x) + x)}
    for (first, second), y in cases.items():
        results = exe(x, np.array(first), np.array(second))
        np.testing.assert_allclose(results[0], y, rtol=1e-6)
        np.testing.assert_array_equal(results[1], -x)


def test_the_inputs_of_a_body_may_shadow() -> None:
    text = """
    g (float[N] x, int64 n, bool c) => (float[N] y) {
        y = Loop (n, c, x) <body = b (int64 i, bool c, float[N] x) => (c, x_) { x_ = Add (x, x) }>
    }"""
    exe = onnxc.compile(onnxc.repair(model_from_text(HEADER + text)), "interpreter")
    np.testing.assert_array_equal(exe(np.float32([1, -2]), np.array(3), YES), np.float32([8, -16]), strict=True)


def test_a_name_that_a_nested_graph_uses_and_then_defines_is_in_doubt() -> None:
    text = """
    g (float[N] x, bool c) => (float[N] y) {
        a = Neg (x)
        y = If (c) <then_branch = t () => (a) { p = Exp (a) a = Mul (x, x) },
                    else_branch = e () => (q) { q = Abs (a) }>
    }"""
    with pytest.raises(onnxc.ModelError) as caught:
        onnxc.repair(model_from_text(HEADER + text))
    assert "shadowed-name" in {finding.code for finding in caught.value.diagnostics}
