"""Contractions: operands that are repeated or padded are read as they are, and summed alone where they can be."""

from math import inf

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.makers import is_splat, made_by, unbroadcast
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitives.contractions import parse_dimensions, parse_equation
from onnxc.compiler.ir.rewriter import rule


@rule("dot")
def contract_broadcast(op: Op, build: Builder) -> Value | None:
    """dot(broadcast(a), b) = dot(a, b) without the letters along which a repeats, where b has them; the same for b"""
    *terms, result = parse_equation(op.text("equation"))
    operands = list(op.operands)
    for side in range(2):
        other = terms[1 - side]
        source, axes = unbroadcast(operands[side])
        letters = [terms[side][axis] for axis in axes]
        repeated = [letter for letter in terms[side] if letter not in letters]
        stretched = [
            letter
            for letter, axis, size in zip(letters, axes, source.shape, strict=True)
            if size == 1 and operands[side].shape[axis] != 1
        ]
        if not (repeated or stretched) or not set(repeated + stretched) <= set(other):
            continue
        kept = [index for index, letter in enumerate(letters) if letter not in stretched]
        if any(source.shape[index] != operands[side].shape[axes[index]] for index in kept):
            continue
        operands[side] = build.with_shape(source, [source.shape[index] for index in kept])
        terms[side] = "".join(letters[index] for index in kept)
    if tuple(operands) == op.operands:
        return None
    return build.dot(operands[0], operands[1], f"{terms[0]},{terms[1]}->{result}", op.dtype())


@rule("dot")
def sum_own_letters(op: Op, build: Builder) -> Value | None:
    """dot(a, b) = dot(sum(a), b) for letters that are summed and that b lacks; the same for b"""
    *terms, result = parse_equation(op.text("equation"))
    operands = list(op.operands)
    kept = [[letter for letter in terms[side] if letter in terms[1 - side] + result] for side in range(2)]
    if all(len(letters) == len(term) for letters, term in zip(kept, terms, strict=True)):
        return None
    # A sum is as exact as the sums of the product, of which it is a part.
    dtype = op.dtype()
    exact = F32 if dtype.is_float and dtype.bits < F32.bits else dtype
    for side, letters in enumerate(kept):
        axes = [axis for axis, letter in enumerate(terms[side]) if letter not in letters]
        operands[side] = build.reduce(build.cast(operands[side], exact), "sum", axes)
    equation = ",".join("".join(letters) for letters in kept)
    return build.cast(build.dot(operands[0], operands[1], f"{equation}->{result}", exact), dtype)


@rule("convolution")
def convolve_padded(op: Op, build: Builder) -> Value | None:
    """convolution(pad(x, 0), w) = convolution(x, w) with more padding, for spatial axes"""
    padded = made_by(op.operands[0], "pad")
    if padded is None or not is_splat(padded.operands[1], 0) or any(step != 1 for step in op.ints("input_dilations")):
        return None
    low, high = padded.dims("low"), padded.dims("high")
    spatial = parse_dimensions(op.text("dimensions")).x.spatial
    if any(low[axis] != 0 or high[axis] != 0 for axis in range(padded.result.rank) if axis not in spatial):
        return None
    return build.convolution(
        padded.operands[0],
        op.operands[1],
        op.ints("strides"),
        [mine + theirs for mine, theirs in zip(op.dims("low"), (low[axis] for axis in spatial), strict=True)],
        [mine + theirs for mine, theirs in zip(op.dims("high"), (high[axis] for axis in spatial), strict=True)],
        op.ints("dilations"),
        op.int("groups"),
        op.ints("input_dilations"),
        op.dtype(),
        dimensions=op.text("dimensions"),
    )


IDENTITIES = {"sum": 0.0, "max": -inf, "min": inf}


@rule("reduce_window")
def fold_padded(op: Op, build: Builder) -> Value | None:
    """reduce_window(pad(x, identity)) = reduce_window(x) with more padding"""
    padded = made_by(op.operands[0], "pad")
    if padded is None or not is_splat(padded.operands[1], IDENTITIES[op.text("kind")]):
        return None
    low, high = (
        [mine + theirs for mine, theirs in zip(op.dims(name), padded.dims(name), strict=True)]
        for name in ("low", "high")
    )
    shape = op.ints("window"), op.ints("strides"), low, high, op.ints("dilations")
    return build.reduce_window(padded.operands[0], op.text("kind"), *shape)
