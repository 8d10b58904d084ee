"""Fourier transforms as the sums that define them: products with matrices of roots."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F32, F64, I64
from onnxc.compiler.ir.module import Op, Value


def summed_roots(op: Op, build: Builder) -> tuple[Value, ...]:
    """The sum over j of x[j] * root[j * k mod n], of whole signals"""
    x, roots = op.operands
    inverse, onesided = op.flag("inverse"), op.flag("onesided")
    wide = F64 if roots.dtype == F64 else F32
    length, bins = roots.shape[0], op.results[0].tensor.known_shape[-2]
    real, imaginary = _whole_signal(build.cast(x, wide), length, inverse and onesided, build)
    grid = (length, bins)
    turns = build.rem(build.mul(build.iota(grid, 0, I64), build.iota(grid, 1, I64)), build.size(length))
    cosines, sines = (_column(build.gather(build.cast(roots, wide), turns, 0), part, build) for part in (0, 1))
    sines = sines if inverse else build.neg(sines)
    results = [build.sub(_product(real, cosines, build), _product(imaginary, sines, build))]
    if not (inverse and onesided):
        results.append(build.add(_product(imaginary, cosines, build), _product(real, sines, build)))
    if inverse:
        results = [build.div(result, build.cast(build.size(length), wide)) for result in results]
    parts = [build.unsqueeze(result, (result.rank,)) for result in results]
    return (build.cast(build.concatenate(parts, x.rank - 1), x.dtype),)


def _whole_signal(x: Value, length: Dim, is_half: bool, build: Builder) -> tuple[Value, Value]:
    """Real and imaginary parts T[..., length]: cut or filled up, of half a spectrum the other half too."""
    axis, parts = x.rank - 2, x.shape[-1]
    kept = minimum(x.shape[axis], length)
    filling = [0] * axis + [maximum(length - kept, 0), 0]
    fitted = build.pad(build.slice_axis(x, axis, 0, kept), [0] * x.rank, filling)
    real = _column(fitted, 0, build)
    imaginary = _column(fitted, 1, build) if parts == 2 else build.mul(real, 0)
    if not is_half:
        return real, imaginary
    bin = build.iota((length,), 0, I64)
    mirrored = build.less(build.size(length), build.mul(bin, 2))
    source = build.select(mirrored, build.sub(build.size(length), bin), bin)
    sign = build.cast(build.select(mirrored, build.scalar(-1, I64), 1), x.dtype)
    is_real = build.or_(build.equal(bin, 0), build.equal(build.mul(bin, 2), build.size(length)))
    real, imaginary = (build.gather(part, source, axis) for part in (real, imaginary))
    sign, is_real = (build.broadcast(line, (axis,), imaginary.shape) for line in (sign, is_real))
    return real, build.select(is_real, 0.0, build.mul(imaginary, sign))


def _column(x: Value, part: int, build: Builder) -> Value:
    return build.squeeze(build.slice_axis(x, x.rank - 1, part, 1), (x.rank - 1,))


def _product(x: Value, matrix: Value, build: Builder) -> Value:
    """T[..., j] by T[j, k]"""
    lines = "abcdefghilmnopqr"[: x.rank - 1]
    return build.dot(x, matrix, f"{lines}j,jk->{lines}k")
