"""Products of bytes in sums of i32: every pair of signs, the largest numbers, depths around groups and blocks."""

import string

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.emit import kernel_pieces
from onnxc.compiler.codegen_cpu.plan_target import cpu_plan_target
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, I8, I32, I64, U8, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.schedules import ContractionSchedule
from onnxc.compiler.target import Target, parse_target
from onnxc.runtime.cpu import host_features
from tests.codegen_cpu.support import EVERY_TARGET, HOST, Native, make

SIGNS = [(U8, I8), (I8, I8), (U8, U8), (I8, U8)]

BYTE_TARGETS = tuple(
    dict.fromkeys(
        target
        for target in (*EVERY_TARGET, *map(parse_target, ("cpu:x86-64-v4", "cpu:x86-64-v4+avx512vnni")))
        if host_features().issuperset(target.features)
    )
)
"""Tiles, vectors with dots of bytes, and vectors without, of each width, as far as this machine has them."""

EQUATIONS = ["mk,kn->mn", "mk,nk->mn", "km,kn->mn", "mk,kn->nm", "k,kn->n", "bmhk,bnhk->bhmn", "bhmn,bnhk->bmhk"]

SIZES = [
    {"b": 2, "h": 3, "m": 5, "k": 7, "n": 9},
    dict.fromkeys(string.ascii_lowercase, 1),
    {"b": 1, "h": 2, "m": 100, "k": 130, "n": 70},
    {"b": 2, "h": 1, "m": 3, "k": 0, "n": 4},
    {"b": 1, "h": 0, "m": 0, "k": 4, "n": 4},
    {"b": 1, "h": 1, "m": 7, "k": 64, "n": 65},
    {"b": 2, "h": 1, "m": 5, "k": 9, "n": 9},
]
"""Shallow ones after deep ones, whose elements are still in the scratch memory."""


def all_bytes(dtype: DType, *shape: int, seed: int = 0) -> np.ndarray:
    """Numbers of the whole range, the least and the greatest often."""
    bounds = np.iinfo(dtype.numpy)
    random = np.random.default_rng((seed, *shape))
    anywhere = random.integers(bounds.min, bounds.max + 1, shape)
    extremes = np.where(random.random(shape) < 0.5, bounds.min, bounds.max)
    return np.where(random.random(shape) < 0.3, extremes, anywhere).astype(dtype.numpy)


def _types(equation: str, signs: tuple[DType, DType]) -> list[str]:
    terms = parse_equation(equation)[:2]
    return [f"{dtype}[{', '.join(term.upper())}]" for dtype, term in zip(signs, terms, strict=True)]


def _algorithms(native: Native) -> list[str]:
    schedules = [kernel.schedule for kernel in native.plan.kernels]
    return [each.algorithm for each in schedules if isinstance(each, ContractionSchedule)]


@pytest.mark.parametrize("target", BYTE_TARGETS, ids=str)
@pytest.mark.parametrize("signs", SIGNS, ids=str)
@pytest.mark.parametrize("equation", EQUATIONS)
def test_sums_are_exact_for_all_signs(equation: str, signs: tuple[DType, DType], target: Target) -> None:
    def build(ir: Builder, x: Value, y: Value) -> Value:
        return ir.dot(x, y, equation, I32)

    native = Native(make(_types(equation, signs), build), target)
    # One row reads rows of what is dense along columns in order; where only a call tells, by a kernel of its own.
    is_in_order = equation in ("mk,kn->mn", "mk,kn->nm", "km,kn->mn", "bhmn,bnhk->bmhk")
    assert _algorithms(native) == (["sweeps"] if equation == "k,kn->n" else ["sweeps"] * is_in_order + ["bytes"])
    for sizes in (*SIZES, {"b": 2, "h": 1, "m": 1, "k": 69, "n": 2100}, {"b": 1, "h": 2, "m": 1, "k": 24, "n": 47}):
        shapes = [tuple(sizes[letter] for letter in term) for term in parse_equation(equation)[:2]]
        native.check(all_bytes(signs[0], *shapes[0]), all_bytes(signs[1], *shapes[1], seed=1))


