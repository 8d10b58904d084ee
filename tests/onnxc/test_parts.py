"""Models cut, joined and renamed by the names of their values."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, checker, helper, numpy_helper, save

import onnxc
from onnxc.runtime.errors import InputError, UnsupportedError
from tests.support.models import model_from_text

TEXT = """<ir_version: 10, opset_import: ["" : 21, "own" : 1], metadata_props: ["k": "v"]>
g (float[N, 2] x, bool c, float[2] unused) => (float[N, 2] y, float[N, 2] z)
<float[2] w = {1, 2}, float[2] v = {3, 4}> {
   [first] a = Mul (x, w)
   b = If (c) <then_branch = t () => (p) { p = Add (a, v) }, else_branch = e () => (q) { q = own.f (a) }>
   y = Exp (b)
   z = Neg (x)
}
<domain: "own", opset_import: ["" : 21]> f (h) => (r) { r = Neg (h) }"""

X = np.float32([[1, 2], [3, 4]])
YES = np.array(True)


@pytest.fixture
def model() -> ModelProto:
    made = model_from_text(TEXT)
    annotation = made.graph.quantization_annotation.add(tensor_name="a")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="v")
    return made


def checked(made: object) -> ModelProto:
    message = ModelProto.FromString(made.SerializeToString())  # type: ignore[attr-defined]
    checker.check_model(message)
    return message


def names(items: object) -> list[str]:
    return [item.name for item in items]  # type: ignore[attr-defined]


def run(made: object, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    exe = onnxc.compile(made, target="interpreter")  # type: ignore[arg-type]
    return dict(exe.run(inputs))  # type: ignore[arg-type]


def test_a_part_has_what_its_outputs_need(model: ModelProto) -> None:
    part = checked(onnxc.extract(model, ["b"]))
    assert (names(part.graph.input), names(part.graph.output), names(part.graph.initializer)) == (
        ["x", "c"],
        ["b"],
        ["w", "v"],
    )
    np.testing.assert_array_equal(run(part, x=X, c=YES)["b"], X * [1, 2] + np.float32([3, 4]))


def test_a_part_begins_at_any_value_even_a_weight(model: ModelProto) -> None:
    part = checked(onnxc.extract(model, ["y"], ["a", "c", "v"]))
    assert names(part.graph.initializer) == []
    assert part.graph.input[0].type.tensor_type.shape.dim[1].dim_value == 2
    y = run(part, a=X, c=YES, v=np.float32([0, 1]))["y"]
    np.testing.assert_allclose(y, np.exp(X + np.float32([0, 1])), rtol=1e-6)


def test_a_part_begins_at_a_sparse_weight_which_is_dense_where_it_is_read() -> None:
    made = model_from_text(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[2, 3] x) => (float[2, 3] y) { y = Mul (x, s) }'
    )
    values = helper.make_tensor("s", TensorProto.FLOAT, [2], [7, 8])
    indices = helper.make_tensor("", TensorProto.INT64, [2], [1, 5])
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
    part = checked(onnxc.extract(made, ["y"], ["x", "s"]))
    assert (names(part.graph.input), list(part.graph.sparse_initializer)) == (["x", "s"], [])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(run(part, x=x, s=x + 1)["y"], x * (x + 1))


def test_a_scale_that_only_an_annotation_names_stays(model: ModelProto) -> None:
    assert names(onnxc.extract(model, ["a"]).graph.initializer) == ["w", "v"]


def test_an_input_with_a_default_keeps_it(model: ModelProto) -> None:
    model.graph.input.add(name="w").type.CopyFrom(model.graph.input[2].type)
    part = checked(onnxc.extract(model, ["a"]))
    assert (names(part.graph.input), names(part.graph.initializer)) == (["x", "w"], ["w", "v"])


def test_a_part_is_given_one_result_of_a_node_that_computes_another() -> None:
    model = model_from_text("""<ir_version: 10, opset_import: ["" : 21]> g (float[4] x) => (float[2] y) {
      a, b = Split <num_outputs = 2> (x)  y = Sub (a, b) }""")
    part = checked(onnxc.extract(model, ["y"], ["x", "a"]))
    got = onnxc.compile(part, "interpreter").run({"x": np.float32([1, 2, 3, 4]), "a": np.float32([9, 9])})["y"]
    assert np.array_equal(np.asarray(got), [6, 5])


def test_both_halves_compute_what_the_whole_did(model: ModelProto) -> None:
    first, second = onnxc.split(model, ["b"])
    assert (names(first.graph.output), names(second.graph.input)) == (["b", "z"], ["b"])
    halves = run(second, b=run(first, x=X, c=YES)["b"])
    whole = checked(onnxc.merge(first, second, {"b": "b"}))
    expected = run(model, x=X, c=YES, unused=X[0])
    for outputs in (halves, run(whole, x=X, c=YES)):
        np.testing.assert_array_equal(outputs["y"], expected["y"])
    assert names(whole.graph.output) == ["z", "y"]


def test_renaming_reaches_graphs_within_and_annotations(model: ModelProto) -> None:
    renamed = checked(onnxc.rename(model, {"a": "A", "x": "in", "p": "P"}))
    assert renamed.graph.quantization_annotation[0].tensor_name == "A"
    assert [*renamed.graph.node[1].attribute[0].g.node[0].input] == ["A", "v"]
    assert renamed.graph.node[1].attribute[0].g.output[0].name == "P"
    np.testing.assert_array_equal(
        run(renamed, **{"in": X, "c": YES, "unused": X[0]})["y"], run(model, x=X, c=YES, unused=X[0])["y"]
    )


def test_a_node_prefix_stands_before_nodes_alone_those_of_graphs_within_too() -> None:
    model = model_from_text("""<ir_version: 10, opset_import: ["": 21]>
    main (bool c, float[2] x) => (float[2] y) {
       [choice] y = If (c) <
          then_branch = t () => (float[2] a) { [inner] a = Abs (x) },
          else_branch = e () => (float[2] b) { b = Neg (x) }
       >
    }""")
    renamed = checked(onnxc.rename(model, node_prefix="n/"))
    (choice,) = renamed.graph.node
    names = [node.name for attribute in choice.attribute for node in attribute.g.node]
    assert (choice.name, sorted(names)) == ("n/choice", ["", "n/inner"])
    choice.name = "choice"
    next(node for attribute in choice.attribute for node in attribute.g.node if node.name).name = "inner"
    assert renamed.graph.SerializeToString(deterministic=True) == model.graph.SerializeToString(deterministic=True)
    both = onnxc.rename(model, {"m/y": "z"}, prefix="m/", node_prefix="n/")
    assert (both.graph.node[0].name, both.graph.node[0].output[0]) == ("n/m/choice", "z")


def test_a_prefix_stands_before_values_and_nodes(model: ModelProto) -> None:
    renamed = checked(onnxc.rename(model, prefix="m/"))
    assert names(renamed.graph.input) == ["m/x", "m/c", "m/unused"]
    assert renamed.graph.node[0].name == "m/first"
    assert renamed.graph.node[1].name == ""


def test_a_model_is_merged_with_itself(model: ModelProto) -> None:
    first, second = (onnxc.rename(model, prefix=prefix) for prefix in ("a/", "b/"))
    both = checked(onnxc.merge(first, second, {"a/y": "b/x"}))
    assert names(both.graph.output) == ["a/z", "b/y", "b/z"]
    assert (len(both.functions), len(both.metadata_props)) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((["nothing"],), "unknown-value", "the model has no value 'nothing'"),
        ((["p"],), "unknown-value", "the model has no value 'p'"),
        (([],), "part-values", "at least one output"),
        ((["y", "y"],), "part-values", "each value once"),
        ((["y"], ["b2"]), "unknown-value", "'b2'"),
        ((["y"], ["a"]), "part-values", "y cannot be computed without c, which is not among the inputs"),
    ],
)
def test_values_that_make_no_part(arguments: tuple[list[str], ...], code: str, message: str, model: ModelProto) -> None:
    with pytest.raises(InputError, match=code) as caught:
        onnxc.extract(model, *arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda model: onnxc.extract(model, "y"), "outputs is 'y', expected a sequence of names"),
        (lambda model: onnxc.extract(model, None), "outputs is None, expected a sequence of names"),
        (lambda model: onnxc.extract(model, ["y"], "a"), "inputs is 'a', expected a sequence of names"),
        (lambda model: onnxc.split(model, "b"), "values is 'b', expected a sequence of names"),
        (lambda model: onnxc.split(model, [1]), r"values is \[1\], expected a sequence of names"),
        (lambda model: onnxc.rename(model, {"a": 3}), r"names\['a'\] is 3, expected a text"),
        (lambda model: onnxc.rename(model, ["a"]), r"names is \['a'\], expected a mapping from names"),
        (lambda model: onnxc.rename(model, prefix=3), "prefix is 3, expected a text"),
        (lambda model: onnxc.rename(model, node_prefix=3), "node_prefix is 3, expected a text"),
        (lambda model: onnxc.merge(model, model, None), "links lead from outputs"),
        (lambda model: onnxc.merge(model, model, {"y": 3}), r"links\['y'\] is 3, expected a sequence of names"),
        (lambda model: onnxc.merge(model, model, [("y", "x")]), "expected a mapping from names"),
        (lambda model: onnxc.from_text(onnxc.to_text(model).encode()), "text is b'.*', expected a text"),
        (lambda model: onnxc.convert_version(model, "20"), "opset is '20', expected an integer"),
    ],
)
def test_arguments_of_other_types_are_refused(
    work: Callable[[ModelProto], object], message: str, model: ModelProto
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        work(model)
    assert caught.value.code in ("option-type", "merge-links")


def test_integers_of_numpy_are_versions_counts_and_limits(model: ModelProto) -> None:
    converted = checked(onnxc.convert_version(model, np.int64(20), limits={"functions": np.int32(9)}))  # type: ignore[arg-type, dict-item]
    assert [opset.version for opset in converted.opset_import if not opset.domain] == [20]


def test_values_that_do_not_cut_the_model() -> None:
    text = '<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (y) { a = Neg (x) b = Exp (a) y = Add (a, b) }'
    model = model_from_text(text)
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)
    with pytest.raises(InputError, match="b do not cut the model: a is needed on the other side too"):
        onnxc.split(model, ["b"])
    with pytest.raises(InputError, match="part-values"):
        onnxc.split(model, ["y"])
    assert names(onnxc.split(model, ["a", "b"])[1].graph.node) == [""]


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("h = Exp (x) c = Constant <value_float = 2.0> () y = Mul (h, c)", ["h"]),
        ("c = Constant <value_float = 2.0> () h = Mul (x, c) y = Mul (h, c)", ["h"]),
        ("h = Exp (x) y = Add (h, x)", ["h", "x"]),
        ("h = Exp (x) n = Neg (w) y = Mul (h, n)", ["h", "w"]),
    ],
)
def test_the_second_part_has_what_it_needs_beside_the_values(text: str, needed: list[str]) -> None:
    header = '<ir_version: 8, opset_import: ["" : 18]> g (float[2] x, float[2] w) => (float[2] y)'
    model = model_from_text(f"{header} {{ {text} }}")
    first, second = map(checked, onnxc.split(model, ["h"]))
    assert (names(first.graph.input), names(second.graph.input)) == (["x"], needed)
    values = {"x": X[0], "w": X[1], **run(first, x=X[0])}
    result = run(second, **{name: values[name] for name in needed})["y"]
    np.testing.assert_array_equal(result, run(model, x=X[0], w=X[1])["y"])


def test_a_node_of_the_first_part_is_named_by_the_value_that_the_second_one_needs() -> None:
    text = '<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (float[1] y) '
    model = model_from_text(text + "{ a, b = Split <num_outputs = 2> (x) c = Exp (a) y = Add (c, b) }")
    with pytest.raises(InputError, match="a do not cut the model: b is needed on the other side too"):
        onnxc.split(model, ["a"])


@pytest.mark.parametrize(
    ("given", "code"), [({"a": "b"}, "name-taken"), ({"a": ""}, "name-taken"), ({"n": "m"}, "unknown-value")]
)
def test_names_that_cannot_be_given(given: dict[str, str], code: str, model: ModelProto) -> None:
    with pytest.raises(InputError, match=code):
        onnxc.rename(model, given)


def in_own_version_2(model: ModelProto) -> ModelProto:
    changed = ModelProto.FromString(model.SerializeToString())
    changed.opset_import[1].version = 2
    return changed


def test_models_are_merged_in_the_newer_version(model: ModelProto) -> None:
    older = onnxc.convert_version(onnxc.rename(onnxc.extract(model, ["z"]), prefix="b/"), 12)
    for first, second, links in ((model, older, {"y": "b/x"}), (older, model, {"b/z": "x"})):
        merged = checked(onnxc.merge(first, second, links))
        assert [opset.version for opset in merged.opset_import if not opset.domain] == [21]


def test_models_that_cannot_be_merged(model: ModelProto) -> None:
    other = onnxc.rename(model, prefix="b/")
    with pytest.raises(InputError, match="merge-links"):
        onnxc.merge(model, other, {"x": "b/x"})
    with pytest.raises(InputError, match="name-taken"):
        onnxc.merge(model, model, {"y": "x"})
    with pytest.raises(UnsupportedError, match="opset-conflict"):
        onnxc.merge(in_own_version_2(model), other, {"y": "b/x"})
    other.metadata_props[0].value = "w"
    with pytest.raises(InputError, match="name-taken"):
        onnxc.merge(model, other, {"y": "b/x"})


@pytest.mark.parametrize("body", ["y = Abs (x)", "y = Exp (x) z = Neg (y)"])
def test_models_of_equal_names_are_told_to_take_a_prefix(body: str) -> None:
    header = '<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => '
    first = model_from_text(header + "(float[N] y) { y = Neg (x) }")
    second = model_from_text(header + f"(float[N] {'z' if 'z' in body else 'y'}) {{ {body} }}")
    with pytest.raises(InputError, match="both models have y: give one a prefix"):
        onnxc.merge(first, second, {"y": "x"})
    merged = checked(onnxc.merge(first, onnxc.rename(second, prefix="b/"), {"y": "b/x"}))
    assert [info.name for info in merged.graph.input] == ["x"]


def test_weights_are_the_same_tensors(model: ModelProto) -> None:
    part = checked(onnxc.extract(model, ["a"]))
    np.testing.assert_array_equal(numpy_helper.to_array(part.graph.initializer[0]), np.float32([1, 2]))


def test_schemas_are_looked_up_by_name() -> None:
    found = onnxc.schemas("Gather")
    assert [(schema.since_version, schema.attributes["axis"].default) for schema in found] == [(1, 0), (11, 0), (13, 0)]
    assert [formal.name for formal in found[-1].inputs] == ["data", "indices"]
    assert onnxc.schemas("Gather", "nowhere") == ()
    assert onnxc.schemas("TreeEnsemble", "ai.onnx.ml")[0].since_version == 5
    assert [formal.differentiable for formal in found[-1].inputs] == [True, False]
    assert onnxc.schemas("Gemm", "")[0].inputs[0].differentiable is None


@pytest.mark.parametrize(
    ("operator", "domain", "page"),
    [
        ("Gather", "", "https://onnx.ai/onnx/operators/onnx__Gather.html"),
        ("Scaler", "ai.onnx.ml", "https://onnx.ai/onnx/operators/onnx_aionnxml_Scaler.html"),
        ("Adam", "ai.onnx.preview.training", "https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adam.html"),
        (
            "FusedConv",
            "com.microsoft",
            "https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.FusedConv",
        ),
        ("SimplifiedLayerNormalization", "", None),
    ],
)
def test_schemas_name_the_page_that_documents_them(operator: str, domain: str, page: str | None) -> None:
    assert {schema.url for schema in onnxc.schemas(operator, domain)} == {page}


def test_a_part_keeps_the_functions_that_it_calls(model: ModelProto) -> None:
    assert names(onnxc.extract(model, ["b"]).functions) == ["f"]
    assert names(onnxc.extract(model, ["z"]).functions) == []


def test_models_whose_functions_differ_are_merged_under_a_prefix(model: ModelProto) -> None:
    other = ModelProto()
    other.CopyFrom(model)
    other.functions[0].node[0].op_type = "Abs"
    merged = checked(onnxc.merge(onnxc.rename(model, prefix="m_"), onnxc.rename(other, prefix="o_"), {"m_y": "o_x"}))
    assert names(merged.functions) == ["m_f", "o_f"]
    unused = dict.fromkeys(("m_unused", "o_unused"), X[0])
    found = run(merged, m_x=X, m_c=~YES, o_c=~YES, **unused)["o_y"]
    np.testing.assert_allclose(found, np.exp(np.abs(np.exp(-X * [1, 2]) * [1, 2])), rtol=1e-6)


def test_one_output_may_be_several_inputs() -> None:
    first = model_from_text('<ir_version: 10, opset_import: ["" : 21]> f (float[2] x) => (float[2] y) { y = Neg (x) }')
    second = model_from_text("""<ir_version: 10, opset_import: ["" : 21]>
    g (float[2] a, float[2] b, float[2] c) => (float[2] z) { t = Sub (a, c) z = Mul (t, b) }""")
    merged = checked(onnxc.merge(first, second, {"y": ["a", "b"]}))
    assert (names(merged.graph.input), names(merged.graph.output)) == (["x", "c"], ["z"])
    np.testing.assert_array_equal(run(merged, x=X[0], c=X[1])["z"], (-X[0] - X[1]) * -X[0])
    for links in ({"y": []}, {"y": ["a", "a"]}, {"y": ["a", "none"]}):
        with pytest.raises(InputError, match="merge-links"):
            onnxc.merge(first, second, links)


PARTED = """<ir_version: 10, opset_import: ["": 21]> g (float[N, 2] x, bool[N, 2] mask) => (float[N, 2] y)
    <float[2] w = {1, 2}> {
        two = Constant <value_float = 2.0> () a = Mul (x, w) b = Where (mask, a, two)
        c = Where (mask, b, w) y = Mul (c, two)
    }"""


def test_the_parts_of_a_model_are_merged_with_the_inputs_and_constants_that_both_need() -> None:
    parts = onnxc.split(model_from_text(PARTED), ["b"])
    with pytest.raises(InputError, match="name-taken"):
        onnxc.merge(*parts, {"b": "b"})
    merged = checked(onnxc.merge(*parts, {"b": "b"}, shared=["mask", "w", "two"]))
    assert names(merged.graph.input) == ["x", "mask"]
    assert names(merged.graph.initializer) == ["w"]
    assert sum(node.op_type == "Constant" for node in merged.graph.node) == 1
    mask = np.array([[True, False], [False, False]])
    inner = np.where(mask, X * np.float32([1, 2]), 2)
    np.testing.assert_array_equal(run(merged, x=X, mask=mask)["y"], 2 * np.where(mask, inner, np.float32([1, 2])))


@pytest.mark.parametrize(
    ("change", "shared"),
    [
        (("two", "two"), ["none"]),
        (("two", "two"), ["b"]),
        (("bool[N, 2] mask", "bool[M, 2] mask"), ["mask", "w", "two"]),
        (("{1, 2}", "{1, 3}"), ["mask", "w", "two"]),
        (("2.0", "3.0"), ["mask", "w", "two"]),
    ],
)
def test_what_differs_in_two_models_is_not_shared(change: tuple[str, str], shared: list[str]) -> None:
    first, second = (
        onnxc.split(model_from_text(text), ["b"])[part] for part, text in enumerate((PARTED, PARTED.replace(*change)))
    )
    with pytest.raises(InputError, match="equal constants, of both models") as caught:
        onnxc.merge(first, second, {"b": "b"}, shared=shared)
    assert caught.value.code == "merge-shared"


def test_a_linked_input_that_is_an_output_too_stays_one_by_its_name() -> None:
    header = '<ir_version: 10, opset_import: ["": 21]>'
    first = model_from_text(header + "f (float[2] x) => (float[2] y) { y = Neg (x) }")
    second = model_from_text(
        header + "s (float[2] a, float[2] b) => (float[2] z, float[2] b, float[2] a) { z = Add (a, b) }"
    )
    merged = checked(onnxc.merge(first, second, {"y": ["a", "b"]}))
    assert names(merged.graph.output) == ["z", "b", "a"]
    got = run(merged, x=np.array([1, -2], np.float32))
    assert {name: value.tolist() for name, value in got.items()} == {"z": [-2, 4], "b": [-1, 2], "a": [-1, 2]}
    taken = model_from_text(header + "f (float[2] a) => (float[2] y) { y = Neg (a) }")
    with pytest.raises(InputError, match="give one a prefix") as caught:
        onnxc.merge(taken, second, {"y": ["a", "b"]})
    assert caught.value.code == "name-taken"


def scaled(path: Path, factor: float, source: str, result: str) -> Path:
    """A file of a model that multiplies by a weight, which is in the file "weights" beside it."""
    header = '<ir_version: 10, opset_import: ["" : 21]>'
    made = model_from_text(
        f"{header} g (float[2] {source}) => (float[2] {result}) {{ {result} = Mul ({source}, {result}w) }}"
    )
    made.graph.initializer.append(numpy_helper.from_array(np.full(2, factor, np.float32), f"{result}w"))
    path.parent.mkdir(exist_ok=True)
    save(made, path, save_as_external_data=True, location="weights", size_threshold=0)
    return path


def test_weights_in_files_of_two_folders_are_not_merged(tmp_path: Path) -> None:
    first = scaled(tmp_path / "a" / "m.onnx", 3, "x", "y")
    second = scaled(tmp_path / "b" / "m.onnx", 5, "u", "z")
    with pytest.raises(InputError, match="of several folders") as caught:
        onnxc.merge(first, second, {"y": "u"})
    assert caught.value.code == "weights-in-several-folders"
    for path in (first, second):
        onnxc.save_model(path, path.with_name("whole.onnx"))
    # One of them may stay beside its weights, where the merged model then belongs.
    for pair in ((first, tmp_path / "b" / "whole.onnx"), (tmp_path / "a" / "whole.onnx", second)):
        merged = tmp_path / ("a" if first in pair else "b") / "merged.onnx"
        merged.write_bytes(onnxc.merge(*pair, {"y": "u"}).SerializeToString())
        result = onnxc.compile(merged, target="interpreter")(X[0])
        np.testing.assert_array_equal(result, 15 * X[0])


def test_a_model_with_training_is_renamed_and_trains() -> None:
    text = """<ir_version: 7, opset_import: ["" : 17]>
    g (float[N, 2] x) => (float[N, 1] y) <float[2, 1] w = {0, 0}> { y = MatMul (x, w) }"""
    made = onnxc.make_training(model_from_text(text), "mean_squared_error", "sgd", learning_rate=0.5)
    renamed = onnxc.rename(made, prefix="a/")
    trainer, other = onnxc.compile_training(made), onnxc.compile_training(renamed)
    given = {"x": np.eye(2, dtype=np.float32), "targets": np.array([[1], [2]], np.float32)}
    for _ in range(2):
        assert other.step({"a/x": given["x"], "targets": given["targets"]})["loss"] == trainer.step(given)["loss"]
