"""The builder: broadcasting, sizes that fold, equalities that are decided or guarded, types and errors."""

import numpy as np
import pytest

from onnxc.compiler.diagnostics import DiagnosedModelError, Location
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import bcast, maximum, minimum
from onnxc.compiler.ir.dims import Dim, Size, floordiv
from onnxc.compiler.ir.dtypes import BF16, BOOL, F16, F32, F64, I32, I64, U8, DType
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.symbol_table import SymbolTable
from onnxc.compiler.ir.types import TensorType

N, M, K = (Size.symbol(name) for name in "NMK")


def tensor(build: Builder, *shape: Dim, dtype: DType = F32) -> Value:
    return build.parameter("x", TensorType(dtype, shape))


def names(build: Builder) -> list[str]:
    return [op.name for op in build.ops]


def guards(build: Builder) -> list[tuple[object, ...]]:
    ops = [op for op in build.ops if op.name == "guard"]
    return [(op.attributes["left"], op.text("relation"), op.attributes["right"]) for op in ops]


def failure(code: str) -> "pytest.RaisesExc[DiagnosedModelError]":
    return pytest.raises(DiagnosedModelError, match=rf"error\[{code}\]")


# Broadcasting


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ((), (), ()),
        ((), (2, 3), (2, 3)),
        ((2, 3), (), (2, 3)),
        ((3,), (2, 1), (2, 3)),
        ((2, 1), (3,), (2, 3)),
        ((1,), (0,), (0,)),
        ((0, 1), (1, 4), (0, 4)),
        ((N,), (N,), (N,)),
        ((N, 1), (1, M), (N, M)),
        ((1, M), (N, 1), (N, M)),
        ((N,), (1,), (N,)),
        ((), (N,), (N,)),
        ((N, 4), (4,), (N, 4)),
        ((4,), (N, 1, 4), (N, 1, 4)),
    ],
)
def test_operands_are_broadcast_as_in_numpy(
    left: tuple[Dim, ...], right: tuple[Dim, ...], result: tuple[Dim, ...]
) -> None:
    build = Builder()
    value = build.add(tensor(build, *left), tensor(build, *right))
    assert (value.dtype, value.shape) == (F32, result)
    assert guards(build) == []
    op = value.op
    assert op is not None
    assert [operand.shape for operand in op.operands] == [result, result]


@pytest.mark.parametrize(
    ("left", "right", "result", "guarded"),
    [
        ((N,), (M,), (bcast(N, M),), [(M, "broadcast", N)]),
        ((M,), (N,), (bcast(N, M),), [(M, "broadcast", N)]),
        ((N,), (3,), (3,), [(3, "broadcast", N)]),
        ((3,), (N,), (3,), [(3, "broadcast", N)]),
        ((N, M), (M, 1), (bcast(N, M), M), [(M, "broadcast", N)]),
        ((0,), (N,), (0,), [(0, "broadcast", N)]),
    ],
)
def test_what_is_undecided_is_guarded(
    left: tuple[Dim, ...], right: tuple[Dim, ...], result: tuple[Dim, ...], guarded: list[tuple[object, ...]]
) -> None:
    build = Builder()
    assert build.mul(tensor(build, *left), tensor(build, *right)).shape == result
    assert guards(build) == guarded


def test_a_guard_is_made_once() -> None:
    build = Builder()
    x, y = tensor(build, N), tensor(build, M)
    build.add(build.mul(x, y), build.sub(y, x))
    assert guards(build) == [(M, "broadcast", N)]


def test_three_operands_are_guarded_pairwise() -> None:
    build = Builder()
    assert build.broadcast_shape((N, 1), (M, 1), (K, 5)) == (bcast(N, M, K), 5)
    assert set(guards(build)) == {(M, "broadcast", N), (K, "broadcast", N), (K, "broadcast", M)}


@pytest.mark.parametrize(("left", "right"), [((2,), (3,)), ((0,), (2,)), ((N, 2), (3,)), ((2, 1), (1, 3, 1))])
def test_sizes_that_cannot_be_broadcast_are_an_error(left: tuple[Dim, ...], right: tuple[Dim, ...]) -> None:
    build = Builder()
    x, y = tensor(build, *left), tensor(build, *right)
    with failure("broadcast-mismatch"):
        build.add(x, y)


