"""Folds of a tile of rows by columns along its columns, in the order that the tile alone decides."""

from onnxc.compiler.codegen_gpu.source.element_types import register_type
from onnxc.compiler.codegen_gpu.source.scalars import literal
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, SourceBuilder
from onnxc.compiler.ir.dtypes import BOOL, DType
from onnxc.compiler.planning.loops.rows import identity

ROWS, COLUMNS = 0, 1
"""The dimensions of a tile."""

_PRODUCT = """@triton.jit
def product(x, y):
    return x * y
"""


def fold_columns(b: SourceBuilder, kind: str, dtype: DType, x: Expr) -> Expr:
    """A tile folded along its columns, which stay as one."""
    dims = x.dims - {COLUMNS}
    if kind == "prod":
        b.helper(_PRODUCT)
        return b.let(f"tl.reduce({x}, {COLUMNS}, product, keep_dims=True)", dims)
    if kind in ("and", "or"):
        function = "tl.min" if kind == "and" else "tl.max"
        return b.let(f"{function}({x}.to(tl.int32), {COLUMNS}, keep_dims=True) != 0", dims)
    if dtype == BOOL:
        return b.let(f"tl.{kind}({x}.to(tl.int32), {COLUMNS}, keep_dims=True) != 0", dims)
    if kind == "sum" or not dtype.is_float:
        return b.let(f"tl.{kind}({x}, {COLUMNS}, keep_dims=True).to({register_type(dtype)})", dims)
    # The folds of the language pass over NaN.
    ordered = b.let(f"tl.where({x} != {x}, {literal(b, identity(kind, dtype), dtype)}, {x})", x.dims)
    folded = b.let(f"tl.{kind}({ordered}, {COLUMNS}, keep_dims=True)", dims)
    has_nan = b.let(f"tl.max(({x} != {x}).to(tl.int32), {COLUMNS}, keep_dims=True) != 0", dims)
    return b.let(f"tl.where({has_nan}, {literal(b, float('nan'), dtype)}, {folded})", dims)
