"""Models that take and give sparse tensors: no operator takes one, so they go through graphs and functions as they are.

An initializer is dense to the nodes that use it, sparse or not as it is stored; as an output it is what that declares.
"""

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, SparseTensorProto, TensorProto, checker, helper, numpy_helper

import onnxc
from tests.frontend.model_texts import errors, model, warnings
from tests.support.arrays import assert_same
from tests.support.fake_gpu import compile_for_fake

TARGETS = ("cpu", "interpreter")

THROUGH = "g (sparse_tensor(float[N, 3]) s, float[N] x) => (sparse_tensor(float[N, 3]) s, float[N] y) { y = Neg(x) }"
CAPTURED = """g (bool c, sparse_tensor(float[N]) s, float[N] x) => (float[N] y) {
  y = If (c) <then_branch = t () => (float[N] a) { a = own.f(s, x) }, else_branch = e () => (float[N] b) { b = Neg(x) }>
}
<domain: "own", opset_import: ["": 21]> f (p, q) => (r) { r = Relu(q) }"""
CALLED = """g (sparse_tensor(float[N]) s) => (sparse_tensor(float[N]) t) { t = own.f(s) }
<domain: "own", opset_import: ["": 21]> f (p) => (p) { }"""

VALUES = np.array([1.5, np.nan], np.float32)
X = np.array([1, -2], np.float32)


def at(*indices: object) -> np.ndarray:
    return np.array(indices, np.int64)


def assert_sparse(found: object, values: np.ndarray, indices: np.ndarray, shape: tuple[int, ...]) -> None:
    assert isinstance(found, onnxc.SparseTensor)
    assert_same(found.values, values)
    assert_same(found.indices, indices)
    assert found.shape == shape


S = onnxc.SparseTensor(VALUES, at(0, 4), (2, 3))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("indices", [at(0, 4), at([0, 0], [1, 1])])
def test_a_sparse_input_is_an_output_as_it_is(target: str, indices: np.ndarray) -> None:
    executable = onnxc.compile(model(THROUGH), target)
    found, y = executable(onnxc.SparseTensor(VALUES, indices, (2, 3)), X)
    assert_sparse(found, VALUES, indices, (2, 3))
    assert not np.shares_memory(found.values, VALUES)
    assert_same(y, -X)


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_stored_and_no_rows(target: str) -> None:
    nothing = np.zeros(0, np.float32)
    found, y = onnxc.compile(model(THROUGH), target)(onnxc.SparseTensor(nothing, at(), (0, 3)), nothing)
    assert_sparse(found, nothing, at(), (0, 3))
    assert_same(y, nothing)


@pytest.mark.parametrize("target", TARGETS)
def test_the_signature_says_that_it_is_sparse(target: str) -> None:
    info = onnxc.compile(model(THROUGH), target).inputs[0]
    assert (str(info), info.dtype, info.shape, info.optional) == ("s: sparse(f32[N, 3])", None, ("N", 3), False)


def test_a_saved_model_takes_sparse_tensors(tmp_path: Path) -> None:
    path = tmp_path / "model.onnxc"
    onnxc.compile(model(THROUGH)).save(path)
    found = onnxc.load(path).run({"s": S, "x": X})
    assert_sparse(found["s"], VALUES, at(0, 4), (2, 3))
    assert_same(found["y"], -X)


def test_a_sparse_tensor_stays_on_the_host_of_a_device() -> None:
    run = compile_for_fake(model(THROUGH))
    found, y = run.executable(S, X)
    assert_sparse(found, VALUES, at(0, 4), (2, 3))
    assert_same(y, -X)