def test_broadcast_to_keeps_what_has_the_shape() -> None:
    build = Builder()
    x = tensor(build, N, 3)
    assert build.broadcast_to(x, (N, 3)) is x
    assert build.broadcast_to(x, (2, N, 3)).shape == (2, N, 3)
    op = build.ops[-1]
    assert op.attributes == {"axes": (1, 2), "shape": (2, N, 3)}


def test_a_condition_is_broadcast_with_both_sides() -> None:
    build = Builder()
    condition = tensor(build, 2, 1, dtype=BOOL)
    assert build.select(condition, tensor(build, N), 0.0).shape == (2, N)
    assert build.select(condition, 1.0, tensor(build, dtype=F16)).type == TensorType(F16, (2, 1))


# Numbers as operands


@pytest.mark.parametrize("dtype", [F64, F32, F16, BF16, I64, I32, U8], ids=str)
def test_a_number_takes_the_type_of_the_tensor(dtype: DType) -> None:
    build = Builder()
    x = tensor(build, 2, dtype=dtype)
    for value in (build.add(x, 3), build.sub(3, x), build.max(x, 1)):
        assert value.type == x.type
    constant = next(op for op in build.ops if op.name == "constant").array()
    assert (constant.dtype, constant.shape, float(constant)) == (dtype.numpy, (), 3.0)


def test_numbers_are_exact_in_their_type() -> None:
    build = Builder()
    array = build.known_array(build.scalar(0.1, F32))
    assert array is not None
    assert array.tobytes() == np.float32(0.1).tobytes()
    nothing = build.known_array(build.scalar(float("-inf"), BF16))
    assert nothing is not None
    assert float(nothing) == float("-inf")


def test_full_is_one_number_repeated() -> None:
    build = Builder()
    assert build.full((N, 2), 1.5, F32).type == TensorType(F32, (N, 2))
    assert names(build) == ["constant", "broadcast"]


# Sizes known while building


def test_a_chain_of_shape_arithmetic_becomes_a_size() -> None:
    """Shape, Gather, Mul, Concat, Reshape, as exporters write x.view(n * m, -1)."""
    build = Builder()
    x = tensor(build, N, M, 8)
    shape = build.sizes(x.shape)
    n, m = (build.gather(shape, build.constant(np.array(axis, np.int64)), 0) for axis in (0, 1))
    rows = build.unsqueeze(build.mul(n, m), [0])
    target = build.concatenate([rows, build.constant(np.array([8], np.int64))], 0)
    assert build.known(target) == (N * M, 8)
    result = build.reshape(x, build.read_sizes(target))
    assert result.shape == (N * M, 8)
    assert guards(build) == []
    assert names(build)[-1] == "reshape"
    assert "bind_sizes" not in names(build)


@pytest.mark.parametrize(
    ("make", "known"),
    [
        (lambda b, s: b.slice(s, (1,), (2,)), (M, 8)),
        (lambda b, s: b.reverse(s, 0), (8, M, N)),
        (lambda b, s: b.add(s, 1), (N + 1, M + 1, 9)),
        (lambda b, s: b.sub(s, s), (0, 0, 0)),
        (lambda b, s: b.div(s, 2), (floordiv(N, 2), floordiv(M, 2), 4)),
        (lambda b, s: b.div(b.sub(s, 1), 2), (maximum(0, floordiv(N - 1, 2)), maximum(0, floordiv(M - 1, 2)), 3)),
        (
            lambda b, s: b.slice(b.div(b.sub(s, 5), 2), (0,), (1,)),
            (floordiv(maximum(N - 5, 0), 2) - floordiv(maximum(5 - N, 0), 2),),
        ),
        (lambda b, s: b.slice(b.rem(b.sub(s, 1), 2), (1,), (2,)), (M - 1 - 2 * maximum(0, floordiv(M - 1, 2)), 1)),
        (lambda b, s: b.min(s, 5), (minimum(N, 5), minimum(M, 5), 5)),
        (lambda b, s: b.cast(s, I32), (N, M, 8)),
        (lambda b, s: b.reduce(s, "prod", [0]), (8 * N * M,)),
        (lambda b, s: b.reduce(s, "sum", [0], keepdims=True), (N + M + 8,)),
        (lambda b, s: b.gather(s, b.constant(np.array([2, 0])), 0), (8, N)),
        (lambda b, s: b.select(b.equal(s, s), s, -1), (N, M, 8)),
        (lambda b, s: b.less(s, 0), (0, 0, 0)),
        (lambda b, s: b.abs(b.neg(s)), (N, M, 8)),
        (lambda b, s: b.pad(s, (1,), (0,), 7), (7, N, M, 8)),
        (lambda b, s: b.broadcast_to(b.gather(s, b.constant(np.array(0)), 0), (2,)), (N, N)),
    ],
)
def test_sizes_are_followed(make: object, known: tuple[Dim, ...]) -> None:
    build = Builder()
    assert callable(make)
    assert build.known(make(build, build.sizes((N, M, 8)))) == known


