"""Models in other versions of ai.onnx: they compute what they computed, or the node that cannot is named."""

import numpy as np
import pytest
from onnx import ModelProto, checker, helper, numpy_helper

import onnxc
from onnxc.compiler.frontend.schemas import versions
from onnxc.compiler.frontend.versions.downward import DOWNWARD
from onnxc.compiler.frontend.versions.upward import UPWARD
from onnxc.runtime.errors import InputError, ModelError
from tests.conformance.cases import Case, all_cases
from tests.conformance.versions import TARGETS, attempts, opset_of
from tests.onnxc.test_kept_fields import full_model
from tests.support.models import model_from_text

CASES = [case for case in all_cases() if case.kind != "real"][7::90]
CASES = [case for case in CASES if opset_of(case.load()[0]) is not None]


def convert(text: str, opset: int) -> ModelProto:
    return convert_model(model_from_text(text), opset)


def convert_model(model: ModelProto, opset: int) -> ModelProto:
    converted = ModelProto.FromString(onnxc.convert_version(model, opset).SerializeToString())
    checker.check_model(converted)
    return converted


def run(model: object, *inputs: np.ndarray) -> list[np.ndarray]:
    outputs = onnxc.compile(model, target="interpreter")(*inputs)  # type: ignore[arg-type]
    return list(outputs) if isinstance(outputs, tuple) else [outputs]  # type: ignore[list-item]


def operators(model: ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_official_cases_compute_what_they_computed(case: Case) -> None:
    found = [*attempts(case, TARGETS)]
    assert not [attempt for attempt in found if attempt.status == "flagged"]
    assert any(attempt.status == "same" for attempt in found)


X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("version", "node", "target", "expected"),
    [
        (6, "Add <broadcast = 1, axis = 1> (x, b)", 14, ["Constant", "Unsqueeze", "Add"]),
        (6, "Clip <min = -1.0> (x)", 11, ["Constant", "Constant", "Clip"]),
        (9, "Slice <starts = [1], ends = [3], axes = [2]> (x)", 10, ["Constant", "Constant", "Constant", "Slice"]),
        (11, "Softmax <axis = 1> (x)", 13, ["Shape", "Flatten", "Softmax", "Reshape"]),
        (11, "Softmax <axis = 2> (x)", 13, ["Softmax"]),
        (11, "ReduceSum <axes = [1], keepdims = 0> (x)", 28, ["Constant", "ReduceSum"]),
        (11, "Squeeze (x)", 28, ["Squeeze"]),
        (10, "Dropout (x)", 28, ["Constant", "Dropout"]),
        (9, "Pad <pads = [0, 0, 0, 0, 0, 1], value = 2.0> (x)", 20, ["Constant", "Constant", "Pad"]),
        (1, "Relu <consumed_inputs = [0]> (x)", 28, ["Relu"]),
        (1, 'Cast <to = "DOUBLE"> (x)', 28, ["Cast"]),
        (7, "Upsample <scales = [1.0, 2.0, 2.0]> (x)", 28, ["Constant", "Constant", "Resize"]),
        (13, "Softmax <axis = 1> (x)", 11, ["Transpose", "Softmax", "Transpose"]),
        (13, "Softmax (x)", 1, ["Softmax"]),
        (18, "ReduceMax (x)", 1, ["ReduceMax"]),
        (16, "GreaterOrEqual (x, b4)", 11, ["Greater", "Equal", "Or"]),
        (14, "Add (x, b4)", 6, ["Add"]),
        (13, "Flatten <axis = -2> (x)", 9, ["Flatten"]),
        (28, "Constant <value_floats = [1.0, 2.0]> ()", 1, ["Constant"]),
    ],
)
def test_a_node_is_said_in_the_words_of_the_other_version(
    version: int, node: str, target: int, expected: list[str]
) -> None:
    ir = 3 if version < 8 else 8
    text = f"""<ir_version: {ir}, opset_import: ["" : {version}]>
    g (float[2, 3, 4] x, float[3] b, float[4] b4) => (y) {{ y = {node} }}"""
    model = model_from_text(text)
    del model.graph.output[0]
    model.graph.output.append(
        ModelProto.FromString(onnxc.infer(model_from_text(text)).SerializeToString()).graph.output[0]
    )
    converted = ModelProto.FromString(onnxc.convert_version(model, target).SerializeToString())
    assert operators(converted) == expected
    inputs = (X, np.float32([1, 2, 3]), np.float32([-1, 0, 1, 2]))
    for before, after in zip(run(model, *inputs), run(converted, *inputs), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-6)


