"""Contractions: equations of every form, all element types, sizes around the tiles, and what is fused with them."""

import string

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.emit import kernel_pieces
from onnxc.compiler.codegen_cpu.inner_loops.integer_dots import PAIR
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import MicroKernel, ProductTypes
from onnxc.compiler.codegen_cpu.plan_target import cpu_plan_target
from onnxc.compiler.codegen_cpu.schedules.contractions import BLOCK_DEPTH, CHUNK_ROWS, GROUP_BLOCKS
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, I8, I32, I64, U8, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.planning.kernel_plan import segments_of
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.schedules import ContractionSchedule
from onnxc.compiler.target import Target, parse_target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make, precision, sample

EQUATIONS = [
    "mk,kn->mn", "km,kn->mn", "mk,nk->mn", "mk,kn->nm", "bmk,bkn->bmn", "bmk,kn->bmn", "mk,bkn->bmn", "bhmk,bhkn->bhmn",
    "bmhk,bnhk->bhmn", "bhmn,bnhk->bmhk", "k,kn->n", "mk,k->m", "k,k->", "m,n->mn", "m,k->km", "abk,abk->ab",
    "ab,ab->ab", "a,a->a", "mkl,kln->mn", "mkl,nlk->mn", "mkl,nkl->mn", "abk,bkn->anb", "abhk,kn->hban",
]  # fmt: skip

# The sizes of the letters in turn: odd, one, larger than every tile, empty where that may matter.
SIZES = [
    {"b": 2, "h": 3, "m": 5, "k": 7, "n": 9, "l": 2, "a": 3},
    dict.fromkeys(string.ascii_lowercase, 1),
    {"b": 2, "h": 2, "m": 100, "k": 300, "n": 70, "l": 3, "a": 2},
    {"b": 2, "h": 1, "m": 3, "k": 0, "n": 4, "l": 2, "a": 2},
    {"b": 1, "h": 1, "m": 3, "k": 33, "n": 130, "l": 0, "a": 2},
    {"b": 0, "h": 1, "m": 0, "k": 3, "n": 4, "l": 1, "a": 0},
    {"b": 1, "h": 1, "m": 13, "k": 20, "n": 64, "l": 1, "a": 1},
]


def _shapes(equation: str, sizes: dict[str, int]) -> list[tuple[int, ...]]:
    return [tuple(sizes[letter] for letter in term) for term in parse_equation(equation)[:2]]


def _types(equation: str, dtype: DType) -> list[str]:
    return [f"{dtype}[{', '.join(term.upper())}]" for term in parse_equation(equation)[:2]]


def _whole(dtype: DType, *shape: int, seed: int = 0) -> np.ndarray:
    """Small whole numbers: every order of summation gives the same."""
    low = -3 if dtype.is_signed or dtype.is_float else 0
    return np.random.default_rng((seed, *shape)).integers(low, 4, shape).astype(dtype.numpy)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("equation", EQUATIONS)
def test_equations(equation: str, target: Target) -> None:
    def build(ir: Builder, x: Value, y: Value) -> list[Value]:
        return [ir.dot(x, y, equation), ir.max(ir.sub(ir.dot(ir.neg(x), y, equation), 1.0), 0.0)]

    native = Native(make(_types(equation, F32), build), target)
    for sizes in SIZES:
        left, right = _shapes(equation, sizes)
        native.check(_whole(F32, *left), _whole(F32, *right, seed=1))


@pytest.mark.parametrize("dtype", [F64, F16, BF16, I64, I32, I8, U8], ids=str)
def test_element_types(dtype: DType) -> None:
    equations = ["mk,kn->mn", "bmk,bkn->bmn", "k,k->", "mk,nk->mn"]
    for equation in equations:
        native = Native(make(_types(equation, dtype), lambda ir, x, y, e=equation: ir.dot(x, y, e)))
        for sizes in SIZES[:2] + SIZES[3:4] + SIZES[6:]:
            left, right = _shapes(equation, sizes)
            native.check(_whole(dtype, *left), _whole(dtype, *right, seed=1), bound=precision(dtype))


