"""Rows against a panel of bytes, by tiles where there are such registers, else by vectors."""

from onnxc.compiler.codegen_cpu.inner_loops.integer_dots import GROUP, PAIR, has_dots, multiplied_type
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import (
    LibraryFunction,
    Product,
    ProductTypes,
    multiply,
    product_library,
)
from onnxc.compiler.codegen_cpu.inner_loops.tile_kernels import TILE_STEPS, TileKernel, has_tiles
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.target import Target

__all__ = ["byte_library", "group_size", "multiply_bytes", "panel_steps", "row_type", "whole_steps"]


def row_type(own: DType, other: DType, target: Target) -> DType:
    """The type in which rows of `own` type are multiplied with a panel of `other`."""
    return own if has_tiles(target) else multiplied_type(other, target)


def group_size(target: Target) -> int:
    """How many neighbours along k are multiplied at once, and lie side by side in a panel."""
    return GROUP if has_tiles(target) or has_dots(target) else PAIR


def whole_steps(target: Target) -> int:
    """How many groups along k are read at once: panels and rows have a multiple of them."""
    return TILE_STEPS if has_tiles(target) else 1


def multiply_bytes(
    f: FunctionBuilder,
    product: Product,
    rows: Int,
    accumulate: Int,
    types: ProductTypes,
    shape: tuple[int, int, int],
    target: Target,
) -> None:
    """All `rows` of a product, whose `depth` counts groups; `shape` is (vectors, lanes, most rows)."""
    if not has_tiles(target):
        multiply(f, product, rows, accumulate, types, shape)
        return
    depth = f.udiv(f.add(product.depth, TILE_STEPS - 1), TILE_STEPS)
    name = TileKernel(types, shape[0]).name
    f.call(name, "void", product.a, product.row_stride, product.panel, product.tile, depth, rows, accumulate)


def byte_library(types: ProductTypes, shape: tuple[int, int, int], target: Target) -> tuple[LibraryFunction, ...]:
    """The functions that `multiply_bytes` calls."""
    vectors, _, most_rows = shape
    if has_tiles(target):
        return (TileKernel(types, vectors),)
    return product_library(types, vectors, most_rows)


def panel_steps(depth: Int, f: FunctionBuilder, target: Target) -> Int:
    """How many groups along k a panel has."""
    whole = whole_steps(target) * group_size(target)
    return f.mul(f.udiv(f.add(depth, whole - 1), whole), whole_steps(target))
