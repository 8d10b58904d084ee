"""The forms of contractions of floats: which is chosen for which operands, and that each gives the right numbers."""

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.emit import kernel_pieces
from onnxc.compiler.codegen_cpu.plan_target import cpu_plan_target
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, I8, I32, U64, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.schedules import ContractionSchedule
from onnxc.compiler.target import Target, parse_target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make, precision, sample

# Equation, sizes of its letters, which operands are constants, and the form: (algorithm, left, packs columns).
FORMS = [
    ("mk,kn->mn", {"m": 130, "k": 70, "n": 130}, "b", ("panels", 0, False)),
    ("mk,kn->mn", {"m": 130, "k": 70, "n": 130}, "", ("panels", 0, True)),
    ("mk,kn->mn", {"m": 3, "k": 70, "n": 130}, "", ("panels", 0, False)),
    ("mk,nk->mn", {"m": 1, "k": 70, "n": 130}, "", ("lines", 1, False)),
    ("mk,nk->mn", {"m": 1, "k": 32, "n": 128}, "b", ("panels", 0, False)),
    ("mk,nk->mn", {"m": 1, "k": 192, "n": 768}, "b", ("lines", 1, False)),
    ("mk,nk->mn", {"m": 1, "k": 200, "n": 800}, "b", ("panels", 0, False)),
    ("mk,nk->mn", {"m": 130, "k": 70, "n": 130}, "", ("panels", 0, True)),
    ("mk,kn->nm", {"m": 130, "k": 70, "n": 130}, "", ("panels", 1, True)),
    ("mk,k->m", {"m": 75, "k": 300}, "", ("lines", 0, False)),
    ("mk,k->m", {"m": 75, "k": 320}, "a", ("lines", 0, False)),
    ("mk,kn->mn", {"m": 1, "k": 21, "n": 1100}, "", ("sweeps", 0, False)),
    ("k,bkn->bn", {"b": 2, "k": 16, "n": 70}, "", ("sweeps", 0, False)),
    ("k,k->", {"k": 3000}, "", ("lines", 0, False)),
    ("abk,abk->ab", {"a": 3, "b": 70, "k": 37}, "", ("lines", 0, False)),
    ("mk,kn->mn", {"m": 200, "k": 50, "n": 1}, "b", ("lines", 0, False)),
    ("bhtd,hdo->bto", {"b": 2, "h": 3, "t": 20, "d": 33, "o": 70}, "b", ("panels", 0, False)),
    ("mkl,nlk->mn", {"m": 30, "k": 3, "l": 40, "n": 70}, "", ("panels", 0, True)),
    ("abk,bkn->anb", {"a": 20, "b": 3, "k": 70, "n": 30}, "", ("panels", 0, True)),
    ("abk,bkn->anb", {"a": 20, "b": 3, "k": 40, "n": 30}, "", ("shallow", 0, False)),
    ("mk,kn->mn", {"m": 131, "k": 3, "n": 70}, "b", ("shallow", 0, False)),
    ("mk,kn->mn", {"m": 67, "k": 7, "n": 130}, "", ("shallow", 0, False)),
    ("mk,kn->mn", {"m": 29, "k": 1, "n": 16}, "b", ("shallow", 0, False)),
    ("mk,kn->mn", {"m": 27, "k": 30, "n": 40}, "b", ("shallow", 0, False)),
    ("mk,kn->mn", {"m": 70, "k": 20, "n": 500}, "", ("shallow", 0, True)),
    ("mk,kn->mn", {"m": 70, "k": 20, "n": 500}, "b", ("shallow", 0, False)),
    ("mk,nk->mn", {"m": 19, "k": 5, "n": 90}, "", ("shallow", 0, True)),
    ("bmk,bkn->bmn", {"b": 2, "m": 65, "k": 9, "n": 1100}, "", ("shallow", 0, True)),
    ("abk,kn->abn", {"a": 3, "b": 11, "k": 6, "n": 20}, "b", ("shallow", 0, False)),
    ("bmk,bkn->bmn", {"b": 3, "m": 9, "k": 16, "n": 40}, "b", ("shallow", 0, False)),
    ("bmk,bkn->bmn", {"b": 3, "m": 9, "k": 5, "n": 40}, "", ("shallow", 0, False)),
    ("abmk,bakn->abmn", {"a": 2, "b": 3, "m": 9, "k": 5, "n": 20}, "b", ("shallow", 0, False)),
    ("bkm,kn->bmn", {"b": 2, "m": 33, "k": 2, "n": 128}, "b", ("shallow", 0, False)),
    ("mk,nk->mn", {"m": 70, "k": 4, "n": 100}, "b", ("shallow", 0, False)),
    ("km,kn->mn", {"m": 1024, "k": 8, "n": 40}, "b", ("shallow", 0, False)),
    ("km,kn->mn", {"m": 1024, "k": 9, "n": 40}, "b", ("panels", 0, False)),
]  # fmt: skip