@pytest.mark.parametrize(("source", "wide"), [(I8, I32), (U8, I32), (BF16, F32), (F16, F32), (F32, F64)], ids=str)
def test_wider_results(source: DType, wide: DType) -> None:
    native = Native(make(_types("mk,kn->mn", source), lambda ir, x, y: ir.dot(x, y, "mk,kn->mn", wide)))
    for sizes in SIZES[:4]:
        left, right = _shapes("mk,kn->mn", sizes)
        native.check(_whole(source, *left), _whole(source, *right, seed=1))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("columns", [1, 3, 16, 31, 64, 65, 130])
def test_packed_constants(columns: int, target: Target) -> None:
    b, bias = _whole(F32, 40, columns, seed=1), _whole(F32, columns, seed=2)

    def build(ir: Builder, x: Value) -> list[Value]:
        plain = ir.dot(x, ir.constant(b), "mk,kn->mn")
        turned = ir.dot(x, ir.transpose(ir.constant(np.ascontiguousarray(b.T)), (1, 0)), "mk,kn->mn")
        return [ir.max(ir.add(plain, ir.constant(bias)), 0.0), turned]

    native = Native(make(["f32[M, 40]"], build), target)
    for rows in (0, 1, 2, 7, 97, 200):
        native.check(_whole(F32, rows, 40))


def test_stacked_constants() -> None:
    b = _whole(F32, 3, 20, 70, seed=1)
    native = Native(make(["f32[3, M, 20]"], lambda ir, x: ir.dot(x, ir.constant(b), "bmk,bkn->bmn")))
    for rows in (1, 5, 100):
        native.check(_whole(F32, 3, rows, 20))


@pytest.mark.parametrize("repeated", [(), (0,), (1,), (2,), (0, 1), (0, 1, 2)])
def test_constants_that_repeat_along_axes_summed_apart(repeated: tuple[int, ...]) -> None:
    """The rows cannot be read as if both summed axes were one, the constant is one element or vector, broadcast."""
    sizes = [1 if axis in repeated else size for axis, size in enumerate((4, 5, 70))]
    b = _whole(F32, *sizes, seed=1)

    def body(ir: Builder, x: Value) -> Value:
        kept = [axis for axis in range(3) if axis not in repeated]
        return ir.dot(x, ir.broadcast(ir.constant(b.squeeze(repeated)), kept, (4, 5, 70)), "ckd,cde->ke")

    native = Native(make(["f32[4, M, 5]"], body))
    for rows in (1, 3, 100):
        native.check(_whole(F32, 4, rows, 5))


@pytest.mark.parametrize("depth", [1, 257, BLOCK_DEPTH - 1, BLOCK_DEPTH, BLOCK_DEPTH + 1, 2 * BLOCK_DEPTH + 70])
def test_depths_around_the_blocks(depth: int) -> None:
    b = _whole(F32, depth, 70, seed=1)
    native = Native(make([f"f32[5, {depth}]", "f32[K, 33]", "f32[5, K]"], lambda ir, x, y, z: [
        ir.dot(x, ir.constant(b), "mk,kn->mn"), ir.dot(z, y, "mk,kn->mn")
    ]))  # fmt: skip
    native.check(_whole(F32, 5, depth), _whole(F32, depth, 33, seed=2), _whole(F32, 5, depth, seed=3))


@pytest.mark.parametrize("depth", [0, 20, BLOCK_DEPTH + 5])
def test_rows_around_groups_and_units(depth: int) -> None:
    """Those of a group are finished together, with the last block of the sum, by elements that were asked for before.

    What the product is added to is in its order, and turned.
    """
    w = _whole(F32, depth, 70, seed=1)
    equation = "mk,kn->mn"
    native = Native(make([f"f32[M, {depth}]", "f32[M, 70]", "f32[70, M]"], lambda ir, x, y, z: [
        ir.add(ir.dot(x, ir.constant(w), equation), y),
        ir.add(ir.dot(x, ir.constant(w + 1), equation), ir.transpose(z, (1, 0))),
    ]))  # fmt: skip
    registers = native.plan.kernels[0].scheduled(ContractionSchedule).registers
    group = GROUP_BLOCKS * registers.rows if registers is not None else 1
    for rows in (0, 1, group - 1, group, group + 1, CHUNK_ROWS - 1, CHUNK_ROWS, CHUNK_ROWS + group + 1):
        native.check(_whole(F32, rows, depth), _whole(F32, rows, 70, seed=2), _whole(F32, 70, rows, seed=3))


