"""Custom operators: each form of body, versions, scopes, artifacts, and what goes wrong with them."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

import onnxc
from onnxc.compiler.frontend.custom.face import GraphBuilder, OperatorCall, ResultType
from onnxc.compiler.frontend.custom.operators import CustomOperator
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.module import Value
from tests.support import host_functions
from tests.support.models import model_from_text

X = np.array([[-2, -0.5, 0, 3]], np.float32)
TARGETS = ("interpreter", "cpu")


def model(
    nodes: str = "y = my.ops.Swish <beta = 2.0> (x)", version: int = 1, result: str = "float[N, 4]"
) -> onnx.ModelProto:
    imports = f'"": 21, "my.ops": {version}'
    return model_from_text(
        f"<ir_version: 10, opset_import: [{imports}]> g (float[N, 4] x) => ({result} y) {{ {nodes} }}"
    )


def expected(beta: float = 2.0) -> np.ndarray:
    return host_functions.swish(X, beta)


def swish(node: OperatorCall, ir: GraphBuilder) -> Value:
    x = node.input("x")
    return ir.mul(x, ir.sigmoid(ir.mul(x, node.float("beta"))))


def same_type(node: OperatorCall) -> Sequence[ResultType]:
    x = node.input("x")
    return [(x.dtype, x.shape)]


FUNCTION = """<domain: "my.ops", opset_import: ["": 21]> Swish <beta: float = 1.0> (x) => (y) {
    b = Constant <value_float: float = @beta> ()
    scaled = Mul (b, x)
    gate = Sigmoid (scaled)
    y = Mul (x, gate)
}"""


def built(body: Callable[..., object] = swish, **options: object) -> CustomOperator:
    interface = {"inputs": ["x"], "outputs": ["y"], "attributes": {"beta": "float"}, "defaults": {"beta": 1}}
    return onnxc.custom_operator("Swish", "my.ops", build=body, **(interface | options))  # type: ignore[arg-type]


def on_host(host: Callable[..., object] | str, types: object = same_type, **options: object) -> CustomOperator:
    interface = {"inputs": ["x"], "outputs": ["y"], "attributes": {"beta?": "float"}}
    return onnxc.custom_operator("Swish", "my.ops", host=host, types=types, **(interface | options))  # type: ignore[arg-type]


def function(text: str = FUNCTION, since: int = 1) -> CustomOperator:
    return onnxc.custom_operator(function=onnx.parser.parse_function(text), since=since)


BODIES = {"function": function, "build": built, "host": lambda: on_host(host_functions.swish)}


# Bodies


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", BODIES)
def test_each_form_of_body_gives_what_it_means(form: str, target: str) -> None:
    exe = onnxc.compile(model(), target, operators=[BODIES[form]()])
    np.testing.assert_allclose(exe(X), expected(), rtol=1e-6)


@pytest.mark.parametrize("form", BODIES)
def test_the_types_of_its_results_are_inferred(form: str) -> None:
    inferred = onnxc.infer(model("h = my.ops.Swish <beta = 2.0> (x) y = Relu(h)"), operators=[BODIES[form]()])
    (info,) = inferred.graph.value_info
    dims = info.type.tensor_type.shape.dim
    assert (info.name, info.type.tensor_type.elem_type, dims[0].dim_param, dims[1].dim_value) == ("h", 1, "N", 4)
    assert len(inferred.functions) == 0


@pytest.mark.parametrize("form", BODIES)
def test_it_may_be_called_in_branches_and_functions(form: str) -> None:
    nodes = """two = Constant <value_int = 2> () n = Size(x) some = Less(two, n)
        h = If (some) <then_branch = t () => (a) { a = my.ops.Swish <beta = 2.0> (x) },
                       else_branch = e () => (b) { b = Identity(x) }>
        y = my.fns.Twice(h)"""
    text = f"""<ir_version: 10, opset_import: ["": 21, "my.ops": 1, "my.fns": 1]>
        g (float[N, 4] x) => (float[N, 4] y) {{ {nodes} }}
        <domain: "my.fns", opset_import: ["": 21, "my.ops": 1]>
        Twice (v) => (w) {{ u = my.ops.Swish <beta = 2.0> (v) w = Add(u, u) }}"""
    exe = onnxc.compile(model_from_text(text), operators=[BODIES[form]()])
    np.testing.assert_allclose(exe(X), 2 * host_functions.swish(expected(), 2.0), rtol=1e-5)


def test_attributes_that_a_node_leaves_out_have_their_default() -> None:
    exe = onnxc.compile(model("y = my.ops.Swish(x)"), operators=[built()])
    np.testing.assert_allclose(exe(X), expected(1.0), rtol=1e-6)


def test_a_function_calls_other_custom_operators() -> None:
    outer = """<domain: "my.ops", opset_import: ["": 21, "my.ops": 1]> Outer (x) => (y) {
        y = my.ops.Swish <beta = 2.0> (x) }"""
    calls = [function(outer), built()]
    np.testing.assert_allclose(onnxc.compile(model("y = my.ops.Outer(x)"), operators=calls)(X), expected(), rtol=1e-6)


def test_a_function_on_the_host_gets_what_the_node_has() -> None:
    operator = onnxc.custom_operator(
        "Describe",
        "my.ops",
        inputs=["first", "bias?"],
        outputs=["y"],
        attributes={"a": "int", "b": "floats", "c": "string", "d?": "ints", "e": "strings"},
        defaults={"e": ["s", "t"]},
        host=host_functions.describe_all,
        types=lambda node: [("string", ())],
    )
    nodes = 'y = my.ops.Describe <a = 3, b = [1.5, 2.0], c = "text"> (x)'
    exe = onnxc.compile(model(nodes, result="string"), operators=[operator])
    assert str(exe(X)) == "float32[1, 4]; no bias; a=3; b=(1.5, 2.0); c='text'; e=('s', 't')"


@pytest.mark.parametrize("target", TARGETS)
def test_sizes_that_only_the_call_decides_are_used_behind_it(target: str) -> None:
    operator = onnxc.custom_operator(
        "Positive",
        "my.ops",
        inputs=["x"],
        outputs=["kept", "count?"],
        host=host_functions.positive,
        types=lambda node: [(node.input("x").dtype, (None,)), (np.int64, ())],
    )
    exe = onnxc.compile(model("h = my.ops.Positive(x) y = Add(h, h)", result="float[K]"), target, operators=[operator])
    assert np.asarray(exe(np.array([[1, -1, 2, 3]], np.float32))).tolist() == [2, 4, 6]
    assert np.asarray(exe(-abs(X))).tolist() == []


@pytest.mark.parametrize("texts", [["a", "ü"], [["", "\n"], ["b", "c"]], "a", []])
def test_texts_in_a_tensor_come_to_a_function_on_the_host_in_an_artifact_too(texts: object, tmp_path: Path) -> None:
    operator = onnxc.custom_operator(
        "Describe",
        "my.ops",
        inputs=["first", "bias?"],
        outputs=["y"],
        attributes={"t": "tensor"},
        host=host_functions.describe_all,
        types=lambda node: [("string", ())],
    )
    made, array = model("y = my.ops.Describe (x)", result="string"), np.array(texts, object)
    made.graph.node[0].attribute.append(onnx.helper.make_attribute("t", onnx.numpy_helper.from_array(array)))
    onnxc.compile(made, operators=[operator]).save(tmp_path / "m.onnxc")
    exe = onnxc.load(tmp_path / "m.onnxc")
    assert str(exe(X)) == f"float32[1, 4]; no bias; t={array!r}"


def test_any_number_of_inputs_are_a_list_at_the_end() -> None:
    def total(node: OperatorCall, ir: GraphBuilder) -> Value:
        first, *rest = node.variadic()
        for value in rest:
            first = ir.add(first, value)
        return first

    operator = onnxc.custom_operator("Total", "my.ops", inputs=["xs..."], outputs=["y"], build=total)
    exe = onnxc.compile(model("y = my.ops.Total(x, x, x)"), operators=[operator])
    np.testing.assert_array_equal(exe(X), 3 * X)


def test_inputs_and_weights_cannot_be_changed_by_a_function_and_its_own_arrays_change_nothing() -> None:
    operator = onnxc.custom_operator(
        "Reuse", "my.ops", inputs=["x"], outputs=["y"], host=host_functions.reusing, types=same_type
    )
    text = (
        '<ir_version: 10, opset_import: ["": 21, "my.ops": 1]> g (float[3] x) => (float[3] y) { y = my.ops.Reuse(x) }'
    )
    exe = onnxc.compile(model_from_text(text), operators=[operator])
    first = np.asarray(exe(np.ones(3, np.float32)))
    exe(np.zeros(3, np.float32))
    assert first.tolist() == [1, 1, 1]
    writing = onnxc.compile(model("y = my.ops.Swish(x)"), operators=[on_host(host_functions.overwriting)])
    with pytest.raises(onnxc.InputError, match="read-only") as caught:
        writing(X)
    assert caught.value.code == "custom-operator-failed"


# Versions and scopes


@pytest.mark.parametrize(("version", "beta"), [(1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0)])
@pytest.mark.parametrize("form", ["function", "build"])
def test_the_newest_version_that_the_model_may_have_is_taken(form: str, version: int, beta: float) -> None:
    if form == "function":
        older, newer = function(), function(FUNCTION.replace("1.0", "2.0"), since=3)
    else:
        older, newer = built(), built(defaults={"beta": 2}, since=3)
    exe = onnxc.compile(model("y = my.ops.Swish(x)", version), operators=[newer, older])
    np.testing.assert_allclose(exe(X), expected(beta), rtol=1e-6)


def test_an_operator_that_is_newer_than_the_opset_is_an_error_with_its_version() -> None:
    (finding,) = onnxc.check(model(version=2), operators=[built(since=3)])
    assert finding.code == "operator-not-in-opset"
    assert "my.ops.Swish is new in opset 3, and opset 2 is imported" in finding.message


def test_an_operator_of_onnx_runtime_may_be_given_another_meaning() -> None:
    text = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
        g (float[N, 4] x) => (float[N, 4] y) { y = com.microsoft.Gelu(x) }"""
    operator = onnxc.custom_operator(
        "Gelu", "com.microsoft", inputs=["x"], outputs=["y"], build=lambda node, ir: ir.neg(node.input("x"))
    )
    np.testing.assert_array_equal(onnxc.compile(model_from_text(text), operators=[operator])(X), -X)