def _native(equation: str, sizes: dict[str, int], constants: str, dtype: DType, target: Target) -> Native:
    terms = parse_equation(equation)[:2]
    arrays = [sample(dtype, *(sizes[letter] for letter in term), seed=seed) for seed, term in enumerate(terms)]

    def build(ir: Builder, *given: Value) -> Value:
        rest = iter(given)
        operands = [ir.constant(x) if name in constants else next(rest) for name, x in zip("ab", arrays, strict=True)]
        return ir.dot(*operands, equation)

    inputs = [x for name, x in zip("ab", arrays, strict=True) if name not in constants]
    native = Native(make([f"{dtype}[{', '.join(map(str, x.shape))}]" for x in inputs], build), target)
    native.check(*inputs, bound=2 * precision(dtype))
    return native


@pytest.mark.parametrize(("equation", "sizes", "constants", "form"), FORMS)
def test_the_form_is_that_of_the_operands(
    equation: str, sizes: dict[str, int], constants: str, form: tuple[str, int, bool]
) -> None:
    (kernel,) = _native(equation, sizes, constants, F32, EVERY_TARGET[0]).plan.kernels
    schedule = kernel.scheduled(ContractionSchedule)
    assert (schedule.algorithm, schedule.left, schedule.packs_columns) == form


@pytest.mark.parametrize("target", EVERY_TARGET[1:], ids=str)
@pytest.mark.parametrize(("equation", "sizes", "constants", "form"), FORMS)
def test_every_target_computes_every_form(
    equation: str, sizes: dict[str, int], constants: str, form: tuple[str, int, bool], target: Target
) -> None:
    _native(equation, sizes, constants, F32, target)


@pytest.mark.parametrize("dtype", [F64, F16, BF16, I32, U64], ids=str)
@pytest.mark.parametrize(("equation", "sizes", "constants", "form"), FORMS)
def test_no_product_of_floats_or_words_is_general(
    equation: str, sizes: dict[str, int], constants: str, form: tuple[str, int, bool], dtype: DType
) -> None:
    (kernel,) = _native(equation, sizes, constants, dtype, EVERY_TARGET[0]).plan.kernels
    assert kernel.scheduled(ContractionSchedule).algorithm in ("panels", "shallow", "lines", "sweeps")


@pytest.mark.parametrize(("equation", "sizes", "constants", "form"), FORMS)
def test_any_number_of_threads_gives_the_same_bits(
    equation: str, sizes: dict[str, int], constants: str, form: tuple[str, int, bool]
) -> None:
    native = _native(equation, {letter: 3 * size for letter, size in sizes.items()}, constants, F32, EVERY_TARGET[0])
    shapes = [known_sizes(parameter.shape) for parameter in native.module.main.body.parameters]
    arrays = [sample(F32, *shape, seed=seed) for seed, shape in enumerate(shapes)]
    alone = native(*arrays)[0].tobytes()
    for threads in (2, 3):
        native.threads = threads
        assert native(*arrays)[0].tobytes() == alone


def test_a_product_of_few_columns_has_units_for_threads() -> None:
    module = make(["f32[256, 600]"], lambda ir, x: ir.dot(x, ir.constant(sample(F32, 600, 64)), "mk,kn->mn"))
    native = Native(module, parse_target("cpu:x86-64-v4"))
    assert native.plan.kernels[0].scheduled(ContractionSchedule).tile.rows < 128


@pytest.mark.parametrize("depth", [65, 96, 97])
def test_results_of_a_short_sum_are_written_along_their_rows(depth: int) -> None:
    x, w = sample(F32, 100, depth), sample(F32, depth, 70, seed=1)
    native = Native(make([f"f32[100, {depth}]"], lambda ir, x: ir.dot(x, ir.constant(w), "mk,kn->mn")))
    schedule = native.plan.kernels[0].scheduled(ContractionSchedule)
    assert schedule.registers is not None
    assert (schedule.tile.rows == 2 * schedule.registers.rows) is (depth <= 96)
    native.check(x, bound=2 * precision(F32))