@pytest.mark.parametrize("sizes", ["2, 3, 4", "L, M, N"])
@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ([0, 1, 2], ["Sub"]),
        ([1, 2], ["Squeeze", "Sub"]),
        ([0], ["Squeeze", "Sub"]),
        ([1], ["Squeeze", "Sub"]),
        ([0, 1], ["Squeeze", "Sub"]),
        ([], ["Sub"]),
    ],
)
def test_one_operand_is_laid_along_axes_of_the_other(sizes: str, axes: list[int], expected: list[str]) -> None:
    named = dict(enumerate(sizes.split(", ")))
    shape = ", ".join(named[axis] if axis in axes else "1" for axis in range(3))
    model = model_from_text(f"""<ir_version: 8, opset_import: ["" : 14]>
    g (float[{sizes}] x, float[{shape}] b) => (float[{sizes}] y) {{ y = Sub (x, b) }}""")
    converted = ModelProto.FromString(onnxc.convert_version(model, 6).SerializeToString())
    assert operators(converted) == expected
    b = X[tuple(slice(None) if axis in axes else slice(1, 2) for axis in range(3))]
    for before, after in zip(run(model, X, b), run(converted, X, b), strict=True):
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("batch", ["2", "N"])
def test_columns_first_are_depth_first_of_other_channels(batch: str) -> None:
    model = model_from_text(f"""<ir_version: 8, opset_import: ["" : 13]>
    g (float[{batch}, 8, H, 3] x) => (float[n, 2, h, 6] y)
    {{ y = DepthToSpace <blocksize = 2, mode = "CRD"> (x) }}""")
    converted = ModelProto.FromString(onnxc.convert_version(model, 10).SerializeToString())
    assert operators(converted) == ["Constant", "Gather", "DepthToSpace"]
    x = np.arange(2 * 8 * 2 * 3, dtype=np.float32).reshape(2, 8, 2, 3)
    np.testing.assert_array_equal(run(converted, x)[0], run(model, x)[0])


def test_columns_first_of_unknown_channels_cannot_be_said() -> None:
    model = model_from_text("""<ir_version: 8, opset_import: ["" : 13]> g (float[N, C, H, W] x) => (float[n, c, h, w] y)
    { y = DepthToSpace <blocksize = 2, mode = "CRD"> (x) }""")
    with pytest.raises(ModelError, match="the number of its channels is not known"):
        onnxc.convert_version(model, 10)


@pytest.mark.parametrize("operator", ["Add", "Mul"])
@pytest.mark.parametrize(("shape", "expected"), [((4,), []), ((3, 1), ["Squeeze"]), ((2, 1, 1), ["Squeeze"]), ((), [])])
def test_operands_change_places_where_that_makes_no_difference(
    operator: str, shape: tuple[int, ...], expected: list[str]
) -> None:
    declared = f"[{', '.join(map(str, shape))}]" if shape else ""
    model = model_from_text(f"""<ir_version: 8, opset_import: ["" : 14]>
    g (float{declared} b, float[2, 3, 4] x) => (float[2, 3, 4] y) {{ y = {operator} (b, x) }}""")
    converted = ModelProto.FromString(onnxc.convert_version(model, 6).SerializeToString())
    assert operators(converted) == [*expected, operator]
    b, x = np.ones(shape, np.float32) * 3, np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(run(converted, b, x)[0], run(model, b, x)[0], strict=True)