def test_a_function_of_the_model_goes_before_an_operator() -> None:
    own = model("y = my.ops.Swish(x)")
    own.functions.append(onnx.parser.parse_function(FUNCTION.replace("1.0", "3.0")))
    for operator in (built(), function()):
        np.testing.assert_allclose(onnxc.compile(own, operators=[operator])(X), expected(3.0), rtol=1e-6)


def test_registered_operators_are_seen_until_they_are_unregistered() -> None:
    with onnxc.register(built()) as registration:
        assert repr(registration) == "<Registration of my.ops.Swish-1>"
        np.testing.assert_allclose(onnxc.compile(model())(X), expected(), rtol=1e-6)
        # One that is given stands for it.
        other = built(lambda node, ir: ir.neg(node.input("x")))
        np.testing.assert_array_equal(onnxc.compile(model(), operators=[other])(X), -X)
        with pytest.raises(onnxc.InputError, match="two operators") as caught:
            onnxc.register(function())
        assert caught.value.code == "duplicate-custom-operator"
    registration.unregister()
    assert [finding.code for finding in onnxc.check(model())] == ["unknown-domain", "unsupported-node"]


def test_a_failed_block_unregisters_too() -> None:
    with pytest.raises(KeyboardInterrupt), onnxc.register(built()):
        raise KeyboardInterrupt
    assert [finding.code for finding in onnxc.check(model())] == ["unknown-domain", "unsupported-node"]


