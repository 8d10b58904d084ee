"""Triton source as callers write it, with functions on the host that mean the same, as ops of the IR."""

from onnxc.compiler.frontend.custom.triton_source import read_triton
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Attributes, Value
from onnxc.compiler.ir.primitives.native import ATTRIBUTE
from onnxc.compiler.ir.types import TensorType

__all__ = ["AFFINE", "CENTRED", "TURNED", "affine", "centred", "turned"]

AFFINE = """
    @triton.jit
    def affine(x, scale, bias):
        return _scaled(x, scale) + bias

    @triton.jit
    def _scaled(x, scale):
        return x * scale
"""
"""y = scale x + bias, element by element."""

CENTRED = """
    @triton.jit
    def centred(x, mask, y_mask, n, y_n):
        wide = tl.where(mask, x, 0.0).to(tl.float32)
        return x - tl.sum(wide, axis=1, keep_dims=True) / n
"""
"""Rows less their means."""

TURNED = """
    @triton.jit
    def turned(x, y, rows, columns, y_rows, y_columns):
        for start in range(0, rows * columns, 512):
            at = start + tl.arange(0, 512)
            mask = at < rows * columns
            v = tl.load(x + at, mask=mask)
            tl.store(y + (at % columns) * rows + at // columns, v, mask=mask)
"""
"""The transpose."""


def affine(ir: Builder, x: Value) -> Value:
    return _call(ir, x, x.shape, AFFINE, "elements", "affine", scale=0.5, bias=-1)


def centred(ir: Builder, x: Value) -> Value:
    return _call(ir, x, x.shape, CENTRED, "rows", "centred")


def turned(ir: Builder, x: Value) -> Value:
    return _call(ir, x, (x.shape[1], x.shape[0]), TURNED, "whole", "turned")


def _call(ir: Builder, x: Value, shape: tuple[Dim, ...], triton: str, access: str, name: str, **named: float) -> Value:
    attributes: Attributes = {
        "operator": name,
        "llvm": "",
        "triton": read_triton(triton, name).text,
        "access": access,
        "path": f"tests.support.host_functions:{name}",
        "scalars": tuple(named),
        **{f"{ATTRIBUTE}{key}": value for key, value in named.items()},
    }
    (result,) = ir.native_call([x], [TensorType(x.dtype, shape)], attributes)
    return result