@pytest.mark.parametrize(
    ("make", "known"),
    [
        (lambda b, s: b.select(b.less(s, 512), s, 512), (minimum(N, 512), minimum(M, 512))),
        (lambda b, s: b.select(b.less_equal(s, 512), 512, s), (maximum(N, 512), maximum(M, 512))),
        (lambda b, s: b.select(b.greater(s, 0), s, 0), (N, M)),
        (lambda b, s: b.cast(b.floor(b.mul(b.cast(s, F32), 0.5)), I64), (floordiv(N, 2), floordiv(M, 2))),
        (lambda b, s: b.cast(b.ceil(b.div(b.cast(s, F64), 3.0)), I64), (floordiv(N + 2, 3), floordiv(M + 2, 3))),
        (lambda b, s: b.cast(b.add(b.mul(b.cast(s, F32), 2.0), 1.0), I32), (2 * N + 1, 2 * M + 1)),
        (lambda b, s: b.pow(s, 2), (N * N, M * M)),
        (lambda b, s: b.scan_axis(s, "sum", 0), (N, N + M)),
        (lambda b, s: b.scan_axis(s, "sum", 0, exclusive=True, reverse=True), (M, 0)),
    ],
)
def test_sizes_are_followed_through_choices_fractions_and_sums(make: object, known: tuple[Dim, ...]) -> None:
    build = Builder()
    assert callable(make)
    assert build.known(make(build, build.sizes((N, M)))) == known


@pytest.mark.parametrize(
    "make",
    [
        lambda b, s: b.equal(s, 4),
        lambda b, s: b.less(s, 4),
        lambda b, s: b.cast(s, F32),
        lambda b, s: b.cast(s, U8),
        lambda b, s: b.div(s, b.sub(s, 5)),
        lambda b, s: b.pow(s, 9),
        lambda b, s: b.cast(b.sqrt(b.cast(s, F32)), I64),
        lambda b, s: b.cast(b.mul(b.cast(s, F32), 0.3), I64),
        lambda b, s: b.cast(b.div(b.mul(b.cast(s, F32), 5.0), b.cast(s, F32)), I64),
        lambda b, s: b.cast(b.sub(b.cast(s, F32), 4.5), I64),
        lambda b, s: b.cast(b.cast(b.reduce(s, "prod", [0]), F32), I64),
        lambda b, s: b.select(b.parameter("c", TensorType(BOOL, (2,))), s, 4),
        lambda b, s: b.gather(s, b.parameter("i", TensorType(I64, ())), 0),
        lambda b, s: b.unsqueeze(b.unsqueeze(s, [0]), [0]),
        lambda b, s: b.slice(s, (minimum(N, 1),), (1,)),
        lambda b, s: b.slice(b.constant(np.arange(4)), (minimum(N, 1),), (1,)),
    ],
)
def test_what_sizes_do_not_decide_is_computed(make: object) -> None:
    build = Builder()
    assert callable(make)
    value = make(build, build.sizes((N, M)))
    assert build.known(value) is None


def test_sizes_are_followed_through_tensors_of_rank_2() -> None:
    """Paddings, as exporters turn them around: concat, reshape to pairs, reverse, transpose, flatten."""
    build = Builder()
    pads = build.concatenate([build.sizes((N, M)), build.constant(np.array([0, 3], np.int64))], 0)
    pairs = build.reverse(build.reshape(pads, (2, 2)), 0)
    assert build.known(pairs) is None
    flat = build.reshape(build.transpose(pairs, (1, 0)), (4,))
    assert build.known(flat) == (0, N, 3, M)


def test_a_size_of_rank_0_stays_a_scalar() -> None:
    build = Builder()
    size = build.size(N + 1)
    assert size.type == TensorType(I64, ())
    assert build.known(size) == (N + 1,)
    assert build.mul(size, 2).type == TensorType(I64, ())
    number = build.size(3, I32)
    assert (number.type, build.known(number)) == (TensorType(I32, ()), (3,))


