"""Means and inverse roots, in the spellings that exporters use."""

from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.makers import is_splat, made_by, splat_of, unbroadcast
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.analysis.matching import bare, is_near


def mean_of(value: Value) -> tuple[Value, tuple[int, ...]] | None:
    """(x, axes) where `value` is the mean of x over axes: the sum divided by, or times one over, how many there are."""
    scaled = made_by(bare(value), "div", "mul")
    total = None if scaled is None else made_by(bare(scaled.operands[0]), "reduce")
    if scaled is None or total is None or total.text("kind") != "sum":
        return None
    x, axes = total.operands[0], total.ints("axes")
    count = product(x.shape[axis] for axis in axes)
    return (x, axes) if _is_count(scaled.operands[1], count, inverted=scaled.name == "mul") else None


def _is_count(value: Value, count: Dim, *, inverted: bool) -> bool:
    """Whether `value` is `count` as a float, or one over it where `inverted`."""
    if isinstance(count, int):
        return count > 0 and is_near(splat_of(value), 1 / count if inverted else count, value.dtype)
    source = bare(unbroadcast(value)[0])
    if inverted:
        inverse = made_by(source, "div")
        if inverse is None or not is_splat(inverse.operands[0], 1):
            return False
        source = bare(unbroadcast(inverse.operands[1])[0])
    cast = made_by(source, "cast")
    sizes = None if cast is None else made_by(bare(cast.operands[0]), "sizes")
    return sizes is not None and sizes.dims("values") == (count,)


def mean_square_of(value: Value) -> tuple[Value, tuple[int, ...]] | None:
    """(x, axes) where `value` is the mean of x * x over axes."""
    mean = mean_of(value)
    square = None if mean is None else made_by(mean[0], "mul")
    if mean is None or square is None or square.operands[0] != square.operands[1]:
        return None
    return square.operands[0], mean[1]


def plus_epsilon(value: Value) -> tuple[Value, float] | None:
    """(x, epsilon) where `value` is x + epsilon for a constant that is not negative."""
    total = made_by(bare(value), "add")
    epsilon = None if total is None else splat_of(total.operands[1])
    return None if total is None or epsilon is None or not epsilon >= 0 else (total.operands[0], float(epsilon))


def root_of(value: Value) -> Value | None:
    """x where `value` is the square root of x."""
    op = made_by(bare(value), "sqrt", "pow")
    if op is None or (op.name == "pow" and not is_splat(op.operands[1], 0.5)):
        return None
    return op.operands[0]


def inverse_root_of(value: Value) -> Value | None:
    """x where `value` is one over the square root of x: 1 / √x, √(1 / x) or x^-½."""
    op = made_by(bare(value), "div", "sqrt", "pow")
    if op is None:
        return None
    if op.name == "pow":
        return op.operands[0] if is_splat(op.operands[1], -0.5) else None
    if op.name == "div":
        return root_of(op.operands[1]) if is_splat(op.operands[0], 1) else None
    inverse = made_by(bare(op.operands[0]), "div")
    return None if inverse is None or not is_splat(inverse.operands[0], 1) else inverse.operands[1]


def normalizer_of(factor: Value, *, divides: bool) -> Value | None:
    """x where dividing, or else multiplying, by `factor` divides by √x."""
    return root_of(factor) if divides else inverse_root_of(factor)