@pytest.mark.parametrize(("columns", "is_masked"), [(16, False), (64, False), (96, False), (112, False), (70, True)])
def test_known_columns_that_fill_vectors_are_written_without_masks(columns: int, is_masked: bool) -> None:
    x, w = sample(F32, 5, 8), sample(F32, 8, columns, seed=1)
    module = make(["f32[M, 8]"], lambda ir, x: ir.unary("tanh", ir.dot(x, ir.constant(w), "mk,kn->mn")))
    target = parse_target("cpu:x86-64-v4")
    pieces = kernel_pieces(plan_kernels(module, cpu_plan_target(target)), target)
    text = "".join(function.text() for functions in pieces.functions for function in functions)
    assert ("llvm.masked.store" in text) is is_masked
    Native(module).check(x, bound=2 * precision(F32))


def test_rows_of_units_share_a_panel_that_is_packed() -> None:
    native = Native(make(["f32[M, 20]", "f32[N, 20]"], lambda ir, x, y: ir.dot(x, y, "mk,nk->mn")))
    assert native.plan.kernels[-1].scheduled(ContractionSchedule).packs_columns
    for rows in (0, 1, 95, 97, 900):
        native.check(sample(F32, rows, 20), sample(F32, 70, 20, seed=1), bound=2e-6)


def test_one_row_of_what_may_be_many_is_swept() -> None:
    native = Native(make(["f32[2, M, 40]", "f32[2, 40, 1100]"], lambda ir, x, y: ir.dot(x, y, "bmk,bkn->bmn")))
    forms = [kernel.scheduled(ContractionSchedule).algorithm for kernel in native.plan.kernels]
    assert forms == ["sweeps", "panels", "panels"]
    for rows in (0, 1, 2, 17):
        native.check(sample(F32, 2, rows, 40), sample(F32, 2, 40, 1100, seed=1), bound=2e-6)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_few_steps_meet_as_many_columns_as_a_call_has(dtype: DType, turned: bool, target: Target) -> None:
    b, equation = (f"{dtype}[N, 2]", "mk,nk->mn") if turned else (f"{dtype}[2, N]", "mk,kn->mn")
    native = Native(
        make([f"{dtype}[67, 2]", b, f"{dtype}[N]"], lambda ir, x, y, z: _biased(ir, ir.dot(x, y, equation), z)), target
    )
    schedule = native.plan.kernels[-1].scheduled(ContractionSchedule)
    assert (schedule.algorithm, schedule.left, schedule.packs_columns) == ("shallow", 0, True)
    for columns in (0, 1, 15, 64, 65, 500, 1100):
        y = sample(dtype, *((columns, 2) if turned else (2, columns)), seed=1)
        native.check(sample(dtype, 67, 2), y, sample(dtype, columns, seed=2), bound=4 * precision(dtype))


def _biased(ir: Builder, x: Value, bias: Value) -> Value:
    return ir.relu(ir.add(x, ir.broadcast(bias, (1,), x.shape)))


@pytest.mark.parametrize("is_turned", [False, True])
def test_a_constant_lies_as_few_rows_want_it_too(is_turned: bool) -> None:
    """100 columns fill no whole panels, so that many rows alone would rather have them as rows."""
    w, equation = (sample(F32, 100, 3968), "mk,nk->mn") if is_turned else (sample(F32, 3968, 100), "mk,kn->mn")
    native = Native(make(["f32[M, 3968]"], lambda ir, x: ir.dot(x, ir.constant(w), equation)))
    assert all(kernel.schedule.packing is not None for kernel in native.plan.kernels)
    for rows in (0, 1, 2, 16, 17, 130):
        native.check(sample(F32, rows, 3968), bound=1e-5)


def test_views_with_steps_and_a_reversed_axis_are_read_where_they_lie() -> None:
    def build(ir: Builder, x: Value, y: Value) -> Value:
        a = ir.slice(x, (1, 2), (20, 15), (2, 3))
        b = ir.slice(y, (0, 1), (15, 33), (1, 2))
        return ir.dot(a, b, "mk,kn->mn")

    native = Native(make(["f32[40, 60]", "f32[16, 70]"], build))
    assert native.kernels() == ["contraction"]
    native.check(sample(F32, 40, 60), sample(F32, 16, 70, seed=1), bound=2e-6)