def test_constants_fold_with_the_meaning_of_the_primitive() -> None:
    build = Builder()
    a, b = build.constant(np.array([7, -7], np.int64)), build.constant(np.array([2, 0], np.int64))
    assert build.known(build.div(a, b)) == (3, 0)
    assert build.known(build.rem(a, b)) == (1, 0)
    wrapped = build.known_array(build.add(build.constant(np.array([2**31 - 1], np.int32)), 1))
    assert wrapped is not None
    np.testing.assert_array_equal(wrapped, np.array([-(2**31)], np.int32))
    assert wrapped.dtype == np.int32


def test_long_constants_are_data() -> None:
    build = Builder()
    assert build.known(build.constant(np.zeros(1025, np.int64))) is None
    assert build.known(build.constant(np.zeros((1, 2), np.int64))) is None
    assert build.known(build.constant(np.zeros(2, np.float32))) is None


def test_sizes_from_data_are_symbols_of_any_sign() -> None:
    build = Builder()
    a, b = build.read_sizes(tensor(build, 2, dtype=I32))
    assert (str(a), str(b)) == ("?size0", "?size1")
    assert names(build) == ["cast", "bind_sizes"]
    assert build.ops[-1].attributes["symbols"] == ("?size0", "?size1")
    (c,) = build.read_sizes(tensor(build, dtype=I64))
    assert c not in (a, b)
    assert build.symbols.ranges["?size0"] == (-(2**63), None)


@pytest.mark.parametrize("shape", [(N,), (2, 2)])
def test_sizes_are_read_from_vectors_of_known_length(shape: tuple[Dim, ...]) -> None:
    build = Builder()
    with failure("shape-not-a-vector"):
        build.read_sizes(tensor(build, *shape, dtype=I64))


def test_symbols_get_names_of_their_own() -> None:
    table = SymbolTable()
    assert [table.fresh("N"), table.fresh("N"), table.fresh("M"), table.fresh("N")] == ["N", "N_1", "M", "N_2"]
    build = Builder(table)
    assert build.nested().fresh_symbol("M") == Size.symbol("M_1")


# Equal sizes


@pytest.mark.parametrize(
    ("left", "right", "chosen", "guarded"),
    [
        (3, 3, 3, False),
        (N, N, N, False),
        (N, 3, 3, True),
        (3, N, 3, True),
        (N * M, K, K, True),
        (K, N * M, K, True),
        (N, M, N, True),
        (2 * N, 2 * N, 2 * N, False),
    ],
)
def test_the_more_definite_of_equal_sizes_is_chosen(left: Dim, right: Dim, chosen: Dim, guarded: bool) -> None:
    build = Builder()
    assert build.require_equal(left, right, "sizes differ") == chosen
    assert guards(build) == ([(left, "equal", right)] if guarded else [])


@pytest.mark.parametrize(("left", "right"), [(3, 4), (N, N + 1), (2 * N + 3, N), (N, -1), (minimum(N, 4), 5)])
def test_sizes_that_cannot_be_equal_are_an_error(left: Dim, right: Dim) -> None:
    build = Builder(location=Location("main", 4, "n", "ai.onnx.Add-14"))
    with failure("sizes-differ") as caught:
        build.require_equal(left, right, "inner sizes")
    (finding,) = caught.value.diagnostics
    assert finding.location == Location("main", 4, "n", "ai.onnx.Add-14")
    assert f"inner sizes: {left} and {right}" in finding.message


# Movement


def test_what_changes_nothing_makes_no_op() -> None:
    build = Builder()
    x = tensor(build, N, 2)
    assert build.reshape(x, (N, 2)) is x
    assert build.transpose(x, (0, 1)) is x
    assert build.broadcast(x, (0, 1), (N, 2)) is x
    assert build.slice(x, (0, 0), (N, 2)) is x
    assert build.pad(x, (0, 0), (0, 0)) is x
    assert build.concatenate([x], 0) is x
    assert build.cast(x, F32) is x
    assert build.reduce(x, "sum", []) is x
    assert build.squeeze(x, []) is x
    assert build.ops == []


