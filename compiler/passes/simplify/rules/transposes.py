"""Transposes: merged with each other, and pushed into what can read or write in any order of axes."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.makers import constant_of, made_by, unbroadcast
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.ir.rewriter import Rewriter, rule


@rule("transpose")
def transpose_nothing(op: Op, build: Builder) -> Value | None:
    """transpose(x, identity) = x"""
    permutation = op.ints("permutation")
    return op.operands[0] if permutation == tuple(range(len(permutation))) else None


@rule("transpose")
def merge_transposes(op: Op, build: Builder) -> Value | None:
    """transpose(transpose(x, p), q) = transpose(x, p∘q)"""
    inner = made_by(op.operands[0], "transpose")
    if inner is None:
        return None
    return build.transpose(inner.operands[0], [inner.ints("permutation")[axis] for axis in op.ints("permutation")])


@rule("dot")
def contract_transposed(op: Op, build: Builder) -> Value | None:
    """dot(transpose(a), b) = dot(a, b) with the letters of a permuted, and the same for b"""
    *terms, result = parse_equation(op.text("equation"))
    operands = list(op.operands)
    for side, operand in enumerate(op.operands):
        inner = made_by(operand, "transpose")
        if inner is not None:
            letters = dict(zip(inner.ints("permutation"), terms[side], strict=True))
            terms[side] = "".join(letters[axis] for axis in range(operand.rank))
            operands[side] = inner.operands[0]
    if tuple(operands) == op.operands:
        return None
    return build.dot(operands[0], operands[1], f"{terms[0]},{terms[1]}->{result}", op.dtype())


@rule("transpose")
def transpose_contraction(op: Op, build: Rewriter) -> Value | None:
    """transpose(dot(a, b)) = dot(a, b) with the letters of the result permuted, where nothing else uses it

    Products of a batch that would lie side by side are left: each of them would be scattered, over lines of memory that
    all of them share. Of 256 times 27 x 27 x 64 that took 838 us, and 179 with a transposition behind it.
    """
    inner = made_by(op.operands[0], "dot")
    if inner is None or build.uses(inner.result) > 1:
        return None
    left, right, result = parse_equation(inner.text("equation"))
    permuted = "".join(result[axis] for axis in op.ints("permutation"))
    if permuted[-1:] != result[-1:] and permuted[-1] in left and permuted[-1] in right:
        return None
    a, b = inner.operands
    return build.dot(a, b, f"{left},{right}->{permuted}", inner.dtype())


@rule("reduce")
def reduce_transposed(op: Op, build: Rewriter) -> Value | None:
    """reduce(transpose(x), a) = transpose(reduce(x, a)), where nothing else uses the first transpose

    Sums may be rounded in another order.
    """
    inner = made_by(op.operands[0], "transpose")
    if inner is None or build.uses(inner.result) > 1:
        return None
    permutation = inner.ints("permutation")
    axes = sorted(permutation[axis] for axis in op.ints("axes"))
    kept = [axis for axis in range(len(permutation)) if axis not in axes]
    order = [kept.index(old) for new, old in enumerate(permutation) if new not in op.ints("axes")]
    return build.transpose(build.reduce(inner.operands[0], op.text("kind"), axes), order)


@rule("reduce")
def reduce_computed_of_transposed(op: Op, build: Rewriter) -> Value | None:
    """reduce(f(transpose(x))) = reduce(transpose(f(x))) for elementwise f of x and numbers that nothing else uses"""
    chain, user, value = list[Op](), op, op.operands[0]
    while (turn := made_by(value, "transpose")) is None:
        inner = value.op
        if inner is None or not PRIMITIVES[inner.name].elementwise or build.uses(value) != user.operands.count(value):
            return None
        varying = {operand for operand in inner.operands if not _is_scalar(operand)}
        if len(varying) != 1:
            return None
        chain.append(inner)
        user, (value,) = inner, varying
    if not chain or build.uses(value) != user.operands.count(value):
        return None
    (x,) = turn.operands
    for inner in reversed(chain):
        scalars = {
            each: build.broadcast(unbroadcast(each)[0], (), x.shape) for each in inner.operands if _is_scalar(each)
        }
        x = build.op(inner.name, [scalars.get(each, x) for each in inner.operands], inner.attributes)[0]
    return build.reduce(build.transpose(x, turn.ints("permutation")), op.text("kind"), op.ints("axes"))


def _is_scalar(value: Value) -> bool:
    source = unbroadcast(value)[0]
    return source.rank == 0 and constant_of(source) is not None


@rule("reduce_window")
def window_transposed(op: Op, build: Rewriter) -> Value | None:
    """reduce_window(transpose(x), w) = transpose(reduce_window(x, moved w)), if nothing else uses the transpose

    Sums may be rounded in another order. Where windows are strides apart, less is transposed.
    """
    inner = made_by(op.operands[0], "transpose")
    if inner is None or build.uses(inner.result) > 1:
        return None
    permutation = inner.ints("permutation")
    order = [permutation.index(axis) for axis in range(len(permutation))]
    window, strides, dilations = (
        [op.ints(name)[axis] for axis in order] for name in ("window", "strides", "dilations")
    )
    low, high = ([op.dims(name)[axis] for axis in order] for name in ("low", "high"))
    moved = build.reduce_window(inner.operands[0], op.text("kind"), window, strides, low, high, dilations)
    return build.transpose(moved, permutation)