def test_products_round_as_little_as_a_sum_in_order() -> None:
    native = Native(make(["f32[M, K]", "f32[K, N]"], lambda ir, x, y: ir.dot(x, y, "mk,kn->mn")))
    native.check(sample(F32, 33, 700), sample(F32, 700, 65, seed=1), bound=2e-6)


def test_nan_and_infinity_go_through() -> None:
    native = Native(make(["f32[M, K]", "f32[K, N]"], lambda ir, x, y: ir.dot(x, y, "mk,kn->mn")))
    x, y = _whole(F32, 20, 30), _whole(F32, 30, 20, seed=1)
    x[2, 3], y[5, 6], y[7, 8] = np.inf, np.nan, -np.inf
    native.check(x, y, bound=1e-6)


def test_a_chain_of_pointwise_ops_ends_in_the_kernel() -> None:
    def build(ir: Builder, x: Value, y: Value, r: Value, s: Value) -> Value:
        return ir.add(ir.gelu(ir.add(ir.dot(x, y, "bmk,kn->bmn"), s)), ir.mul(r, 0.5))

    native = Native(make(["f32[B, M, K]", "f32[K, N]", "f32[B, M, N]", "f32[N]"], build))
    assert native.kernels() == ["contraction"]
    for shape in [(2, 3, 4, 5), (1, 1, 1, 1), (2, 40, 20, 70), (0, 1, 2, 3)]:
        b, m, k, n = shape
        parts = ((b, m, k), (k, n), (b, m, n), (n,))
        native.check(*(sample(F32, *part, seed=seed) for seed, part in enumerate(parts)), bound=2e-6)


def test_a_result_that_is_cast_is_rounded_first() -> None:
    """In 16 bits the sum is rounded to the type of the contraction, whatever the type of the last op."""
    native = Native(make(["bf16[M, K]", "bf16[K, N]"], lambda ir, x, y: ir.less(ir.dot(x, y, "mk,kn->mn"), 0.25)))
    native.check(sample(BF16, 40, 3), sample(BF16, 3, 40, seed=1))


def test_a_product_that_leaves_in_other_shapes_and_is_used_again() -> None:
    def build(ir: Builder, x: Value, y: Value) -> list[Value]:
        product = ir.dot(x, y, "mk,kn->mn")
        flat = ir.reshape(product, (Size.symbol("M") * 6,))
        return [flat, ir.reshape(product, (Size.symbol("M"), 2, 3)), ir.exp(product)]

    native = Native(make(["f32[M, 5]", "f32[5, 6]"], build))
    for rows in (7, 1, 0):
        native.check(sample(F32, rows, 5), sample(F32, 5, 6, seed=1), bound=2 * precision(F32))
    (segment,) = segments_of(native.plan.body.steps)
    kinds = [native.plan.kernels[launch.variants[0].kernel].kind for launch in segment.launches]
    assert kinds == ["contraction", "pointwise", "pointwise"]


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
@pytest.mark.parametrize(
    ("rows", "types", "is_fetched"),
    [
        (1, ProductTypes(F32, F32, F32), False),
        (2, ProductTypes(F32, F32, F32), True),
        (1, ProductTypes(U8, I8, I32, PAIR), True),
    ],
)
def test_a_panel_is_fetched_ahead_of_all_but_a_row_of_words(
    target: str, rows: int, types: ProductTypes, is_fetched: bool
) -> None:
    text = MicroKernel(types, rows, 2).write(parse_target(f"cpu:{target}")).text()
    assert ("llvm.prefetch" in text) == is_fetched
    # For reading, into the first-level cache, as data.
    assert ("i32 0, i32 3, i32 1)" in text) == is_fetched
    # Of other strides as many steps as make 2,048 bytes.
    line = 2 * types.panel.itemsize * types.group * types.lanes(parse_target(f"cpu:{target}"))
    assert not is_fetched or "i64 8192, i64 %" in text
    assert not is_fetched or f"mul i64 %panel_stride, {2048 // line * types.panel.itemsize}" in text