@pytest.mark.parametrize(
    ("shape", "target", "guarded"),
    [
        ((2, 3), (6,), []),
        ((), (1, 1), []),
        ((0, 3), (0,), []),
        ((N, M), (N * M,), []),
        ((N, 4), (2, 2, N), []),
        ((N, 4), (8,), [(4 * N, "equal", 8)]),
        ((N,), (M,), [(N, "equal", M)]),
    ],
)
def test_reshape_keeps_the_number_of_elements(
    shape: tuple[Dim, ...], target: tuple[Dim, ...], guarded: list[tuple[object, ...]]
) -> None:
    build = Builder()
    assert build.reshape(tensor(build, *shape), target).shape == target
    assert guards(build) == guarded


@pytest.mark.parametrize(("shape", "target"), [((2, 3), (5,)), ((0,), (1,)), ((N, 2), (2 * N + 1,))])
def test_reshape_to_another_number_of_elements_is_an_error(shape: tuple[Dim, ...], target: tuple[Dim, ...]) -> None:
    build = Builder()
    with failure("reshape-elements"):
        build.reshape(tensor(build, *shape), target)


def test_squeeze_and_unsqueeze() -> None:
    build = Builder()
    x = tensor(build, 1, N, 1)
    assert build.squeeze(x, [0, 2]).shape == (N,)
    assert build.unsqueeze(x, [0, 4]).shape == (1, 1, N, 1, 1)
    assert guards(build) == []
    assert build.squeeze(x, [1]).shape == (1, 1)
    assert guards(build) == [(N, "equal", 1)]
    with failure("squeeze-size"):
        build.squeeze(tensor(build, 2), [0])


def test_concatenate_fits_the_other_axes() -> None:
    build = Builder()
    x, y = tensor(build, N, 2), tensor(build, 3, M)
    assert build.concatenate([x, y], 1).shape == (3, M + 2)
    assert guards(build) == [(N, "equal", 3)]
    with failure("concat-rank"):
        build.concatenate([x, tensor(build, 2)], 0)
    with failure("concat-sizes"):
        build.concatenate([tensor(build, 2, 2), tensor(build, 2, 3)], 0)


def test_reverse_starts_at_the_last_element() -> None:
    build = Builder()
    value = build.reverse(tensor(build, 2, N), 1)
    assert value.op is not None
    assert value.op.attributes == {"starts": (0, N - 1), "shape": (2, N), "steps": (1, -1)}


# Reductions and contractions


def test_a_reduction_keeps_axes_of_size_1_if_asked() -> None:
    build = Builder()
    x = tensor(build, N, 2, M)
    assert build.reduce(x, "max", [2, 0]).shape == (2,)
    assert build.reduce(x, "max", [2, 0], keepdims=True).shape == (1, 2, 1)
    assert build.mean(x, [1], keepdims=True).shape == (N, 1, M)
    assert build.mean(tensor(build), []).shape == ()


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ((2, 3), (3, 4), (2, 4)),
        ((3,), (3, 4), (4,)),
        ((2, 3), (3,), (2,)),
        ((3,), (3,), ()),
        ((N, 2, 3), (3, 4), (N, 2, 4)),
        ((2, 3), (N, 3, 4), (N, 2, 4)),
        ((5, 1, 2, 3), (6, 3, 4), (5, 6, 2, 4)),
        ((1, 2, 3), (1, 3, 4), (1, 2, 4)),
        ((N, 0), (0, M), (N, M)),
        ((3,), (N, 3, 4), (N, 4)),
    ],
)
def test_matmul_is_that_of_numpy(left: tuple[Dim, ...], right: tuple[Dim, ...], result: tuple[Dim, ...]) -> None:
    build = Builder()
    assert build.matmul(tensor(build, *left), tensor(build, *right)).type == TensorType(F32, result)
    assert guards(build) == []


def test_inner_sizes_are_equal_or_guarded() -> None:
    build = Builder()
    assert build.matmul(tensor(build, 2, N), tensor(build, 3, 4)).shape == (2, 4)
    assert guards(build) == [(N, "equal", 3)]
    with failure("inner-dimensions"):
        build.matmul(tensor(build, 2, 3), tensor(build, 4, 5))
    with failure("matmul-rank"):
        build.matmul(tensor(build), tensor(build, 4, 5))


def test_batches_of_matmul_are_guarded() -> None:
    build = Builder()
    assert build.matmul(tensor(build, N, 2, 3), tensor(build, M, 3, 4)).shape == (bcast(N, M), 2, 4)
    assert guards(build) == [(M, "broadcast", N)]