CASES = {
    "another element type": (onnxc.SparseTensor(VALUES.astype(np.float64), at(0, 4), (2, 3)), "input-dtype"),
    "another rank": (onnxc.SparseTensor(VALUES, at(0, 4), (6,)), "input-rank"),
    "another fixed size": (onnxc.SparseTensor(VALUES, at(0, 4), (2, 4)), "input-shape"),
    "two sizes of one name": (onnxc.SparseTensor(VALUES, at(0, 4), (3, 3)), "sizes-disagree"),
    "indices out of order": (onnxc.SparseTensor(VALUES, at(4, 0), (2, 3)), "sparse-index-order"),
    "an index twice": (onnxc.SparseTensor(VALUES, at(4, 4), (2, 3)), "sparse-index-order"),
    "an index beyond the end": (onnxc.SparseTensor(VALUES, at(0, 6), (2, 3)), "sparse-index-range"),
    "a dense tensor": (np.ones((2, 3), np.float32), "input-type"),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("given", "code"), CASES.values(), ids=CASES)
def test_another_value_is_refused(target: str, given: object, code: str) -> None:
    with pytest.raises(onnxc.InputError, match=r'input "(s|x)"') as refused:
        onnxc.compile(model(THROUGH), target)(given, X)
    assert refused.value.code == code


def test_a_size_may_be_fixed_and_a_shape_given() -> None:
    fixed = onnxc.compile(model(THROUGH), dims={"N": 2})
    assert [str(info) for info in fixed.inputs] == ["s: sparse(f32[2, 3])", "x: f32[2]"]
    with pytest.raises(onnxc.InputError, match=r'axis 0 of input "s" is 1, expected 2'):
        fixed(onnxc.SparseTensor(VALUES, at(0, 1), (1, 3)), X)
    shaped = onnxc.compile(model(THROUGH), shapes={"s": (4, None)})
    assert shaped.inputs[0].shape == (4, 3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_a_rank_that_is_not_declared_is_any(target: str, shape: tuple[int, ...]) -> None:
    text = "g (float s, float[N] x) => (float s, float[N] y) { y = Neg(x) }"

    def without_shape(parsed: ModelProto) -> None:
        for info in (parsed.graph.input[0], parsed.graph.output[0]):
            info.type.CopyFrom(helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, None))

    official = model(text, without_shape)
    assert warnings(official) == {"missing-shape"}
    found, _ = onnxc.compile(official, target)(onnxc.SparseTensor(VALUES[:1], at(0), shape), X)
    assert_sparse(found, VALUES[:1], at(0), shape)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_may_hand_it_to_a_function(target: str, condition: bool) -> None:
    given = onnxc.SparseTensor(VALUES, at(0, 1), (2,))
    y = onnxc.compile(model(CAPTURED), target)(np.array(condition), given, X)
    assert_same(y, np.maximum(X, 0) if condition else -X)


@pytest.mark.parametrize("target", TARGETS)
def test_a_function_gives_it_back(target: str) -> None:
    found = onnxc.compile(model(CALLED), target)(onnxc.SparseTensor(VALUES, at(0, 1), (2,)))
    assert_sparse(found, VALUES, at(0, 1), (2,))


def test_inference_keeps_the_type() -> None:
    typed = ModelProto.FromString(onnxc.infer(model(CALLED)).SerializeToString())
    checker.check_model(typed)
    for info in (*typed.graph.input, *typed.graph.output):
        assert info.type == helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, ["N"])


@pytest.mark.parametrize(
    "text",
    [
        "g (sparse_tensor(float[N]) s) => (float[N] y) { y = Relu(s) }",
        "g (sparse_tensor(float[N]) s) => (sparse_tensor(float[N]) y) { y = Identity(s) }",
        "g (sparse_tensor(float[N]) s) => (seq(float[N]) y) { y = SequenceConstruct(s) }",
        "g (sparse_tensor(float[N]) s) => (optional(float[N]) y) { y = Optional(s) }",
        """g (int64 n, bool c, sparse_tensor(float[N]) s) => (y) {
          y = Loop (n, c, s) <body = b (int64 i, bool k, sparse_tensor(float[N]) p)
            => (bool k2, sparse_tensor(float[N]) p) { k2 = Identity(k) }>
        }""",
    ],
)
def test_no_operator_takes_it(text: str) -> None:
    assert errors(model(text)) == {"type-constraint"}