# Artifacts


@pytest.mark.parametrize("form", BODIES)
def test_an_artifact_has_it(form: str, tmp_path: Path) -> None:
    onnxc.compile(model(), operators=[BODIES[form]()]).save(tmp_path / "m.onnxc")
    np.testing.assert_allclose(onnxc.load(tmp_path / "m.onnxc")(X), expected(), rtol=1e-6)


def test_where_the_module_of_a_function_is_absent_loading_says_so(tmp_path: Path) -> None:
    (tmp_path / "plugin_of_a_test.py").write_text("def swish(x, beta):\n    return x\n")
    script = """import onnxc, onnx, sys
operator = onnxc.custom_operator("Swish", "my.ops", inputs=["x"], outputs=["y"], attributes={"beta": "float"},
    host="plugin_of_a_test:swish", types=lambda node: [("f32", node.input("x").shape)])
onnxc.compile("m.onnx", operators=[operator]).save("m.onnxc")"""
    onnx.save(model(), tmp_path / "m.onnx")
    root = str(Path(onnxc.__file__).parents[1])
    environment = {"PYTHONPATH": f"{root}:{tmp_path}"}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True)
    with pytest.raises(onnxc.DeviceError, match='"plugin_of_a_test:swish" of a custom operator') as caught:
        onnxc.load(tmp_path / "m.onnxc")
    assert caught.value.code == "custom-function-missing"