def test_sums_of_lines_keep_nan_and_infinity_to_their_row() -> None:
    native = Native(make(["f32[M, K]", "f32[K]"], lambda ir, x, y: ir.dot(x, y, "mk,k->m")))
    x, y = sample(F32, 21, 50), np.abs(sample(F32, 50, seed=1))
    x[3, 49], x[5, 0], x[20, 17] = np.nan, np.inf, -np.inf
    native.check(x, y, bound=2e-6)


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_sums_of_16_bits_are_made_in_f32(dtype: DType) -> None:
    """4000 ones and a half: a sum in 16 bits would stop growing at 2048, or at 256."""
    native = Native(make([f"{dtype}[M, K]", f"{dtype}[K, 3]"], lambda ir, x, y: ir.dot(x, y, "mk,kn->mn", F32)))
    x, y = np.ones((5, 4001), dtype.numpy), np.ones((4001, 3), dtype.numpy)
    x[:, 4000] = 0.5
    assert (native(x, y)[0] == 4000.5).all()


@pytest.mark.parametrize("depth", [1, 31, 32, 33, 64, 513, 1100])
def test_constant_bf16_is_multiplied_exactly_where_sums_are_whole(depth: int) -> None:
    """Whatever multiplies pairs of bf16: whole tiles along k and not, rows that fill tiles and not."""
    random = np.random.default_rng(depth)
    b = random.integers(-3, 4, (depth, 70)).astype(BF16.numpy)
    native = Native(make([f"bf16[M, {depth}]"], lambda ir, x: ir.dot(x, ir.constant(b), "mk,kn->mn", F32)))
    for rows in (0, 1, 15, 16, 17, 33, 100, 300):
        native.check(random.integers(-3, 4, (rows, depth)).astype(BF16.numpy))


def test_constant_bf16_in_stacks_and_before_other_ops() -> None:
    b = sample(BF16, 3, 40, 70, seed=1)

    def build(ir: Builder, x: Value) -> Value:
        return ir.max(ir.dot(x, ir.constant(b), "bmk,bkn->bmn"), 0.0)

    native = Native(make(["bf16[3, M, 40]"], build))
    native.check(sample(BF16, 3, 37, 40), bound=precision(BF16))


def test_tiles_of_bf16_are_taken_where_a_target_has_them() -> None:
    b = sample(BF16, 96, 70, seed=1)
    module = make(["bf16[64, 96]"], lambda ir, x: ir.dot(x, ir.constant(b), "mk,kn->mn"))
    targets = ("cpu:x86-64-v4+amx-bf16", "cpu:x86-64-v4")
    schedules = [Native(module, parse_target(name)).plan.kernels[0].scheduled(ContractionSchedule) for name in targets]
    assert [schedule.arithmetic.operands for schedule in schedules] == ["bf16", "f32"]


@pytest.mark.parametrize("dtype", [F32, BF16, I8], ids=str)
def test_of_a_constant_that_only_a_call_cuts_nothing_is_packed_ahead(dtype: DType) -> None:
    b = np.random.default_rng(0).integers(-3, 4, (8, 70)).astype(dtype.numpy)

    def build(ir: Builder, x: Value) -> Value:
        part = ir.slice(ir.constant(b), (0, 0), (Size.symbol("N"), 70), (1, 1))
        return ir.dot(x, part, "mk,kn->mn", I32 if dtype == I8 else F32)

    native = Native(make([f"{dtype}[M, N]"], build))
    for rows, depth in [(0, 3), (1, 8), (20, 5), (3, 0)]:
        native.check(np.random.default_rng(1).integers(-3, 4, (rows, depth)).astype(dtype.numpy))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("rows", ["M", "40"])
def test_what_is_added_across_the_rows_of_a_product_is_turned_by_a_kernel_for_that(rows: str, target: Target) -> None:
    b = np.random.default_rng(0).integers(-3, 4, (8, 70)).astype(np.float32)

    def build(ir: Builder, x: Value, across: Value, along: Value) -> list[Value]:
        y = ir.dot(x, ir.constant(b), "mk,kn->mn")
        return [ir.add(ir.mul(y, ir.abs(ir.transpose(across, (1, 0)))), along)]

    native = Native(make([f"f32[{rows}, 8]", f"f32[70, {rows}]", f"f32[{rows}, 70]"], build), target)
    assert native.kernels() == ["pointwise", "contraction"]
    for count in (0, 1, 3, 40) if rows == "M" else (40,):
        shapes = ((count, 8), (70, count), (count, 70))
        native.check(*(np.random.default_rng(1).integers(-3, 4, shape).astype(np.float32) for shape in shapes))