@pytest.mark.parametrize(
    ("version", "node", "target", "message"),
    [
        (13, "NonZero (i)", 8, "opset 8 cannot say this NonZero: the operator is new in opset 9"),
        (28, "ReduceSum (x, axes)", 12, "its input axes is not constant"),
        (16, "Sub (column, x)", 6, "its inputs broadcast in a way that is new in opset 7: [2, 1] and [2, 3]"),
        (18, 'ScatterElements <reduction = "mul"> (x, i, x)', 15, "it has no attribute reduction, which is mul here"),
        (21, "Cast <to = 16> (x)", 12, "its output y is tensor(bfloat16), which ai.onnx.Cast-9 does not know"),
        (10, "OneHot (i, axes, v)", 11, "a negative index was none of the classes"),
        (6, "Dropout (x)", 7, "it is a step of training, is_test is 0"),
    ],
)
def test_what_cannot_be_said_names_the_node(version: int, node: str, target: int, message: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : {version}]>
    g (float[2, 3] x, float[2, 1] column, int64[1] axes, int64[2, 3] i, float[2] v) => (y) {{ [n] y = {node} }}"""
    with pytest.raises(ModelError, match="opset-conversion") as caught:
        onnxc.convert_version(model_from_text(text), target)
    assert message in str(caught.value)
    assert 'graph "main", node 0 "n"' in str(caught.value)


def test_graphs_in_nodes_and_functions_are_converted_each_from_its_version() -> None:
    text = """<ir_version: 8, opset_import: ["" : 11, "own" : 1]>
    g (float[2, 3] x, bool c) => (float[2, 1] y) {
       z = own.f <k = [1]> (x)
       y = If (c) <then_branch = t () => (float[2, 1] a) { a = ReduceSum <axes = [1]> (x) },
                   else_branch = e () => (b) { b = Identity (z) }>
    }
    <domain: "own", opset_import: ["" : 12]> f <k> (h) => (r) { r = ReduceSum <axes: ints = @k> (h) }"""
    converted = convert(text, 21)
    assert [opset.version for opset in converted.functions[0].opset_import] == [21]
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    for choice in (True, False):
        np.testing.assert_array_equal(run(converted, x, np.array(choice))[0], np.float32([[6], [15]]))


def test_what_a_function_is_given_has_the_type_of_values_around_the_call() -> None:
    text = """<ir_version: 8, opset_import: ["" : 18, "own" : 1]>
    g (float[2, 4] x, bool c) => (float[2, 2] y) {
       y = If (c) <then_branch = t () => (float[2, 2] a) { a = own.f (x, c) },
                   else_branch = e () => (float[2, 2] b) { b = own.f (x, c) }>
    }
    <domain: "own", opset_import: ["" : 18]> f (h, c) => (r) {
       r = If (c) <then_branch = t () => (p) { p, q = Split <axis = -1, num_outputs = 2> (h) },
                   else_branch = e () => (v) { u, v = Split <axis = -1, num_outputs = 2> (h) }> }"""
    converted = convert(text, 13)
    x = np.float32([[1, 2, 3, 4], [5, 6, 7, 8]])
    np.testing.assert_array_equal(run(converted, x, np.array(True))[0], x[:, :2])
    np.testing.assert_array_equal(run(converted, x, np.array(False))[0], x[:, 2:])


def test_all_else_that_the_model_carries_is_kept() -> None:
    model = full_model()
    converted = ModelProto.FromString(onnxc.convert_version(model, 28).SerializeToString())
    for imports in (converted.opset_import, converted.functions[0].opset_import):
        imports[0].version = 21
    assert converted == model


@pytest.mark.parametrize("shape", [[7, 7], [4], []])
def test_shapes_that_values_have_not_are_corrected(shape: list[int]) -> None:
    text = """<ir_version: 10, opset_import: ["" : 11, "own" : 1]> g (float[1, N, 3] x, bool c) => (float[K, 3] y) {
        h = Squeeze <axes = [0]> (x)
        k = Relu (h)
        y = If (c) <then_branch = t () => (float[K, 3] a) { p = Neg (k) a = Neg (p) },
                    else_branch = e () => (float[L, 3] b) { b = own.f (k) }>
    }
    <domain: "own", opset_import: ["" : 11]> f (v) => (w) { r = Abs (v) w = Neg (r) }"""
    model = model_from_text(text)
    holders = (model.graph, model.graph.node[2].attribute[0].g, model.functions[0])
    for holder, name in zip(holders, ("h", "p", "r"), strict=True):
        holder.value_info.append(helper.make_tensor_value_info(name, 1, shape))
    model.graph.value_info.append(helper.make_tensor_value_info("k", 1, ["M", 3]))
    converted = convert_model(model, 13)
    branch = next(attribute.g for attribute in converted.graph.node[-1].attribute if attribute.name == "then_branch")
    found = [
        holder.value_info[0].type.tensor_type.shape.dim for holder in (converted.graph, branch, converted.functions[0])
    ]
    assert [(len(sizes), sizes[1].dim_value) for sizes in found] == [(2, 3)] * 3
    assert [size.dim_param for size in converted.graph.value_info[1].type.tensor_type.shape.dim] == ["M", ""]


def test_a_model_that_imports_nothing_is_one_of_opset_1() -> None:
    x, y = (helper.make_tensor_value_info(name, 1, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    model = ModelProto(ir_version=1, graph=graph)
    converted = ModelProto.FromString(onnxc.convert_version(model, 28).SerializeToString())
    assert (converted.ir_version, [(o.domain, o.version) for o in converted.opset_import]) == (3, [("", 28)])


def test_weights_that_are_inputs_are_not_taken_for_constants() -> None:
    axes = numpy_helper.from_array(np.array([1]), "axes")
    model = model_from_text(
        '<ir_version: 8, opset_import: ["" : 18]> g (float[2, 3] x, int64[1] axes) => (float[2, 1] y)'
        "{ y = ReduceSum (x, axes) }"
    )
    model.graph.initializer.append(axes)
    with pytest.raises(ModelError, match="its input axes is not constant"):
        onnxc.convert_version(model, 11)


@pytest.mark.parametrize(("opset", "code"), [(0, "opset-range"), (99, "opset-range"), ("9", "option-type")])
def test_an_opset_that_there_is_not_is_the_callers_error(opset: int, code: str) -> None:
    with pytest.raises(InputError, match=code):
        onnxc.convert_version(full_model(), opset)


@pytest.mark.parametrize("table", [UPWARD, DOWNWARD])
def test_every_adapter_is_for_a_change_that_there_was(table: object) -> None:
    assert [key for key in table if key[1] not in versions("", key[0])] == []  # type: ignore[attr-defined]


def scan_model(version: int, attributes: str, inputs: str, batch: str) -> ModelProto:
    """A Scan whose body also takes w from around it; z has what each step gives as its last axis, after opset 8."""
    z = "[2, 3, 2]" if batch else "[2, 3]"
    return model_from_text(f"""<ir_version: 8, opset_import: ["" : {version}]>
    g (float[{batch}2] s, float[{batch}3, 2] x, float[2] w, int64[2] n) => (float[{batch}2] y, float{z} z) {{
       y, z = Scan <num_scan_inputs = 1, {attributes} body = b (float[2] t, float[2] e) => (float[2] u, float[2] v) {{
         u = Sub (t, e)  v = Mul (u, w) }}> ({inputs}) }}""")


AS_ONE_BATCH = ["Unsqueeze", "Unsqueeze", "Scan", "Squeeze", "Transpose", "Squeeze"]


@pytest.mark.parametrize(
    ("version", "attributes", "inputs", "batch", "target", "expected"),
    [
        (8, "", ", s, x", "2, ", 9, ["Scan"]),
        (8, "directions = [1],", ", s, x", "2, ", 28, ["Scan"]),
        (28, "scan_input_axes = [0], scan_output_axes = [-1],", "s, x", "", 8, AS_ONE_BATCH),
        (9, "scan_input_directions = [1], scan_output_axes = [1],", "s, x", "", 8, AS_ONE_BATCH),
    ],
)
def test_a_scan_with_an_axis_of_batches_is_one_without(
    version: int, attributes: str, inputs: str, batch: str, target: int, expected: list[str]
) -> None:
    model = scan_model(version, attributes, inputs, batch)
    converted = convert_model(model, target)
    assert operators(converted) == expected
    sizes = [[dim.dim_value for dim in info.type.tensor_type.shape.dim] for info in model.graph.input]
    given = [np.sin(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape) for shape in sizes[:3]]
    for before, after in zip(
        run(model, *given, np.int64([1, 2])), run(converted, *given, np.int64([1, 2])), strict=True
    ):
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(
    ("version", "attributes", "inputs", "batch", "target", "message"),
    [
        (8, "", "n, s, x", "2, ", 9, "its sequences have lengths of their own"),
        (9, "scan_output_directions = [1], scan_output_axes = [1],", "s, x", "", 8, "an output is filled from its end"),
    ],
)
def test_a_scan_that_has_no_other_words_is_named(
    version: int, attributes: str, inputs: str, batch: str, target: int, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        onnxc.convert_version(scan_model(version, attributes, inputs, batch), target)
