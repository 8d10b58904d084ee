"""Contractions by the interpreter: every arrangement of letters, odd sizes, shared tiles, epilogues, other types."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, I8, I32, U8, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.schedules import Arithmetic, ContractionSchedule, Tile, Warps
from tests.codegen_gpu.support import SM_80, Device, make, precision, sample

EQUATIONS = ["mk,kn->mn", "mk,nk->mn", "km,kn->nm", "bmk,bkn->bmn", "bmk,kn->bmn", "mk,bkn->bmn", "bhqd,bhkd->bhqk"]
SIZES = {"b": 2, "h": 3, "m": 17, "n": 33, "k": 40, "q": 5, "d": 24}


def _types(dtype: DType, equation: str, symbolic: bool) -> list[str]:
    operands = equation.split("->", maxsplit=1)[0].split(",")
    return [f"{dtype}[{', '.join(x.upper() if symbolic else str(SIZES[x]) for x in letters)}]" for letters in operands]


def _arrays(dtype: DType, equation: str) -> list[np.ndarray]:
    operands = equation.split("->", maxsplit=1)[0].split(",")
    return [sample(dtype, *(SIZES[x] for x in letters), seed=seed) for seed, letters in enumerate(operands)]


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_arrangements_of_letters(equation: str, symbolic: bool) -> None:
    device = Device(make(_types(F32, equation, symbolic), lambda ir, a, b: ir.dot(a, b, equation)))
    assert device.kernels() == ["contraction"]
    device.check(*_arrays(F32, equation), bound=1e-5)


@pytest.mark.parametrize("dtype", [F16, BF16, F64, I32, I8, U8], ids=str)
def test_element_types(dtype: DType) -> None:
    result = I32 if dtype in (I8, U8) else dtype
    device = Device(make(_types(dtype, "mk,kn->mn", False), lambda ir, a, b: ir.dot(a, b, "mk,kn->mn", result)))
    device.check(*_arrays(dtype, "mk,kn->mn"), bound=4 * precision(dtype))


@pytest.mark.parametrize("shape", [(0, 4, 5), (3, 0, 5), (3, 4, 0), (1, 1, 1), (16, 64, 32), (70, 130, 90)])
def test_sizes(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    for types in (["f32[M, K]", "f32[K, N]"], [f"f32[{m}, {k}]", f"f32[{k}, {n}]"]):
        device = Device(make(types, lambda ir, a, b: ir.add(ir.dot(a, b, "mk,kn->mn"), 1.0)))
        device.check(sample(F32, m, k), sample(F32, k, n), bound=1e-5)


def test_vectors_and_numbers() -> None:
    for equation in ("k,k->", "mk,k->m", "k,kn->n", "m,n->mn"):
        for symbolic in (False, True):
            device = Device(make(_types(F32, equation, symbolic), lambda ir, a, b, e=equation: ir.dot(a, b, e)))
            device.check(*_arrays(F32, equation), bound=1e-5)


def test_what_follows_is_done_in_registers() -> None:
    def build(ir: Builder, x: Value, w: Value, bias: Value, rest: Value) -> Value:
        y = ir.add(ir.dot(x, w, "bmk,kn->bmn"), bias)
        return ir.add(ir.gelu(y), rest)

    device = Device(make(["f32[B, S, 40]", "f32[40, 33]", "f32[33]", "f32[B, S, 33]"], build))
    assert device.kernels() == ["contraction"]
    arrays = sample(F32, 2, 5, 40), sample(F32, 40, 33), sample(F32, 33), sample(F32, 2, 5, 33)
    device.check(*arrays, bound=1e-5)


def test_programs_share_a_tile_where_there_are_few() -> None:
    types = ["bf16[3, 4096]", "bf16[4096, 24]", "bf16[24]"]

    def build(ir: Builder, x: Value, w: Value, bias: Value) -> Value:
        return ir.max(ir.add(ir.dot(x, w, "mk,kn->mn"), bias), 0.0)

    device = Device(make(types, build))
    assert len(device.code(0).steps) == 2
    device.check(*(sample(BF16, *shape) for shape in ((3, 4096), (4096, 24), (24,))), bound=2e-2)


def test_transposed_and_sliced_operands_are_read_where_they_are() -> None:
    def build(ir: Builder, x: Value, y: Value) -> Value:
        heads = ir.transpose(ir.reshape(x, (2, 7, 3, 8)), (0, 2, 1, 3))
        return ir.dot(ir.slice(heads, (0, 1, 0, 0), (2, 2, 7, 8)), ir.transpose(y, (0, 2, 1, 3)), "bhqd,bhkd->bhqk")

    device = Device(make(["f32[2, 7, 24]", "f32[2, 5, 2, 8]"], build))
    assert device.kernels() == ["contraction"]
    device.check(sample(F32, 2, 7, 24), sample(F32, 2, 5, 2, 8), bound=1e-5)


@pytest.mark.parametrize("types", [["f32[B, 5, 7, 24]", "f32[24, 33]"], ["f32[2, 5, 7, 24]", "f32[24, 33]"]])
def test_rows_in_several_strides_are_gathered(types: list[str]) -> None:
    """Windows of 3 by 2 of an image are rows of one product, and what follows knows where each is."""

    def build(ir: Builder, x: Value, w: Value) -> Value:
        windows = ir.slice(x, (0, 1, 2, 0), (x.shape[0], 3, 2, 24))
        return ir.add(ir.dot(windows, w, "bhwk,kn->bhwn"), ir.constant(sample(F32, 3, 2, 33)))

    device = Device(make(types, build))
    assert device.kernels() == ["contraction"]
    (step,) = device.code(0).steps
    # All 12 rows are in one tile, beside 3 of columns.
    assert evaluate(product(step.grid), {"s0": 2}) == 3
    device.check(sample(F32, 2, 5, 7, 24), sample(F32, 24, 33), bound=1e-5)


def test_rows_that_lie_apart_in_one_stride_are_one_matrix() -> None:
    """The last token of each sequence, as before the words of an answer are told."""

    def build(ir: Builder, x: Value, w: Value) -> Value:
        last = ir.slice(x, (0, 6, 0), (x.shape[0], 1, 64))
        return ir.dot(last, w, "bsk,kn->bsn")

    device = Device(make(["bf16[B, 7, 64]", "bf16[64, 2048]"], build))
    assert any("make_tensor_descriptor" in text for text in device.sources())


TURNED_ROWS = [
    # Gates of a recurrent layer, whose steps come first; an axis of the first operand alone that comes first.
    ("btk,gk->tbg", ["bf16[B, 5, 64]", "bf16[256, 64]"], None),
    ("mak,kn->amn", ["bf16[5, B, 64]", "bf16[64, 256]"], None),
    # Windows of an image.
    ("bcedfk,kn->bcedfn", ["bf16[B, 6, 4, 64]", "bf16[64, 256]"], (2, 3, 2, 2)),
]


@pytest.mark.parametrize(("equation", "types", "windows"), TURNED_ROWS, ids=[case[0] for case in TURNED_ROWS])
def test_rows_are_one_matrix_as_they_lie_whatever_the_order_of_the_result(
    equation: str, types: list[str], windows: tuple[int, ...] | None
) -> None:
    def build(ir: Builder, x: Value, w: Value) -> Value:
        if windows is not None:
            x = ir.transpose(ir.reshape(x, (x.shape[0], *windows, 64)), (0, 1, 3, 2, 4, 5))
        return ir.mul(ir.dot(x, w, equation), 0.5)

    device = Device(make(types, build))
    assert device.kernels() == ["contraction"]
    assert any("make_tensor_descriptor" in text for text in device.sources())
    for batch in (0, 1, 3, 130):
        shapes = [
            [batch if text == "B" else int(text) for text in shape_text[5:-1].split(", ")] for shape_text in types
        ]
        device.check(*(sample(BF16, *shape, seed=seed) for seed, shape in enumerate(shapes)), bound=2e-2)


BLOCKS = [
    ("mk,kn->mn", ["bf16[M, 72]", "bf16[72, 2048]"]),
    ("mk,nk->mn", ["bf16[M, 72]", "bf16[2056, 72]"]),
    ("bmk,bkn->bmn", ["bf16[B, 1024, 40]", "bf16[B, 40, 1024]"]),
    ("km,kn->mn", ["bf16[40, 2048]", "bf16[40, 2048]"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("equation", "types"), BLOCKS, ids=[equation for equation, _ in BLOCKS])
def test_blocks_are_copied_where_the_card_can(equation: str, types: list[str]) -> None:
    device = Device(make(types, lambda ir, a, b: ir.add(ir.dot(a, b, equation), 1.0)))
    assert any("make_tensor_descriptor" in text for text in device.sources())
    sizes = {"M": 70, "B": 1}
    shapes = [[sizes.get(x) or int(x) for x in text[5:-1].split(", ")] for text in types]
    device.check(*(sample(BF16, *shape, seed=seed) for seed, shape in enumerate(shapes)), bound=2e-2)
    older = Device(make(types, lambda ir, a, b: ir.dot(a, b, equation)), SM_80)
    assert not any("make_tensor_descriptor" in text for text in older.sources())


@pytest.mark.parametrize("tile", [Tile(128, 128, 64), Tile(128, 256, 64)], ids=str)
@pytest.mark.parametrize("resident", [1, 2])
def test_programs_that_stay_make_one_tile_after_the_other(tile: Tile, resident: int) -> None:
    """Results in rows of another shape, columns that fill no tile, and more tiles than programs."""

    def build(ir: Builder, x: Value, w: Value, bias: Value) -> Value:
        return ir.gelu(ir.add(ir.dot(x, w, "bmk,nk->bmn"), bias))

    schedule = ContractionSchedule(
        algorithm="tiles", tile=tile, arithmetic=Arithmetic("bf16", F32), workers=Warps(tile.columns // 32, 3),
        block_copies=True, resident=resident, program_bytes=256, programs=resident,
    )  # fmt: skip
    module = make(["bf16[2, 77, 72]", "bf16[328, 72]", "bf16[328]"], build)
    device = Device(module, schedule=schedule)
    (step,) = device.code(0).steps
    assert product(step.grid) == resident
    device.check(*(sample(BF16, *shape) for shape in ((2, 77, 72), (328, 72), (328,))), bound=2e-2)


def test_large_tiles_are_of_programs_that_stay() -> None:
    device = Device(make(["bf16[8192, 768]", "bf16[768, 3072]"], lambda ir, a, b: ir.dot(a, b, "mk,kn->mn")))
    schedule = device.plan.kernels[0].scheduled(ContractionSchedule)
    assert 0 < schedule.resident == evaluate(product(device.code(0).steps[0].grid), {}) <= 2 * 132


@pytest.mark.parametrize(
    ("dtype", "columns", "is_packed"), [(F32, 32, True), (I8, 32, True), (BF16, 33, True), (BF16, 32, False)]
)
def test_constant_columns_lie_along_k_where_they_are_read_so(dtype: DType, columns: int, is_packed: bool) -> None:
    sums, w = I32 if dtype == I8 else dtype, sample(dtype, 64, columns)
    device = Device(
        make([f"{dtype}[M, 64]"], lambda ir, x: ir.dot(x, ir.constant(w), "mk,kn->mn", sums)),
    )
    assert {kernel.schedule.packing is not None for kernel in device.plan.kernels} == {is_packed}
    for rows in (1, 40, 130):
        device.check(sample(dtype, rows, 64), bound=4 * precision(dtype) if dtype != I8 else 0)


def test_columns_of_16_bits_that_are_packed_are_copied_in_blocks() -> None:
    w = sample(BF16, 64, 1001)
    device = Device(make(["bf16[4096, 64]"], lambda ir, x: ir.dot(x, ir.constant(w), "mk,kn->mn")))
    assert any("make_tensor_descriptor" in text for text in device.sources())


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
def test_gelu_of_any_number(dtype: DType, approximate: str) -> None:
    """Of sums that are what is added to a product of zeros: NaN, infinities, what is near 0 and far from it."""
    odd = np.array([0, -0.0, 1e-6, -1e-6, 0.5, -0.5, 1, -1, 3, -3, 5, -5, 9, 40, -40, np.nan])
    added = np.concatenate([odd, np.linspace(-12, 12, 112)]).astype(dtype.numpy)
    module = make(
        [f"{dtype}[4, 16]", f"{dtype}[16, 128]", f"{dtype}[128]"],
        lambda ir, x, w, bias: ir.gelu(ir.add(ir.dot(x, w, "mk,kn->mn"), bias), approximate),
    )
    zeros = np.zeros((4, 16), dtype.numpy), np.zeros((16, 128), dtype.numpy)
    Device(module).check(*zeros, added, bound={F32: 4e-7}.get(dtype, precision(dtype)))
    # Infinities by themselves: nothing is near to them.
    for infinite in (np.inf, -np.inf):
        Device(module).check(*zeros, np.full(128, infinite, dtype.numpy))


@pytest.mark.parametrize("types", [["bf16[M, 71]", "bf16[71, 2048]"], ["f32[M, 72]", "f32[72, 2048]"]])
def test_rows_that_are_not_aligned_are_loaded_by_pointers(types: list[str]) -> None:
    device = Device(make(types, lambda ir, a, b: ir.dot(a, b, "mk,kn->mn")))
    assert not any("make_tensor_descriptor" in text for text in device.sources())