@pytest.mark.parametrize("sizes", SIZES, ids=range(len(SIZES)))
@pytest.mark.parametrize("equation", EQUATIONS)
def test_equations_of_known_sizes(equation: str, sizes: dict[str, int]) -> None:
    left, right = _shapes(equation, sizes)
    types = [f"f32[{', '.join(map(str, shape))}]" for shape in (left, right)]
    native = Native(make(types, lambda ir, x, y: ir.dot(x, y, equation)))
    native.check(_whole(F32, *left), _whole(F32, *right, seed=1))


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [("7", ["1x2", "6x2"]), ("3", ["3x2"]), ("R", ["6x2", "6x2", *(f"{rows}x2" for rows in range(1, 6))])],
)
def test_known_sizes_leave_out_numbers_of_rows(rows: str, wanted: list[str]) -> None:
    """Columns of two vectors, so panels are no wider; 16 registers take 6 rows beside them, or those that are left."""
    target = parse_target("cpu:x86-64-v3")
    module = make([f"f32[{rows}, 70]", "f32[70, 13]"], lambda ir, x, y: ir.dot(x, y, "mk,kn->mn"))
    functions = kernel_pieces(plan_kernels(module, cpu_plan_target(target)), target).functions
    names = [function.name for together in functions for function in together]
    assert [name.rpartition("_")[2] for name in names if name.startswith("multiply_f32")] == wanted


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("columns", [13, 33, 48, 70])
@pytest.mark.parametrize(("depth", "form"), [(70, "panels"), (5, "shallow")])
def test_every_number_of_rows_that_full_steps_leave(depth: int, form: str, columns: int, target: Target) -> None:
    """A panel is one to four vectors wide, and there are one more full step of rows than one, and all that is left."""
    w = _whole(F32, depth, columns, seed=1)
    native = Native(make([f"f32[R, {depth}]"], lambda ir, x: ir.dot(x, ir.constant(w), "mk,kn->mn")), target)
    assert native.plan.kernels[-1].scheduled(ContractionSchedule).algorithm == form
    for rows in range(30):
        native.check(_whole(F32, rows, depth))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_batches_of_one_are_repeated_where_they_lie(target: Target) -> None:
    """Of two unknown numbers of matrices either may be 1: both operands are views, and none is copied."""
    A, B = Size.symbol("A"), Size.symbol("B")

    def build(ir: Builder, x: Value, y: Value) -> Value:
        (batch,) = ir.broadcast_shape((A,), (B,))
        return ir.dot(
            ir.broadcast(x, (0, 1, 2), (batch, 5, 7)), ir.broadcast(y, (0, 1, 2), (batch, 7, 9)), "bmk,bkn->bmn"
        )

    native = Native(make(["f32[A, 5, 7]", "f32[B, 7, 9]"], build), target)
    assert native.kernels() == ["contraction"]
    for first, second in ((1, 1), (1, 4), (4, 1), (3, 3), (0, 1), (1, 0)):
        native.check(sample(F32, first, 5, 7), sample(F32, second, 7, 9), bound=1e-5)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_what_follows_few_steps_is_computed_before_it_is_written(dtype: DType, target: Target) -> None:
    """A residual in whose memory the result may lie; rows and columns that are no whole tile; a turned operand."""
    w, bias = _whole(dtype, 3, 21, seed=1), _whole(dtype, 21, seed=2)

    def build(ir: Builder, x: Value, residual: Value) -> Value:
        total = ir.binary(
            "add", ir.dot(x, ir.constant(w), "km,kn->mn"), ir.broadcast(ir.constant(bias), (1,), residual.shape)
        )
        return ir.binary("add", ir.unary("abs", total), residual)

    native = Native(make([f"{dtype}[3, R]", f"{dtype}[R, 21]"], build), target)
    assert native.plan.kernels[-1].scheduled(ContractionSchedule).algorithm == "shallow"
    for rows in (0, 1, 4, 67):
        native.check(_whole(dtype, 3, rows), _whole(dtype, rows, 21, seed=3))


def test_a_sum_of_few_steps_keeps_nan_infinities_and_no_negative_zero() -> None:
    """A sum begins with 0, so products of -0 give 0; rows are computed apart."""
    w = np.array([[1, -1, 0, np.inf]] * 2, np.float32)
    x = np.array([[-0.0, -0.0], [np.nan, 1], [np.inf, -np.inf], [3e38, 3e38], [1, 2]], np.float32)
    native = Native(make(["f32[R, 2]"], lambda ir, x: ir.dot(x, ir.constant(w), "mk,kn->mn")))
    assert native.plan.kernels[-1].scheduled(ContractionSchedule).algorithm == "shallow"
    with np.errstate(all="ignore"):
        (result,), expected = native(x), np.einsum("mk,kn->mn", x, w)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result[0, :3]), False)
