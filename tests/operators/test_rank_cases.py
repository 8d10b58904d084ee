"""Conditions that decide on ranks: what follows is built for each, and an impossible case is an error of the call."""

from collections.abc import Callable

import numpy as np
import pytest

from onnxc.compiler.diagnostics import DiagnosedModelError
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.computation import TRAINING
from onnxc.compiler.frontend.fixed_ranks import RANKS
from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.frontend.infer import infer_types
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.lower import walk as walk_module
from onnxc.compiler.frontend.lower.frame import Frame, NodeOutcome
from onnxc.compiler.frontend.lower.nodes import call_operator
from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.frontend.schemas import versions_of
from onnxc.compiler.ir.module import walk
from onnxc.compiler.passes.simplify.eliminate_dead_code import eliminate_dead_code
from onnxc.runtime.errors import InputError, ModelWarning, UnsupportedError
from tests.operators.host_models import TARGETS, run_text, texts
from tests.support.arrays import assert_close, assert_same
from tests.support.models import model_from_text

# As PyTorch exports x.squeeze(1): a case that is undecided while the model is built.
SQUEEZED = """g (float[N, M] x) => ({output} y) {{
    size = Shape<start = 1, end = 2>(x)
    one = Constant<value_ints = [1]>()
    alone = Equal(size, one)
    z = If (alone) <then_branch = t () => (float[] a) {{ a = Squeeze(x, one) }},
                    else_branch = e () => (float[] b) {{ b = Identity(x) }}>
    {rest}
}}"""
COLUMN, MATRIX = np.ones((3, 1), np.float32), np.full((3, 2), 2, np.float32)
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def op_names(text: str) -> set[str]:
    header = "" if text.startswith("<") else '<ir_version: 10, opset_import: ["" : 21]>\n'
    module = lower_model(check_model(read_model(model_from_text(header + text))))
    return {op.name for op in walk(eliminate_dead_code(module).main.body)}


@pytest.mark.parametrize("target", TARGETS)
def test_what_follows_is_built_for_each_rank(target: str) -> None:
    rest = "w = Neg(z) axes = Constant<value_ints = [-1]>() y = ReduceSum<keepdims = 0>(w, axes)"
    text = SQUEEZED.format(output="float[]", rest=rest)
    assert_same(*run_text(text, {"x": COLUMN}, target), np.array(-3, np.float32))
    assert_same(*run_text(text, {"x": MATRIX}, target), np.array([-4, -4, -4], np.float32))


@pytest.mark.parametrize("target", TARGETS)
def test_a_case_that_what_follows_excludes_is_an_error_of_the_call(target: str) -> None:
    text = SQUEEZED.format(output="float[K, L]", rest="y = Transpose<perm = [1, 0]>(z)")
    assert "if" not in op_names(text)
    assert_same(*run_text(text, {"x": MATRIX}, target), MATRIX.T.copy())
    with pytest.raises(InputError, match="the condition of an If cannot be True"):
        run_text(text, {"x": COLUMN}, target)


@pytest.mark.parametrize("target", TARGETS)
def test_a_declared_rank_decides_on_the_case(target: str) -> None:
    text = SQUEEZED.format(output="float[K]", rest="y = Neg(z)")
    assert "if" not in op_names(text)
    assert_same(*run_text(text, {"x": COLUMN}, target), -np.ones(3, np.float32))


def test_what_no_case_allows_is_an_error_of_the_model() -> None:
    with pytest.raises(DiagnosedModelError):
        op_names(SQUEEZED.format(output="float[K]", rest="y = Transpose<perm = [1, 2, 0]>(z)"))


@pytest.mark.parametrize("target", TARGETS)
def test_a_case_within_a_branch_that_is_chosen(target: str) -> None:
    text = """g (float[N] x, bool c) => (float[N] y) {
        yes = Constant<value = bool {1}>()
        z = If (yes) <then_branch = t () => (float[] a) {
            a = If (c) <then_branch = tt () => (float[] i) { i = Constant<value = float {2.0}>() },
                        else_branch = te () => (float[] j) { j = Constant<value_floats = [3.0]>() }>
        }, else_branch = e () => (float[] b) { b = Identity(x) }>
        y = Mul(x, z)
    }"""
    x = np.arange(3, dtype=np.float32)
    for holds, factor in ((True, 2), (False, 3)):
        assert_same(*run_text(text, {"x": x, "c": np.array(holds)}, target), x * np.float32(factor))


@pytest.mark.parametrize("target", TARGETS)
def test_more_cases_than_are_told_apart_become_values_of_any_rank(target: str) -> None:
    chain = "".join(
        f"""
        z{n} = If (c) <then_branch = t{n} () => (float[] a{n}) {{ a{n} = Constant<value = float {{{n}.0}}>() }},
                       else_branch = e{n} () => (float[] b{n}) {{ b{n} = Constant<value_floats = [{n}.0]>() }}>"""
        for n in range(5)
    )
    outputs = ", ".join(f"float[] z{n}" for n in range(5))
    results = run_text(f"g (bool c) => ({outputs}) {{{chain} }}", {"c": np.array(True)}, target)
    for n, found in enumerate(results):
        assert_same(found, np.array(n, np.float32))


# Operands of which only data tells the rank.


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 3), (0, 3)])
def test_an_input_of_any_rank(target: str, shape: tuple[int, ...]) -> None:
    text = """g (float[] x, float[3] b) => (float[] y, int64[N] s) {
        y = Add(x, b) t = Neg(y) s = Shape(t)
    }"""
    x, b = np.full(shape, 2, np.float32), np.arange(3, dtype=np.float32)
    y, s = run_text(text, {"x": x, "b": b}, target)
    assert_same(y, x + b)
    assert_same(s, np.array((x + b).shape))