def test_a_branch_cannot_give_it() -> None:
    text = """g (bool c, sparse_tensor(float[N]) s) => (y) {
      y = If (c) <then_branch = t () => (u) { u = own.f(s) }, else_branch = e () => (v) { v = own.f(s) }>
    }
    <domain: "own", opset_import: ["": 21]> f (p) => (p) { }"""
    with pytest.raises(onnxc.ModelError, match="output-type"):
        onnxc.compile(model(text))


def test_what_is_dense_is_not_declared_sparse() -> None:
    assert errors(model("g (float[N] x) => (sparse_tensor(float[N]) y) { y = Relu(x) }")) == {"type-constraint"}
    through = model("g (float[N] x, float[N] z) => (sparse_tensor(float[N]) x, float[N] y) { y = Relu(z) }")
    with pytest.raises(onnxc.ModelError, match="declared-type"):
        onnxc.compile(through)


def test_a_body_does_not_take_a_dense_tensor_for_a_sparse_one() -> None:
    text = """g (int64 n, bool c, float[N] x) => (y) {
      y = Loop (n, c, x) <body = b (int64 i, bool k, sparse_tensor(float[N]) p) => (bool k2, float[N] q) {
        k2 = Identity(k) q = own.f(p, x) }>
    }
    <domain: "own", opset_import: ["": 21]> f (p, q) => (r) { r = Relu(q) }"""
    with pytest.raises(onnxc.ModelError, match="subgraph-input-type"):
        onnxc.compile(model(text))


def stored(name: str) -> SparseTensorProto:
    """[0, 7, 0, -0.0]"""
    values = numpy_helper.from_array(np.array([7, -0.0], np.float32), name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(at(1, 3), f"{name}_indices"), [4])


DENSE = np.array([0, 7, 0, -0.0], np.float32)


@pytest.mark.parametrize("target", TARGETS)
def test_a_sparse_initializer_is_the_output_that_is_declared(target: str) -> None:
    text = "g (float[4] x) => (sparse_tensor(float[4]) s, float[4] t, float[4] y) { y = Mul(x, s2) }"

    def edit(parsed: ModelProto) -> None:
        parsed.graph.sparse_initializer.extend([stored("s"), stored("t"), stored("s2")])

    found, dense, y = onnxc.compile(model(text, edit), target)(np.ones(4, np.float32))
    assert_sparse(found, np.array([7, -0.0], np.float32), at(1, 3), (4,))
    assert_same(dense, DENSE)
    assert_same(y, DENSE)


def test_an_input_with_a_sparse_initializer_is_a_constant() -> None:
    text = "g (float[4] x, sparse_tensor(float[4]) s) => (sparse_tensor(float[4]) s, float[4] y) { y = Neg(x) }"
    official = model(text, lambda parsed: parsed.graph.sparse_initializer.append(stored("s")))
    executable = onnxc.compile(official)
    assert executable.frozen_inputs == ("s",)
    found, _ = executable(np.ones(4, np.float32))
    assert_sparse(found, np.array([7, -0.0], np.float32), at(1, 3), (4,))
    with pytest.raises(onnxc.UnsupportedError, match=r'sparse-default.*input "s" is sparse\(f32\[4\]\)'):
        onnxc.compile(official, freeze_params=False)


@pytest.mark.parametrize(("declared", "code"), [("double[4]", "initializer-type"), ("float[5]", "initializer-shape")])
def test_an_initializer_is_what_its_sparse_input_declares(declared: str, code: str) -> None:
    text = f"g (float[4] x, sparse_tensor({declared}) s) => (float[4] y) {{ y = Neg(x) }}"
    assert errors(model(text, lambda parsed: parsed.graph.sparse_initializer.append(stored("s")))) == {code}