# What goes wrong


def failing(node: OperatorCall, ir: GraphBuilder) -> Value:
    raise RuntimeError("no such thing")


@pytest.mark.parametrize("dtype", ["f64", np.float64, np.dtype("float64")])
def test_a_body_names_element_types_as_numpy_or_we_do(dtype: object) -> None:
    def body(node: OperatorCall, ir: GraphBuilder) -> Value:
        return ir.add(ir.cast(node.input("x"), dtype), ir.full((1,), 1, dtype))

    (y,) = onnxc.compile(model(result="double[N, 4]"), operators=[built(body)]).run({"x": X}).values()
    assert (y.dtype, y.tolist()) == (np.float64, (X + 1.0).tolist())


def interrupted(node: OperatorCall, ir: GraphBuilder) -> Value:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (failing, "custom-operator-failed", "its body raised RuntimeError: no such thing"),
        (lambda node, ir: node.input("q"), "custom-operator-failed", "Swish has no input 'q', its inputs are x"),
        (lambda node, ir: node.int("beta"), "attribute-type", "attribute beta is not an integer"),
        (lambda node, ir: node.float("gamma"), "missing-attribute", "gamma"),
        (lambda node, ir: node.fail("too-bad", "it is so"), "too-bad", "it is so"),
        (lambda node, ir: None, "custom-operator-result", "its body gave NoneType as output 0"),
        (lambda node, ir: X, "custom-operator-result", "its body gave ndarray as output 0"),
        (lambda node, ir: (), "custom-operator-result", "its body gave 0 output(s), and the node has 1"),
        (lambda node, ir: ir.add(node.input("x"), ir.constant(np.ones(4))), "type-mismatch", "add"),
        (lambda node, ir: ir.reshape(node.input("x"), (-1, 3)), "reshape-elements", "cannot be reshaped"),
        (lambda node, ir: ir.slice_axis(node.input("x"), 1, 2, 3), "slice-range", "not all of the 3 elements from 2"),
        (lambda node, ir: ir.slice_axis(node.input("x"), 1, -1, 2), "slice-range", "from -1 by 1 of axis 1"),
        (lambda node, ir: ir.slice_axis(node.input("x"), 1, 1, 3, -1), "slice-range", "from 1 by -1"),
        (lambda node, ir: ir.slice_axis(node.input("x"), 1, 1, -1), "slice-range", "the -1 elements"),
        (lambda node, ir: ir.broadcast_to(node.input("x"), (2, 8)), "sizes-differ", "4 and 8"),
        (lambda node, ir: ir.squeeze(node.input("x"), [1]), "squeeze-size", "4 and 1"),
        (lambda node, ir: ir.transpose(node.input("x"), (0, 1, 2)), "type-mismatch", "transpose"),
        (lambda node: 1, "custom-operator-failed", "TypeError"),
        (
            lambda node, ir: ir.matmul(node.input("x"), ir.constant(np.ones((4, 2)))),
            "type-mismatch",
            "one element type",
        ),
        (lambda node, ir: ir.exp(ir.cast(node.input("x"), "i64")), "type-mismatch", "exp takes floats"),
        (lambda node, ir: ir.not_(node.input("x")), "type-mismatch", "not takes integers or truth values"),
        (lambda node, ir: ir.neg(ir.less(node.input("x"), 1)), "type-mismatch", "neg takes numbers"),
        (lambda node, ir: ir.add(1, 2), "custom-operator-failed", "of 1, 2 none is a value of the builder"),
        (
            lambda node, ir: ir.add(node.input("x"), None),
            "custom-operator-failed",
            "neither a value of the builder nor",
        ),
        (lambda node, ir: ir.add(ir.cast(node.input("x"), "i8"), 1.5), "custom-operator-failed", "1.5 is no i8"),
        (lambda node, ir: ir.cast(node.input("x"), "f31"), "custom-operator-failed", "'f31' is no element type"),
    ],
)
def test_what_is_wrong_in_a_body_is_a_finding_at_the_node(body: Callable[..., object], code: str, message: str) -> None:
    nodes = "h = Relu(x) y = my.ops.Swish(h)"
    (finding,) = onnxc.check(model(nodes), operators=[built(body)])
    assert (finding.code, finding.severity) == (code, "error")
    assert message in finding.message
    assert finding.location is not None
    assert (finding.location.index, finding.location.operator) == (1, "my.ops.Swish-1")
    with pytest.raises(onnxc.ModelError) as caught:
        onnxc.compile(model(nodes), operators=[built(body)])
    assert caught.value.code == code


