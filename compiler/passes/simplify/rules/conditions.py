"""Conditions: comparisons that are decided, and choices that are none."""

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.makers import is_splat, made_by, splat_of
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.rewriter import Rewriter, rule
from onnxc.compiler.passes.analysis.matching import full_like
from onnxc.compiler.passes.analysis.ranges import Range, range_of


@rule("equal", "less", "less_equal")
def compare_with_itself(op: Op, build: Builder) -> Value | None:
    """x < x is false; x == x and x <= x are true of integers, and of floats where they are no NaN"""
    x, y = op.operands
    if x != y or (op.name != "less" and (x.dtype.is_float or x.dtype.is_complex)):
        return None
    return full_like(op.result, op.name != "less", build)


@rule("equal", "less", "less_equal")
def compare_decided(op: Op, build: Rewriter) -> Value | None:
    """a comparison of integers is true or false where their ranges decide it"""
    x, y = op.operands
    if not x.dtype.is_integer:
        return None
    bounds = build.symbols.ranges
    decided = _decided(op.name, range_of(x, bounds), range_of(y, bounds))
    return None if decided is None else full_like(op.result, decided, build)


def _decided(name: str, x: Range, y: Range) -> bool | None:
    below = x.high is not None and y.low is not None and x.high < y.low
    above = x.low is not None and y.high is not None and x.low > y.high
    if name == "equal":
        return False if below or above else None
    if below or (name == "less_equal" and x.high is not None and y.low is not None and x.high <= y.low):
        return True
    if above or (name == "less" and x.low is not None and y.high is not None and x.low >= y.high):
        return False
    return None


@rule("not")
def negate_comparison(op: Op, build: Builder) -> Value | None:
    """not (x < y) = y <= x and not (x <= y) = y < x for integers; a NaN is neither"""
    compared = made_by(op.operands[0], "less", "less_equal")
    if compared is None or not compared.operands[0].dtype.is_integer:
        return None
    x, y = compared.operands
    return build.less_equal(y, x) if compared.name == "less" else build.less(y, x)


@rule("equal")
def compare_bool(op: Op, build: Builder) -> Value | None:
    """x == true is x, x == false is not x, for a bool and for a bool in another type"""
    x, y = op.operands
    cast = made_by(x, "cast")
    condition = x if x.dtype.is_bool else cast.operands[0] if cast is not None else None
    if condition is None or not condition.dtype.is_bool:
        return None
    if is_splat(y, 1):
        return condition
    return build.not_(condition) if is_splat(y, 0) else None


@rule("less")
def compare_bool_with_zero(op: Op, build: Builder) -> Value | None:
    """0 < x is x, for a bool x in another type"""
    x, y = op.operands
    cast = made_by(y, "cast")
    return cast.operands[0] if cast is not None and cast.operands[0].dtype.is_bool and is_splat(x, 0) else None


@rule("select")
def select_decided(op: Op, build: Builder) -> Value | None:
    """true ? a : b = a, false ? a : b = b, c ? a : a = a"""
    condition, a, b = op.operands
    decided = splat_of(condition)
    if decided is not None:
        return a if decided else b
    return a if a == b else None


@rule("select")
def select_negated(op: Op, build: Builder) -> Value | None:
    """not c ? a : b = c ? b : a"""
    condition, a, b = op.operands
    negated = made_by(condition, "not")
    return None if negated is None else build.select(negated.operands[0], b, a)


@rule("select")
def select_bool(op: Op, build: Builder) -> Value | None:
    """c ? true : false = c, c ? false : true = not c, c ? a : false = c and a, c ? true : b = c or b"""
    condition, a, b = op.operands
    if not a.dtype.is_bool:
        return None
    if is_splat(a, 1):
        return condition if is_splat(b, 0) else build.or_(condition, b)
    if is_splat(b, 0):
        return build.and_(condition, a)
    return build.not_(condition) if is_splat(a, 0) and is_splat(b, 1) else None


@rule("select")
def select_again(op: Op, build: Builder) -> Value | None:
    """c ? (c ? a : x) : b = c ? a : b, c ? a : (c ? x : b) = c ? a : b"""
    condition, a, b = op.operands
    first, second = made_by(a, "select"), made_by(b, "select")
    if first is not None and first.operands[0] == condition:
        return build.select(condition, first.operands[1], b)
    if second is not None and second.operands[0] == condition:
        return build.select(condition, a, second.operands[2])
    return None


@rule("if")
def take_decided_branch(op: Op, build: Rewriter) -> tuple[Value, ...] | None:
    """if true {a} else {b} = a, if false {a} else {b} = b, where the branch has the types of the whole"""
    decided = splat_of(op.operands[0])
    if decided is None:
        return None
    block = op.blocks[0 if decided else 1]
    if tuple(result.type for result in block.results) != op.result_types:
        return None
    return build.inline(block, op.operands[1:])


@rule("while")
def skip_loop(op: Op, build: Builder) -> tuple[Value, ...] | None:
    """a loop without scans that never starts leaves its values as they are"""
    limit, condition = (splat_of(operand) for operand in op.operands[:2])
    carried = op.operands[2 : 2 + op.int("carried")]
    never = condition == 0 or (limit is not None and limit <= 0)
    fits = op.int("scans") == 0 and tuple(value.type for value in carried) == op.result_types
    if not (never and fits):
        return None
    # A guard may ask for the rounds.
    build.op("bind_sizes", [build.constant(np.zeros(1, np.int64))], {"symbols": (op.text("symbol"),)})
    return carried