def test_dot_takes_equal_letters_for_equal_sizes() -> None:
    build = Builder()
    value = build.dot(tensor(build, N, 2, dtype=U8), tensor(build, 2, M, dtype=U8), "ab,bc->ca", I32)
    assert value.type == TensorType(I32, (M, N))
    with failure("contraction-rank"):
        build.dot(tensor(build, 2), tensor(build, 2), "ab,bc->ac")


def test_convolution_guards_its_channels() -> None:
    build = Builder()
    x, w = tensor(build, 1, N, 8), tensor(build, 4, 3, 3)
    assert build.convolution(x, w, (2,), (1,), (1,), (1,)).shape == (1, 4, 4)
    assert guards(build) == [(N, "equal", 3)]
    with failure("convolution-channels"):
        build.convolution(tensor(build, 1, 4, 8), w, (1,), (0,), (0,), (1,))
    with failure("type-mismatch"):
        build.convolution(tensor(build, 1, 3, 1), w, (1,), (0,), (0,), (1,))


# Indices


def test_negative_indices_count_from_the_end() -> None:
    build = Builder()
    assert build.known(build.wrap_negative(build.constant(np.array([-1, 0, 2], np.int32)), 5)) == (4, 0, 2)
    assert build.known(build.wrap_negative(build.constant(np.array([-1])), N)) == (N - 1,)
    data = build.wrap_negative(tensor(build, 3, dtype=I32), N)
    assert data.type == TensorType(I64, (3,))
    assert names(build)[-1] == "select"


def test_indices_known_to_be_in_range_stay_as_they_are() -> None:
    build = Builder()
    indices = build.constant(np.array([0, 7]))
    assert build.wrap_negative(indices, N) is indices


# Errors, locations, blocks


def test_operands_that_a_primitive_does_not_take_are_an_error_at_the_node() -> None:
    build = Builder()
    location = Location("main", 3, "n")
    with build.at(location), failure("type-mismatch") as caught:
        build.add(tensor(build, 2), tensor(build, 2, dtype=F64))
    (finding,) = caught.value.diagnostics
    assert (finding.location, finding.values) == (location, ("f32[2]", "f64[2]"))


def test_ops_carry_the_location_they_are_made_at() -> None:
    build = Builder()
    outer, inner = Location("main", 1), Location("main", 2)
    x = tensor(build, 2)
    with build.at(outer):
        build.neg(x)
        with build.at(inner):
            build.neg(x)
            assert build.nested().location == inner
        build.neg(x)
    build.neg(x)
    assert [op.location for op in build.ops] == [outer, inner, outer, None]


def test_a_location_is_left_even_through_an_error() -> None:
    build = Builder()
    with pytest.raises(KeyError), build.at(Location("main", 1)):
        raise KeyError
    assert build.location is None


def test_results_of_one_op_are_in_order() -> None:
    build = Builder()
    values, places = build.top_k(tensor(build, N, 4), 2, 1)
    assert (values.type, places.type) == (TensorType(F32, (N, 2)), TensorType(I64, (N, 2)))
    op: Op | None = values.op
    assert op is not None
    assert op.results == (values, places)
    assert (values.index, places.index) == (0, 1)


def test_integers_that_would_be_very_long_as_sizes_are_computed_by_the_call() -> None:
    build = Builder()
    total = build.sizes([N + M + K])
    for _ in range(6):
        total = build.mul(total, total)
    assert build.known(total) is None
    assert names(build)[-1] == "mul"


def test_sizes_stay_formulas_until_their_product_has_very_many_terms() -> None:
    build = Builder()
    assert build.short([N + M, 3, K], "size") == (N + M, 3, K)
    assert names(build) == []
    given = [N + M] * 9 + [3, K]
    assert build.short(given, "size") == (*(Size.symbol(f"size{k}") for k in range(9)), 3, K)
    assert names(build) == ["sizes", "bind_sizes"]


def test_adopted_ops_repeat_no_guard() -> None:
    build = Builder()
    build.guard(N, 1, "at_least", "outside")
    nested = build.nested()
    nested.guard(N, 1, "at_least", "inside")
    nested.guard(M, 1, "at_least", "inside")
    x = nested.iota((3,), 0, I64)
    build.adopt(nested)
    build.guard(M, 1, "at_least", "behind")
    assert guards(build) == [(N, "at_least", 1), (M, "at_least", 1)]
    assert build.ops[-1] is x.op