def half(node: OperatorCall, ir: GraphBuilder) -> Value:
    x = node.input("x")
    return ir.slice_axis(x, 0, 1, x.shape[0] - 3)


@pytest.mark.parametrize(
    ("body", "fits", "rows"),
    [
        (lambda node, ir: ir.reshape(node.input("x"), (2, 8)), 4, 3),
        (lambda node, ir: ir.broadcast_to(node.input("x"), (5, 4)), 5, 3),
        (lambda node, ir: ir.slice_axis(node.input("x"), 0, 1, 4), 5, 4),
        (half, 3, 2),
    ],
)
@pytest.mark.parametrize("target", TARGETS)
def test_what_only_the_sizes_of_a_call_tell_is_checked_there(
    body: Callable[..., object], fits: int, rows: int, target: str
) -> None:
    exe = onnxc.compile(model("y = my.ops.Swish(x)", result="float[M, K]"), target, operators=[built(body)])
    assert np.asarray(exe(np.ones((fits, 4), np.float32))).ndim == 2
    with pytest.raises(onnxc.InputError, match="node 0") as caught:
        exe(np.ones((rows, 4), np.float32))
    assert caught.value.code == "sizes-disagree"


def test_a_value_of_another_compilation_is_not_used() -> None:
    kept: list[Value] = []

    def body(node: OperatorCall, ir: GraphBuilder) -> Value:
        kept.append(node.input("x"))
        return ir.neg(kept[0])

    onnxc.compile(model(), operators=[built(body)])
    with pytest.raises(onnxc.ModelError, match="of another compilation") as caught:
        onnxc.compile(model(), operators=[built(body)])
    assert caught.value.code == "custom-operator-result"