@pytest.mark.parametrize("target", BYTE_TARGETS, ids=str)
@pytest.mark.parametrize("signs", SIGNS, ids=str)
@pytest.mark.parametrize(("depth", "columns"), [(1, 1), (3, 17), (8, 64), (70, 65), (2053, 5)])
def test_constants_are_packed_for_all_signs(
    depth: int, columns: int, signs: tuple[DType, DType], target: Target
) -> None:
    w = all_bytes(signs[1], columns, depth, seed=1)

    def build(ir: Builder, x: Value) -> Value:
        return ir.dot(x, ir.constant(w), "mk,nk->mn", I32)

    native = Native(make([f"{signs[0]}[M, {depth}]"], build), target)
    assert _algorithms(native) == ["bytes"]
    for rows in (0, 1, 7, 100):
        native.check(all_bytes(signs[0], rows, depth))


def test_batches_of_constants_each_have_their_sums() -> None:
    w = all_bytes(I8, 3, 10, 20, seed=1)
    native = Native(make(["i8[3, M, 10]"], lambda ir, x: ir.dot(x, ir.constant(w), "bmk,bkn->bmn", I32)))
    assert _algorithms(native) == ["bytes"]
    native.check(all_bytes(I8, 3, 6, 10))


@pytest.mark.parametrize("target", [HOST, parse_target("cpu:x86-64-v3")], ids=str)
def test_a_product_is_scaled_rounded_and_stored_in_bytes_by_its_kernel(target: Target) -> None:
    w, scale = all_bytes(I8, 33, 20, seed=1), np.linspace(1e-4, 2e-2, 20, dtype=np.float32)

    def build(ir: Builder, x: Value) -> Value:
        total = ir.sub(ir.dot(x, ir.constant(w), "mk,kn->mn", I32), ir.constant(np.arange(20, dtype=np.int32)))
        scaled = ir.relu(ir.add(ir.mul(ir.cast(total, F32), ir.constant(scale)), 0.5))
        return ir.cast(ir.clamp(ir.add(ir.round(scaled), 3), 0, 255), U8)

    native = Native(make(["u8[M, 33]"], build), target)
    assert [kernel.kind for kernel in native.plan.kernels] == ["contraction"]
    for rows in (1, 9):
        native.check(all_bytes(U8, rows, 33))


def test_bytes_of_a_product_are_looked_up_where_they_lie() -> None:
    table = np.random.default_rng(2).permutation(256).astype(np.uint8)

    def build(ir: Builder, x: Value) -> Value:
        sums = ir.cast(ir.dot(x, ir.constant(all_bytes(I8, 64, 24)), "mk,kn->mn", I32), F32)
        places = ir.cast(ir.min(ir.max(ir.round(ir.mul(sums, 0.002)), 0.0), 255.0), U8)
        return ir.gather(ir.constant(table), ir.cast(places, I64), 0)

    native = Native(make(["u8[N, 64]"], build))
    assert [kernel.block.results[0].dtype for kernel in native.plan.kernels] == [U8, U8]
    native.check(all_bytes(U8, 5, 64, seed=1))


@pytest.mark.parametrize(
    ("depth", "is_constant", "has_tiles"), [(63, False, False), (64, False, True), (63, True, True)]
)
def test_tile_registers_multiply_what_fills_one_or_is_packed_for_it(
    depth: int, is_constant: bool, has_tiles: bool
) -> None:
    target, types = parse_target("cpu:x86-64-v4+amx-int8+avx512vnni"), [f"u8[49, {depth}]", f"i8[{depth}, 49]"]

    def build(ir: Builder, a: Value, b: Value | None = None) -> Value:
        b = ir.constant(all_bytes(I8, depth, 49)) if b is None else b
        return ir.dot(a, b, "mk,kn->mn", I32)

    plan = plan_kernels(make(types[: 1 if is_constant else 2], build), cpu_plan_target(target))
    text = "".join(function.text() for functions in kernel_pieces(plan, target).functions for function in functions)
    assert ("multiply_tiles" in text) == has_tiles