@pytest.mark.parametrize("target", TARGETS)
def test_what_follows_tells_the_rank(target: str) -> None:
    text = "g (float[] x) => (float[N, M] y) { z = Neg(x) y = Transpose<perm = [1, 0]>(z) }"
    assert op_names(text) & {"if", "while"} == set()
    assert_same(*run_text(text, {"x": MATRIX}, target), -MATRIX.T)
    with pytest.raises(InputError, match=r"a value has the shape \[2\], and there is code for rank 2"):
        run_text(text, {"x": MATRIX[0]}, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("nodes", ["y = MatMul (x, w)", "p = Identity (x) v = MatMul (p, w) y = Neg (v)"])
def test_shapes_of_outputs_that_are_declared_wrong_speak_against_no_case(nodes: str, target: str) -> None:
    text = f"g (float[] x) => (float[1, 5] y) <float[2, 4] w = {{1, 2, 3, 4, 5, 6, 7, 8}}> {{ {nodes} }}"
    sign, w = -1 if "Neg" in nodes else 1, np.arange(1, 9, dtype=np.float32).reshape(2, 4)
    for x in (MATRIX, MATRIX[0], MATRIX[None]):
        with pytest.warns(ModelWarning, match="y is declared f32.1, 5. and is f32"):
            (y,) = run_text(text, {"x": x}, target)
        assert_same(y, sign * (x @ w))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(), (2,), (1,) * 7])
def test_a_rank_that_no_case_is_of_is_told_with_those_that_there_are(target: str, shape: tuple[int, ...]) -> None:
    text = "g (float[] x) => (float[] y) { e = Trilu (x) y = Neg (e) }"
    with pytest.raises(
        InputError, match=r"a value has the shape .*, and there is code for the ranks 2, 3, 4, 5 and 6"
    ) as caught:
        run_text(text, {"x": np.ones(shape, np.float32)}, target)
    assert caught.value.code == "declared-shape"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("place", [0, 1])
def test_elements_of_several_ranks(target: str, place: int) -> None:
    text = """g (float x, float[N] v, int64 p) => (float[] y) {
        s = SequenceConstruct(x, v)
        taken = SequenceAt(s, p)
        y = Neg(taken)
    }"""
    x, v = np.array(1, np.float32), np.array([0, 2], np.float32)
    assert_same(*run_text(text, {"x": x, "v": v, "p": np.array(place)}, target), np.negative((x, v)[place]))


PAIRS = [((), ()), ((2, 1), (3,)), ((3,), (2, 1, 3)), ((), (0, 3)), ((1, 1, 1, 1, 1, 3), ())]
ELEMENTS = {
    "z = Mul(x, y)": lambda x, y: x * y,
    "z = Less(x, y)": lambda x, y: x < y,
    "z = Pow(x, y)": lambda x, y: x**y,
    "z = Sum(x, y, b)": lambda x, y: x + y + np.float32([1, 2, 3]),
    "c = Less(x, y) z = Where(c, x, y)": np.minimum,
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "shapes", [((), ()), ((2, 1), (3,)), ((3,), (2, 1, 3)), ((), (0, 3)), ((1, 1, 1, 1, 1, 3), ())]
)
@pytest.mark.parametrize("nodes", ELEMENTS)
def test_elements_of_operands_of_any_ranks(nodes: str, shapes: tuple[tuple[int, ...], ...], target: str) -> None:
    x, y = (np.arange(np.prod(shape), dtype=np.float32).reshape(shape) for shape in shapes)
    output = "bool[]" if "Less" in nodes and "Where" not in nodes else "float[]"
    text = f"g (float[] x, float[] y) => ({output} z) <float[3] b = {{1, 2, 3}}> {{ {nodes} }}"
    assert_same(*run_text(text, {"x": x, "y": y}, target), np.asarray(ELEMENTS[nodes](x, y)))


