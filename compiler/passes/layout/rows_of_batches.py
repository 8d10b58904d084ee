"""Axes of a batch along which one operand of a product is repeated are rows of the other.

Exporters repeat an operand for each image of a batch, as a table of relative positions, and merge this axis with that
of the heads. Written out, the operand takes as much memory as the batch has copies of it, and each is packed again.
"""

from string import ascii_letters

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.makers import made_by, unbroadcast
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule
from onnxc.compiler.passes.analysis.matching import axis_groups


def rows_of_batches(module: Module) -> Module:
    """Splits the axes of batches of products in which an operand is repeated."""
    return rewrite(module, [split_batches])


@rule("dot")
def split_batches(op: Op, build: Rewriter) -> Outcome:
    """dot(a, merge(broadcast(b))) = merge(dot(split(a), b)) for letters of both operands; the same for a"""
    *terms, result = parse_equation(op.text("equation"))
    for side in range(2):
        runs = _repeated_runs(op.operands[side])
        shared = {terms[side][axis] for axis in runs} & set(terms[1 - side]) & set(result)
        runs = {axis: run for axis, run in runs.items() if terms[side][axis] in shared}
        if runs:
            return _split(op, side, runs, build)
    return None


def _repeated_runs(value: Value) -> dict[int, tuple[int, ...]]:
    """For a reshape that merges axes of a broadcast: the axes that each axis was, if it repeats along some."""
    reshape = made_by(value, "reshape")
    if reshape is None:
        return {}
    x = reshape.operands[0]
    groups = axis_groups(x.shape, value.shape)
    if groups is None or 1 in x.shape or any(len(after) != 1 for _, after in groups):
        return {}
    source, axes = unbroadcast(x)
    kept = {axis for axis, size in zip(axes, source.shape, strict=True) if size == x.shape[axis]}
    return {after[0]: before for before, after in groups if len(before) > 1 and not kept.issuperset(before)}


def _split(op: Op, side: int, runs: dict[int, tuple[int, ...]], build: Builder) -> Value:
    """The product with a letter for each axis of these runs, merged again."""
    *terms, result = parse_equation(op.text("equation"))
    unused = (letter for letter in ascii_letters if letter not in terms[0] + terms[1])
    names = {terms[side][axis]: "".join(next(unused) for _ in run) for axis, run in runs.items()}
    merge = made_by(op.operands[side], "reshape")
    assert merge is not None, op
    operands = list(op.operands)
    operands[side] = x = merge.operands[0]
    sizes = {terms[side][axis]: [x.shape[old] for old in run] for axis, run in runs.items()}

    def split(value: Value, term: str, shape: tuple[Dim, ...]) -> Value:
        return build.with_shape(
            value, [size for a, old in zip(term, shape, strict=True) for size in sizes.get(a, [old])]
        )

    shapes = (operand.shape for operand in op.operands)
    operands = [split(*each) for each in zip(operands, terms, shapes, strict=True)]
    terms = ["".join(names.get(letter, letter) for letter in term) for term in (*terms, result)]
    product = build.dot(operands[0], operands[1], f"{terms[0]},{terms[1]}->{terms[2]}", op.dtype())
    return build.with_shape(product, op.result.shape)