def test_an_interrupt_in_a_body_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        onnxc.compile(model(), operators=[built(interrupted)])


@pytest.mark.parametrize(
    ("types", "code", "message"),
    [
        (lambda node: None, "custom-operator-result", "gave NoneType"),
        (lambda node: "f32", "custom-operator-result", "gave str"),
        (lambda node: [], "custom-operator-result", "gave 0 output(s)"),
        (lambda node: ["f32"], "custom-operator-result", "gave 'f32' for output 0"),
        (lambda node: [("f31", ())], "custom-operator-result", "gave 'f31' as the element type"),
        (lambda node: [("f32", (1.5,))], "custom-operator-result", "gave 1.5 as a size"),
        (lambda node: [("f32", (-1,))], "custom-operator-result", "gave -1 as a size"),
        (lambda node: [("f32", (True,))], "custom-operator-result", "gave True as a size"),
        (lambda node: [("f32", "N")], "custom-operator-result", "gave 'N' as a size"),
        (lambda node: [("f32", 4)], "custom-operator-result", "for output 0"),
        (lambda node: 1 / 0, "custom-operator-failed", "its rule of types raised ZeroDivisionError"),
        (
            lambda node: [("f32", (Size.symbol("Q"), 4))],
            "custom-operator-result",
            "sizes that no input of the node has",
        ),
        (lambda node: [("f64", node.input("x").shape)], "declared-type", "the element types differ"),
    ],
)
def test_what_is_wrong_in_a_rule_is_a_finding_at_the_node(types: object, code: str, message: str) -> None:
    (finding,) = onnxc.check(model(), operators=[on_host(host_functions.swish, types)])
    assert (finding.code, finding.severity) == (code, "error")
    assert message in finding.message
    assert finding.location is not None
    assert finding.location.index == 0


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("as_double", "custom-operator-result", "is float64[1, 4], its rule of types says float32[1, 4]"),
        ("flat", "custom-operator-result", "is float32[4], its rule"),
        ("shorter", "custom-operator-result", "is float32[0, 4], its rule"),
        ("two", "custom-operator-result", "gave 2 results, its rule of types says 1"),
        ("nothing", "custom-operator-result", "is of type NoneType"),
        ("failing", "custom-operator-failed", "raised RuntimeError: the sensor is off"),
    ],
)
def test_what_a_function_on_the_host_does_wrong_names_it_and_the_node(
    name: str, code: str, message: str, target: str
) -> None:
    operator = on_host(f"tests.support.host_functions:{name}")
    exe = onnxc.compile(model("y = my.ops.Swish(x)"), target, operators=[operator])
    with pytest.raises(onnxc.InputError) as caught:
        exe(X)
    assert caught.value.code == code
    assert message in str(caught.value)
    assert f"tests.support.host_functions:{name}" in str(caught.value)
    assert 'graph "main", node 0 (my.ops.Swish-1)' in str(caught.value)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module_anywhere:f", "ModuleNotFoundError"),
        ("tests.support.host_functions:absent", "AttributeError"),
        ("tests.support.host_functions:NOT_CALLABLE", "is of type int"),
    ],
)
def test_a_path_that_leads_to_no_function(path: str, message: str) -> None:
    with pytest.raises(onnxc.DeviceError, match=message) as caught:
        onnxc.compile(model(), operators=[on_host(path)])
    assert caught.value.code == "custom-function-missing"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": ""}, "expected two texts"),
        ({"domain": "ai.onnx"}, "that of the standard"),
        ({"domain": ""}, "that of the standard"),
        ({"since": 0}, "since is 0"),
        ({"since": True}, "since is True"),
        ({"build": None}, "one body"),
        ({"host": "a:b", "types": same_type}, "one body"),
        ({"types": same_type}, "types= is for host="),
        ({"build": 5}, "build is 5, expected a function"),
        ({"build": None, "host": "a:b"}, "types= is for host="),
        ({"build": None, "host": "a.b", "types": same_type}, "expected a path"),
        ({"build": None, "host": "a:b", "types": 3}, "types is 3, expected a function"),
        ({"build": None, "host": lambda x: x, "types": same_type}, "define it at the top of a module"),
        ({"build": None, "host": 3, "types": same_type}, "host is 3, expected a function"),
        ({"outputs": []}, "has no output"),
        ({"inputs": "x"}, "expected a sequence of names"),
        ({"inputs": ["x!"]}, "expected a name"),
        ({"inputs": [3]}, "expected a name"),
        ({"inputs": ["x", "x?"]}, "names one twice"),
        ({"inputs": ["x...", "y"]}, "not the last"),
        ({"attributes": {"a": "integer"}}, "of kind 'integer'"),
        ({"attributes": {"a...": "int"}}, "expected a name"),
        ({"attributes": ["a"]}, "are mappings"),
        ({"attributes": {"a": "int"}, "defaults": {"b": 1}}, "defaults names 'b'"),
        ({"attributes": {"a": "int"}, "defaults": {"a": 1.5}}, "not of kind int"),
        ({"attributes": {"a": "ints"}, "defaults": {"a": 1}}, "not of kind ints"),
        ({"attributes": {"a": "float"}, "defaults": {"a": True}}, "not of kind float"),
        ({"attributes": {"a": "int"}, "defaults": {"a": 1 << 63}}, "not of kind int"),
        ({"attributes": {"a": "ints"}, "defaults": {"a": [-(1 << 63) - 1]}}, "not of kind ints"),
        ({"attributes": {"a": "float"}, "defaults": {"a": 1 << 2000}}, "not of kind float"),
        ({"attributes": {"a": "tensor"}, "defaults": {"a": np.ones(2)}}, 'no defaults: declare it as "a?"'),
        ({"function": onnx.parser.parse_function(FUNCTION)}, "one body"),
    ],
)
def test_declarations_that_cannot_be(options: dict[str, object], message: str) -> None:
    interface: dict[str, object] = {"name": "Op", "domain": "my.ops", "inputs": ["x"], "outputs": ["y"], "build": swish}
    with pytest.raises(onnxc.InputError) as caught:
        onnxc.custom_operator(**(interface | options))  # type: ignore[arg-type]
    assert caught.value.code == "custom-operator"
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"function": b"Swish"}, "expected a FunctionProto"),
        ({"name": "Other"}, "has the name 'Swish', and 'Other' is given"),
        ({"domain": "other"}, "has the domain 'my.ops'"),
        ({"inputs": ["x"]}, "says its inputs"),
        ({"function": onnx.FunctionProto(name="F")}, "has no domain"),
        ({"function": onnx.FunctionProto(name="F", domain="d", overload="o")}, "overload"),
    ],
)
def test_functions_that_cannot_be(options: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"function": onnx.parser.parse_function(FUNCTION)}
    with pytest.raises(onnxc.InputError) as caught:
        onnxc.custom_operator(**(given | options))  # type: ignore[arg-type]
    assert caught.value.code == "custom-operator"
    assert message in str(caught.value)


@pytest.mark.parametrize(("operators", "code"), [(5, "option-type"), (["Swish"], "custom-operator")])
def test_operators_that_are_none(operators: object, code: str) -> None:
    with pytest.raises(onnxc.InputError) as caught:
        onnxc.compile(model(), operators=operators)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_nodes_are_held_against_the_interface() -> None:
    nodes = "a = my.ops.Swish(x, x) b = my.ops.Swish <beta = 2> (x) c = my.ops.Swish <gamma = 2> (x) y = Sum(a, b, c)"
    codes = [finding.code for finding in onnxc.check(model(nodes), operators=[built()])]
    assert codes == ["input-count", "attribute-type", "unknown-attribute"]