@pytest.mark.parametrize("nodes", ["z = Mul(x, y)", "z = Sum(x, y, w)", "c = Less(x, y) z = Where(c, y, w)"])
def test_elements_of_operands_of_any_ranks_are_no_cases(nodes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"g (float[] x, float[] y, float[] w) => (float[] z) {{ {nodes} }}"
    assert count_of_lowered_nodes(text, monkeypatch) == nodes.count("=")


CHAIN = """g (float[] x, float[] y, float[] w) => (float[] z) {
    a = Add (x, y) b = Relu (a) c = Mul (b, w) d = Exp (c) e = Sub (d, x) f = Less (e, w) h = Not (f)
    i = Cast<to = 1> (h) z = Add (i, e)
}"""


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_computed_at_one_rank_goes_on_so(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_of_lowered_nodes(CHAIN, monkeypatch) == 9
    x, y, w = np.float32([[1], [-3]]), np.float32([0.5, 1, 2]), np.float32(0.25)
    e = np.exp(np.maximum(x + y, 0) * w) - x
    (z,) = run_text(CHAIN, {"x": x, "y": y, "w": np.array(w)}, target)
    assert_close(z, (e >= w).astype(np.float32) + e)


@pytest.mark.parametrize("target", TARGETS)
def test_more_axes_than_are_told_apart_are_an_error_of_the_call(target: str) -> None:
    x = np.ones((1,) * 7, np.float32)
    with pytest.raises(InputError, match="at most 6 axes are told apart"):
        run_text("g (float[] x, float[] y) => (float[] z) { z = Mul(x, y) }", {"x": x, "y": x}, target)


@pytest.mark.parametrize("target", TARGETS)
def test_texts_of_any_ranks(target: str) -> None:
    text = "g (string[] x, string[] y) => (string[] z) { z = StringConcat(x, y) }"
    (z,) = run_text(text, {"x": texts("a", "b"), "y": texts("c", "d")[:, None]}, target)
    assert np.asarray(z).tolist() == [["ac", "bc"], ["ad", "bd"]]


# Operands of which only the operator tells the rank.


NORMALIZED = """g (float[] x, float[] s, float[] b, float[] m, float[] v) => (float[] y) {
    y = BatchNormalization (x, s, b, m, v)
}"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 1, 2), (0, 3, 4)])
def test_operands_have_the_rank_that_the_operator_gives_them(target: str, shape: tuple[int, ...]) -> None:
    x, one = np.arange(np.prod(shape), dtype=np.float32).reshape(shape), np.ones(3, np.float32)
    scale, mean = np.float32([1, -2, 0.5]), np.float32([0, 1, 2])
    (y,) = run_text(NORMALIZED, {"x": x, "s": scale, "b": one, "m": mean, "v": one * 4}, target)
    axes = (slice(None), *[None] * (len(shape) - 2))
    assert_close(y, (x - mean[axes]) / np.float32(np.sqrt(4 + 1e-5)) * scale[axes] + 1)


@pytest.mark.parametrize("target", TARGETS)
def test_another_rank_than_the_operator_gives_is_an_error_of_the_call(target: str) -> None:
    one = np.ones(3, np.float32)
    with pytest.raises(InputError, match=r"shape \[1, 3\]") as caught:
        run_text(NORMALIZED, {"x": MATRIX.T, "s": one[None], "b": one, "m": one, "v": one}, target)
    assert caught.value.code == "declared-shape"


def test_ranks_are_given_to_inputs_that_there_are() -> None:
    for operator, ranks in RANKS.items():
        domain = TRAINING if operator in ("Adagrad", "Adam", "Momentum") else ""
        known = {formal.name for each in versions_of(domain, operator) for formal in each.inputs}
        assert known.issuperset(ranks), operator
        tellers = {rank[0] for rank in ranks.values() if isinstance(rank, tuple)}
        assert known.issuperset(tellers), operator


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(5,), (2, 3)])
def test_operands_have_the_rank_of_another(target: str, shape: tuple[int, ...]) -> None:
    text = "g (float[] x, int64[] i, float[] u) => (float[] y) { y = ScatterElements (x, i, u) }"
    x, updates = np.zeros(shape, np.float32), np.ones((1,) * len(shape), np.float32)
    given = {"x": x, "i": np.ones(updates.shape, np.int64), "u": updates}
    expected = x.copy()
    expected[(1, 0)[: len(shape)]] = 1
    assert_same(*run_text(text, given, target), expected)
    with pytest.raises(InputError, match="a value has the shape") as caught:
        run_text(text, {**given, "u": updates[None]}, target)
    assert caught.value.code == "declared-shape"


STEP = """<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]>
g (float[] r, int64[] t, float[] x, float[] d, float[] v) => (float[] y, float[] z) {
    y, z = ai.onnx.preview.training.Momentum
        <alpha = 0.5, beta = 1.0, norm_coefficient = 0.0, mode = "standard"> (r, t, x, d, v)
}"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_what_belongs_to_a_tensor_has_its_rank(target: str, shape: tuple[int, ...]) -> None:
    one = np.ones(shape, np.float32)
    given = {"r": np.float32([2]), "t": np.array(1), "x": one, "d": one * 3, "v": one * 4}
    y, z = run_text(STEP, given, target)
    assert_same(z, np.asarray(one * 5))
    assert_same(y, np.asarray(one - 10))
    with pytest.raises(InputError, match="what belongs to it differ in rank"):
        run_text(STEP, {**given, "v": one[None]}, target)
    known = STEP.replace("float[] v", f"float[{', '.join('ABC'[: len(shape)])}] v")
    assert_same(run_text(known, given, target)[0] if shape else y, np.asarray(one - 10))


def test_tensors_of_a_step_need_no_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    # Once without a case, and once for each of the rate and the count of steps, which are one element.
    assert count_of_lowered_nodes(STEP, monkeypatch) <= 3
    several = STEP.replace("float[] d", "float[] x2, float[] d").replace(
        "float[] v", "float[] d2, float[] v, float[] v2"
    )
    several = several.replace("x, d, v", "x, x2, d, d2, v, v2")
    assert count_of_lowered_nodes(several, monkeypatch) <= 3


OF_ANOTHER_RANK = {
    "y = NonMaxSuppression (a, b, i, c, d)": "float[] a, float[] b, int64[] i, float[] c, float[] d",
    "y = ScatterElements (a, i, b)": "float[] a, int64[] i, float[] b",
    "y = GridSample (a, b)": "float[] a, float[] b",
    "y = SoftmaxCrossEntropyLoss (a, i, b)": "float[] a, int64[] i, float[] b",
    "y = DequantizeLinear <axis = 0, block_size = 2> (c, a)": "uint8[] c, float[] a",
}


@pytest.mark.parametrize("node", OF_ANOTHER_RANK)
def test_ranks_that_another_operand_tells_are_no_cases(node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"g ({OF_ANOTHER_RANK[node]}) => (y) {{ {node} }}"
    # One lowering without a case, seven for the ranks of the first operand, and one for each further operand in each.
    operands = OF_ANOTHER_RANK[node].count(",") + 1
    assert count_of_lowered_nodes(text, monkeypatch) <= 1 + 7 * operands


QUANTISED = """g (uint8[] x, float[] s, uint8[] z, uint8[] w, float[] t, uint8[] u, float[] r, uint8[] q) => (y) {
    y = QLinearConv (x, s, z, w, t, u, r, q)
}"""


def test_ranks_that_a_convolution_has_not_end_before_its_scales_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # The ranks 0, 1 and 2 end after two operands; those of the scales of filters are cases of the four others.
    assert count_of_lowered_nodes(QUANTISED, monkeypatch) <= 160


# Masks of attention, and bodies that declare ranks.

MASKED = """<ir_version: 11, opset_import: ["" : 24]>
g (float[B, 2, S, 3] q, float[B, 2, T, 3] k, float[B, 2, T, 3] v, float{mask} m) => (y) {{
    y = Attention (q, k, v, m)
}}"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(4,), (2, 4), (2, 1, 4), (1, 2, 1, 4), (2, 3), (1,)])
def test_a_mask_of_any_rank(target: str, shape: tuple[int, ...]) -> None:
    draw = np.random.default_rng(0)
    given = {name: draw.random((1, 2, size, 3), np.float32) for name, size in (("q", 2), ("k", 4), ("v", 4))}
    mask = draw.random(shape, np.float32)
    known = MASKED.format(mask=f"[{', '.join('LMNO'[: len(shape)])}]")
    (expected,) = run_text(known, {**given, "m": mask}, target)
    (found,) = run_text(MASKED.format(mask="[]"), {**given, "m": mask}, target)
    assert_close(found, expected, terms=8)
    with pytest.raises(InputError, match="attn_mask has no axes"):
        run_text(MASKED.format(mask="[]"), {**given, "m": np.float32(1)}, target)


SCANS = {
    9: """<ir_version: 8, opset_import: ["" : 9]> g (float[] s, float[] x) => (y, z) {
        y, z = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] e) => (float[2] c, float[2] d)
            { c = Add (a, e) d = Identity (c) }> (s, x) }""",
    8: """<ir_version: 8, opset_import: ["" : 8]> g (float[] s, float[] x) => (y, z) {
        y, z = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] e) => (float[2] c, float[2] d)
            { c = Add (a, e) d = Identity (c) }> ("", s, x) }""",
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("opset", SCANS)
def test_what_a_body_declares_tells_the_ranks(opset: int, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = (1,) * (9 - opset)
    given = {"s": np.ones((*batch, 2), np.float32), "x": np.ones((*batch, 3, 2), np.float32)}
    last, each = run_text(SCANS[opset], given, target)
    assert_same(last, np.full((*batch, 2), 4, np.float32))
    assert_same(each, np.cumsum(given["x"], axis=-2, dtype=np.float32) + 1)
    assert count_of_lowered_nodes(SCANS[opset], monkeypatch) == 5


def test_for_types_alone_cases_end_where_none_changes_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    def model(rest: str) -> CheckedModel:
        header = '<ir_version: 10, opset_import: ["" : 21]>'
        text = f"{header} g (float[] x) => (y) {{ t = LpNormalization <axis = 0> (x) {rest} }}"
        return check_model(read_model(model_from_text(text)))

    # One node without a case, one in the rank that it has not, two in the rank that Trilu has not, and two in two more.
    counted = count_of_lowered_nodes_by(lambda: infer_types(model("y = Trilu <upper = 0> (t)")), monkeypatch)
    assert counted == 1 + 1 + 2 + 2 + 2
    assert str(infer_types(model("y = Shape (t)")).find("y")) == "i64[y_dim0]"


# Products of matrices of which only data tells the ranks.

MATRIX_SHAPES = [
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((5, 1, 2, 3), (6, 3, 4)),
    ((1, 0, 3), (3, 1)),
    ((2, 0), (0, 4)),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("left", "right"), MATRIX_SHAPES)
def test_products_of_matrices_of_any_ranks(left: tuple[int, ...], right: tuple[int, ...], target: str) -> None:
    a = np.arange(np.prod(left), dtype=np.float32).reshape(left)
    b = np.arange(np.prod(right), dtype=np.float32).reshape(right) - 5
    text = "g (float[] a, float[] b) => (float[] y) { y = MatMul (a, b) }"
    assert_same(*run_text(text, {"a": a, "b": b}, target), np.asarray(a @ b))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shapes", [((), (3,)), ((3,), ()), ((2, 3), (4, 3))])
def test_matrices_of_any_ranks_that_do_not_fit_are_an_error_of_the_call(
    shapes: tuple[tuple[int, ...], ...], target: str
) -> None:
    a, b = (np.ones(shape, np.float32) for shape in shapes)
    with pytest.raises(InputError):
        run_text("g (float[] a, float[] b) => (float[] y) { y = MatMul (a, b) }", {"a": a, "b": b}, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("b_type", "left", "right", "rows", "columns"),
    [
        ("uint8[]", (2, 3), (3, 4), (), ()),
        ("uint8[]", (2, 3), (3, 4), (2,), (4,)),
        ("uint8[K, N]", (2, 3), (3, 4), (2,), (4,)),
        ("uint8[3, 4]", (2, 3), (3, 4), (1,), (1,)),
        ("uint8[]", (5, 2, 3), (3, 4), (), (4,)),
        ("uint8[3, 4]", (5, 2, 3), (3, 4), (1,), (4,)),
        ("uint8[]", (5, 2, 3), (5, 3, 4), (5, 2, 1), (5, 1, 4)),
        ("uint8[3, 4]", (3,), (3, 4), (), (4,)),
        ("uint8[]", (2, 3), (3,), (2,), ()),
        ("uint8[3]", (2, 3), (3,), (2,), ()),
    ],
)
def test_zero_points_of_matrices_of_any_ranks(
    b_type: str,
    left: tuple[int, ...],
    right: tuple[int, ...],
    rows: tuple[int, ...],
    columns: tuple[int, ...],
    target: str,
) -> None:
    shapes = {"a": left, "b": right, "s": rows, "t": columns}
    given = {name: np.arange(np.prod(shape), dtype=np.uint8).reshape(shape) for name, shape in shapes.items()}
    a, b, s, t = (array.astype(np.int32) for array in given.values())
    shift = s[:, None] if s.ndim == 1 else s
    text = f"g (uint8[] a, {b_type} b, uint8[] s, uint8[] t) => (int32[] y) {{ y = MatMulInteger (a, b, s, t) }}"
    expected = (a - shift) @ (b - t)
    assert_same(*run_text(text, given, target), expected.reshape(*left[:-1], *right[-1:] * (len(right) > 1)))


PRODUCTS = {
    "MatMul (a, b)": "float[] a, float[] b",
    "MatMulInteger (a, b, s, t)": "uint8[] a, uint8[] b, uint8[] s, uint8[] t",
    "QLinearMatMul (a, p, s, b, q, t, r, u)": (
        "uint8[] a, float[] p, uint8[] s, uint8[] b, float[] q, uint8[] t, float[] r, uint8[] u"
    ),
}


@pytest.mark.parametrize("node", PRODUCTS)
def test_matrices_of_any_ranks_are_no_cases(node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_of_lowered_nodes(f"g ({PRODUCTS[node]}) => (y) {{ y = {node} }}", monkeypatch) == 1


# Scales that are broadcast to what they scale.


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("scale", [(), (4,), (3, 4), (1, 3, 1), (2, 3, 4)])
@pytest.mark.parametrize("node", ["LayerNormalization <axis = 1> (x, s, s)", "RMSNormalization <axis = -1> (x, s)"])
def test_scales_of_any_rank(node: str, scale: tuple[int, ...], target: str) -> None:
    given = {"x": CUBE, "s": np.arange(np.prod(scale), dtype=np.float32).reshape(scale)}
    header = '<ir_version: 10, opset_import: ["" : 23]>\n'
    text = f"{header}g (float[] x, float[] s) => (float[] y) {{ y = {node} }}"
    ranked = text.replace("float[] x", "float[2, 3, 4] x").replace("float[] s", f"float{list(scale) or ''} s")
    (y,), (expected,) = run_text(text, given, target), run_text(ranked, given, target)
    assert_close(y, expected)


@pytest.mark.parametrize("node", ["LayerNormalization <axis = 0> (x, s, b)", "LayerNormalization (x, s, b)"])
def test_scales_of_any_rank_are_no_cases(node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"g (float[] x, float[] s, float[] b) => (y) {{ y = {node} }}"
    assert count_of_lowered_nodes(text, monkeypatch) <= 1 + 7


# Slices at given indices, where only data tells several ranks.

INDEXED = {
    0: "g (float[] x, int64[] i) => (float[] y) { y = GatherND (x, i) }",
    1: "g (float[] x, int64[] i) => (float[] y) { y = GatherND <batch_dims = 1> (x, i) }",
}
SCATTERED = 'g (float[] x, int64[] i, float[] u) => (float[] y) {{ y = ScatterND <reduction = "{kind}"> (x, i, u) }}'


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("x", "batch", "index", "expected"),
    [
        (CUBE, 0, [[0, 1], [-1, -3]], CUBE[[0, 1], [1, 0]]),
        (CUBE, 0, [1, 2, 3], CUBE[1, 2, 3]),
        (CUBE, 1, [[[0]], [[-1]]], CUBE[[0, 1], [0, 2]][:, None]),
        (CUBE[0, 0], 0, [[[3]]], CUBE[:1, :1, 3]),
        (CUBE[:, :, :0], 0, [[9]], CUBE[:1, :, :0]),
    ],
)
def test_slices_at_indices_of_any_rank(
    x: np.ndarray, batch: int, index: list[object], expected: np.ndarray, target: str
) -> None:
    given = {"x": x, "i": np.array(index, np.int64)}
    assert_same(*run_text(INDEXED[batch], given, target), np.asarray(expected))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["none", "add", "max"])
@pytest.mark.parametrize(
    ("x", "index", "updates"),
    [
        (CUBE, [[0], [-1]], -CUBE),
        (CUBE, [[[0, 1]], [[1, 2]]], np.ones((2, 1, 4), np.float32)),
        (CUBE[0, 0], [2], np.float32(7)),
        (CUBE, np.zeros((1, 0)), CUBE[None] * 2),
        (CUBE, np.zeros((0, 2)), CUBE[:0, 0]),
    ],
)
def test_slices_are_replaced_at_indices_of_any_rank(
    x: np.ndarray, index: object, updates: np.ndarray, kind: str, target: str
) -> None:
    given = {"x": x, "i": np.array(index, np.int64), "u": np.asarray(updates)}
    ranked = SCATTERED.format(kind=kind)
    for name, array in given.items():
        ranked = ranked.replace(f"[] {name}", f"{list(array.shape)} {name}")
    assert_same(*run_text(SCATTERED.format(kind=kind), given, target), *run_text(ranked, given))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("text", "index", "code"),
    [
        (INDEXED[0], [[2, 0]], "index-out-of-range"),
        (INDEXED[0], [[0, -4]], "index-out-of-range"),
        (INDEXED[0], [0, 0, 0, 0], "illegal-data"),
        (INDEXED[0], 0, "illegal-data"),
        (INDEXED[0], np.zeros((2, 0)), "illegal-data"),
        (INDEXED[1], [[0]], "illegal-data"),
        (SCATTERED.format(kind="none"), [[5]], "index-out-of-range"),
        (SCATTERED.format(kind="add"), [[0, 0]], "illegal-data"),
    ],
)
def test_indices_of_any_rank_that_do_not_fit_are_an_error_of_the_call(
    text: str, index: object, code: str, target: str
) -> None:
    given = {"x": CUBE, "i": np.array(index, np.int64)} | ({"u": CUBE[:1]} if " u)" in text else {})
    with pytest.raises(InputError) as caught:
        run_text(text, given, target)
    assert caught.value.code == code


@pytest.mark.parametrize("text", [*INDEXED.values(), SCATTERED.format(kind="mul")])
def test_indices_of_any_rank_are_no_cases(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_of_lowered_nodes(text, monkeypatch) == 1


# Sizes that only data tells, which decide on a rank.


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [[], [6], [3, -1], [1, 2, 0]])
def test_a_shape_of_any_length(target: str, shape: list[int]) -> None:
    text = "g (float[A, B, C] x, int64[L] shape) => (float[] y) { r = Reshape(x, shape) y = Neg(r) }"
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)[:, :, : 3 if shape else 1][:, : 2 if shape else 1]
    wanted = [x.shape[place] if size == 0 else size for place, size in enumerate(shape)]
    assert_same(*run_text(text, {"x": x, "shape": np.array(shape, np.int64)}, target), -x.reshape(wanted))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("shape", "wanted", "zero", "result"),
    [
        ((2, 3), [3, -1], 0, (3, 2)),
        ((2, 3), [0, 1, 3], 0, (2, 1, 3)),
        ((2, 3), [], 0, None),
        ((), [], 0, ()),
        ((1, 1), [], 0, ()),
        ((0, 4), [0, -1], 0, (0, 4)),
        ((0, 4), [3, 0], 1, (3, 0)),
        ((0, 4), [0, -1], 1, None),
        ((2,), [0, 0], 0, None),
        ((2,), [-1, -1], 0, None),
        ((2,), [-2], 0, None),
    ],
)
def test_any_rank_is_reshaped_to_any_rank(
    shape: tuple[int, ...], wanted: list[int], zero: int, result: tuple[int, ...] | None, target: str
) -> None:
    text = f"g (float[] x, int64[] s) => (float[] y) {{ r = Reshape<allowzero = {zero}>(x, s) y = Neg(r) }}"
    given = {"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape), "s": np.array(wanted, np.int64)}
    if result is not None:
        assert_same(*run_text(text, given, target), np.negative(given["x"]).reshape(result))
        return
    with pytest.raises(InputError, match="cannot be reshaped") as caught:
        run_text(text, given, target)
    assert caught.value.code == "illegal-data"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("operator", "axes", "result"),
    [
        ("Unsqueeze", [0], (1, 2, 1, 3)),
        ("Unsqueeze", [-1, 1], (2, 1, 1, 3, 1)),
        ("Unsqueeze", [], (2, 1, 3)),
        ("Unsqueeze", [0, 0], None),
        ("Squeeze", [-2], (2, 3)),
        ("Squeeze", [0], None),
        ("Squeeze", [3], None),
    ],
)
def test_axes_of_any_number_of_any_rank(
    operator: str, axes: list[int], result: tuple[int, ...] | None, target: str
) -> None:
    text = f"g (float[] x, int64[] axes) => (float[] y) {{ y = {operator}(x, axes) }}"
    given = {"x": np.arange(6, dtype=np.float32).reshape(2, 1, 3), "axes": np.array(axes, np.int64)}
    if result is not None:
        assert_same(*run_text(text, given, target), given["x"].reshape(result))
        return
    with pytest.raises(InputError, match=r"axes .* of a value of shape") as caught:
        run_text(text, given, target)
    assert caught.value.code == "illegal-data"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("shape", "wanted", "result"),
    [
        ((2, 1), [3], (2, 3)),
        ((3,), [2, 1, 3], (2, 1, 3)),
        ((), [], ()),
        ((1, 2), [0, 1], (0, 2)),
        ((2,), [3], None),
        ((2,), [-1], None),
    ],
)
def test_any_rank_is_expanded_to_any_rank(
    shape: tuple[int, ...], wanted: list[int], result: tuple[int, ...] | None, target: str
) -> None:
    given = {"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape), "s": np.array(wanted, np.int64)}
    if result is not None:
        expected = np.broadcast_to(given["x"], result).copy()
        assert_same(*run_text("g (float[] x, int64[] s) => (float[] y) { y = Expand (x, s) }", given, target), expected)
        return
    with pytest.raises(InputError, match="cannot be expanded") as caught:
        run_text("g (float[] x, int64[] s) => (float[] y) { y = Expand (x, s) }", given, target)
    assert caught.value.code == "illegal-data"


@pytest.mark.parametrize("target", TARGETS)
def test_a_shape_that_is_no_vector_is_an_error_of_the_call(target: str) -> None:
    for shape in (np.array(6), np.array([[6]])):
        with pytest.raises(InputError, match="is not a vector"):
            run_text("g (float[] x, int64[] s) => (float[] y) { y = Reshape(x, s) }", {"x": MATRIX, "s": shape}, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_element_comes_in_any_rank(target: str, shape: tuple[int, ...]) -> None:
    text = """g (float[] x, int64[] k, bool[] c, int64[] m) => (float[] v, int64[] i, float[] y) {
        v, i = TopK (x, k)
        y = Loop (m, c, x) <body = b (int64 n, bool go, float[] s) => (bool on, float[] t) {
            on = Identity (go)
            t = Neg (s)
        }>
    }"""
    x = np.float32([[1, 3, 2]])
    given = {"x": x, "k": np.full(shape, 2), "c": np.full(shape, True), "m": np.full(shape, 3)}
    values, indices, y = run_text(text, given, target)
    assert_same(values, np.float32([[3, 2]]))
    assert_same(indices, np.int64([[1, 2]]))
    assert_same(y, -x)
    with pytest.raises(InputError, match="one element is expected") as caught:
        run_text(text, {**given, "k": np.array([1, 2])}, target)
    assert caught.value.code == "declared-shape"


MOVED = (
    "y = Reshape (x, v)",
    "y = Expand (x, v)",
    "y = Unsqueeze (x, v)",
    "y = Slice (x, v, v)",
    "y = Slice (x, v, v, v, v)",
)


@pytest.mark.parametrize("node", MOVED)
def test_vectors_of_any_length_are_no_cases(node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"g (float[] x, int64[] v) => (float[] y) {{ {node} }}"
    assert count_of_lowered_nodes(text, monkeypatch) <= 1 + 7 * 2
    vector = f"g (float[] x, int64[N] v) => (float[] y) {{ {node} }}"
    assert count_of_lowered_nodes(vector, monkeypatch) <= 1 + 7


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("index", [[1], [1, -1], [0, 1, 0]])
def test_indices_of_any_depth(target: str, index: list[int]) -> None:
    text = "g (float[2, 2, 2] x, int64[D] index) => (float[] y) { y = GatherND(x, index) }"
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    assert_same(*run_text(text, {"x": x, "index": np.array(index)}, target), np.asarray(x[tuple(index)]))


@pytest.mark.parametrize("target", TARGETS)
def test_more_elements_than_there_may_be_axes_are_an_error_of_the_call(target: str) -> None:
    text = "g (int64[L] shape) => (float[] y) { y = ConstantOfShape(shape) }"
    with pytest.raises(InputError, match="length of input"):
        run_text(text, {"shape": np.ones(9, np.int64)}, target)


# How far cases are told apart.


def reshaped(count: int, declared: str = "") -> str:
    """`count` inputs brought into shapes of unknown length, and added up."""
    inputs = ", ".join(f"float[N{n}] x{n}, int64[L{n}] s{n}" for n in range(count))
    nodes = [f"r{n} = Reshape(x{n}, s{n})" for n in range(count)]
    sums = [f"t{n} = Add({f't{n - 1}' if n > 1 else 'r0'}, r{n})" for n in range(1, count)]
    infos = ", ".join(f"float[{declared}] r{n}" for n in range(count)) if declared else ""
    return f"g ({inputs}) => (float[] t{count - 1}) {f'<{infos}>' if infos else ''} {{ {' '.join((*nodes, *sums))} }}"


def count_of_lowered_nodes(text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    return count_of_lowered_nodes_by(lambda: op_names(text), monkeypatch)


def count_of_lowered_nodes_by(work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> int:
    lowered = []

    def counted(node: Node, frame: Frame) -> NodeOutcome:
        lowered.append(node)
        return call_operator(node, frame)

    monkeypatch.setattr(walk_module, "call_operator", counted)
    work()
    return len(lowered)


@pytest.mark.parametrize("target", TARGETS)
def test_declared_ranks_decide_on_any_number_of_lengths(target: str) -> None:
    text = reshaped(6, "A, B")
    assert op_names(text) & {"if", "while"} == set()
    inputs = {f"x{n}": np.full(6, n, np.float32) for n in range(6)} | {f"s{n}": np.array([2, 3]) for n in range(6)}
    assert_same(*run_text(text, inputs, target), np.full((2, 3), 15, np.float32))
    with pytest.raises(InputError, match="the length of shape"):
        run_text(text, {**inputs, "s5": np.array([6])}, target)


def test_a_case_that_cannot_be_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # For each Reshape one lowering without a case and one for each of nine lengths, then the five sums.
    assert count_of_lowered_nodes(reshaped(6, "A, B"), monkeypatch) == 6 * 10 + 5


def test_the_work_of_telling_cases_apart_is_bounded() -> None:
    with pytest.raises(UnsupportedError, match=r"the length of shape .* more cases than are told apart"):
        op_names(reshaped(3))


# Squeeze without axes, of axes of symbolic size.


@pytest.mark.parametrize("target", TARGETS)
def test_a_rank_that_follows_from_what_comes_later_leaves_no_host_step(target: str) -> None:
    text = "g (float[N, 3, 1] x, float[3, 2] w) => (float[M, 2] y) { z = Squeeze(x) y = MatMul(z, w) }"
    assert "host" not in op_names(text)
    x, w = np.arange(6, dtype=np.float32).reshape(2, 3, 1), np.ones((3, 2), np.float32)
    assert_same(*run_text(text, {"x": x, "w": w}, target), x[:, :, 0] @ w)
    with pytest.raises(InputError):
        run_text(text, {"x": x[:1], "w": w}, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("batch", [0, 1, 2])
def test_both_ranks_of_what_is_squeezed_are_native(target: str, batch: int) -> None:
    text = (
        "g (float[N, 1, 3] x) => (int64[R] s, float t) { z = Squeeze(x) s = Shape(z) t = ReduceSum<keepdims = 0>(z) }"
    )
    assert "host" not in op_names(text)
    x = np.arange(batch * 3, dtype=np.float32).reshape(batch, 1, 3)
    s, t = run_text(text, {"x": x}, target)
    assert_same(s, np.array(x.squeeze().shape))
    assert_same(t, x.sum(dtype=np.float32))


def test_ranks_that_nothing_is_squeezed_to_are_no_cases() -> None:
    text = "g (float[N, 1, 3] x) => (float[A, B] b) { z = Squeeze(x) a, b = Split<axis = 1, num_outputs = 2>(z) }"
    assert op_names(text) & {"if", "host"} == set()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(1, 1, 2), (3, 1, 2), (1, 3, 2), (3, 2, 2)])
def test_several_axes_may_be_squeezed(target: str, shape: tuple[int, ...]) -> None:
    text = "g (float[N, M, 2] x, float[2] w) => (float[] y) { z = Squeeze(x) y = Add(z, w) }"
    x, w = np.arange(np.prod(shape), dtype=np.float32).reshape(shape), np.float32([1, 2])
    assert_same(*run_text(text, {"x": x, "w": w}, target), x.squeeze() + w)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axes", [[0], [-1, 1], [0, 1, 2]])
def test_axes_of_any_number_are_reduced(target: str, axes: list[int]) -> None:
    text = "g (uint8[2, 3, 4] x, int64[L] axes) => (uint8[] y) { y = ReduceMax<keepdims = 0>(x, axes) }"
    x = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    assert_same(*run_text(text, {"x": x, "axes": np.array(axes)}, target), np.asarray(x.max(tuple(axes))))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("noop", [0, 1])
@pytest.mark.parametrize("axes", [[], [0], [-1], [-3, 2], [1, 0, 2]])
def test_axes_of_any_number_of_any_rank_are_reduced(axes: list[int], noop: int, keep: int, target: str) -> None:
    text = f"""g (float[] x, int64[] axes) => (float[] y) {{
        y = ReduceMean<keepdims = {keep}, noop_with_empty_axes = {noop}>(x, axes)
    }}"""
    folded = tuple(axes) or (() if noop else None)
    expected = np.asarray(CUBE.mean(folded, keepdims=bool(keep), dtype=np.float32))
    assert_close(*run_text(text, {"x": CUBE, "axes": np.array(axes, np.int64)}, target), expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axes", [[3], [-4], [0, -3], [[0]]])
def test_axes_that_there_are_not_of_any_rank_are_an_error_of_the_call(axes: list[object], target: str) -> None:
    text = "g (float[] x, int64[] axes) => (float[] y) { y = ReduceSum<keepdims = 0>(x, axes) }"
    with pytest.raises(InputError):
        run_text(text, {"x": CUBE, "axes": np.array(axes, np.int64)}, target)


@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceMean", "ReduceLogSumExp"])
def test_axes_of_any_number_of_any_rank_are_no_cases(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"g (float[] x, int64[] axes) => (float[] y) {{ y = {operator}<keepdims = 0>(x, axes) }}"
    assert count_of_lowered_nodes(text, monkeypatch) <= 2


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("axes", "pads", "widths"),
    [
        ([], [], [(0, 0)] * 3),
        ([1], [2, 3], [(0, 0), (2, 3), (0, 0)]),
        ([-1, 0], [1, 0, 2, 4], [(0, 4), (0, 0), (1, 2)]),
        ([0, 1, 2], [0, 1, 2, 3, 4, 5], [(0, 3), (1, 4), (2, 5)]),
    ],
)
@pytest.mark.parametrize(
    "types",
    ["float[] x, int64[] pads, float[] v, int64[] axes", "float[2, 3, 4] x, int64[P] pads, float v, int64[A] axes"],
)
def test_any_number_of_axes_is_padded(
    axes: list[int], pads: list[int], widths: list[tuple[int, int]], types: str, target: str
) -> None:
    text = f"g ({types}) => (float[] y) {{ y = Pad (x, pads, v, axes) }}"
    given = {"x": CUBE, "pads": np.array(pads, np.int64), "axes": np.array(axes, np.int64), "v": np.float32(7)}
    assert_same(*run_text(text, given, target), np.pad(CUBE, widths, constant_values=7))
    with pytest.raises(InputError):
        run_text(text, {**given, "pads": np.zeros(2 * len(axes) + 1, np.int64)}, target)


def test_any_number_of_padded_axes_is_no_case(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "g (float[] x, int64[] pads, float[] v, int64[] axes) => (float[] y) { y = Pad (x, pads, v, axes) }"
    assert count_of_lowered_nodes(text, monkeypatch) <= 1 + 7 * 4


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_slices_of_any_number_of_axes(target: str, count: int) -> None:
    text = """g (float[2, 3] x, int64[A] starts, int64[B] ends, int64[C] axes, int64[D] steps) => (float[] y) {
        y = Slice(x, starts, ends, axes, steps)
    }"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    given = {"starts": [1, -1], "ends": [2, -9], "axes": [0, 1], "steps": [1, -2]}
    vectors = {name: np.array(values[:count], np.int64) for name, values in given.items()}
    expected = (x, x[1:2], x[1:2, ::-2])[count]
    assert_same(*run_text(text, {"x": x, **vectors}, target), expected.copy())
    if count:
        with pytest.raises(InputError):
            run_text(text, {"x": x, **vectors, "ends": np.zeros(count + 1, np.int64)}, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_slices_of_any_number_of_leading_axes(target: str, count: int) -> None:
    text = "g (float[] x, int32[] starts, int32[] ends) => (float[] y) { y = Slice(x, starts, ends) }"
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    given = {"x": x, "starts": np.array([1, -2, 0][:count], np.int32), "ends": np.array([2, 9, 1][:count], np.int32)}
    if count <= x.ndim:
        assert_same(*run_text(text, given, target), (x, x[1:2], x[1:2, -2:])[count].copy())
        return
    with pytest.raises(InputError, match="more entries than data has axes"):
        run_text(text, given, target)
