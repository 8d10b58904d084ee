"""One type for a value that comes along several ways: from either branch of an If, or from before and after a loop.

A size that differs is known at run time only, a rank that differs makes a host value. Within sequences and optionals
a size that differs is ANY_SIZE. What is present may stand where an optional is expected.
"""

from collections.abc import Set
from typing import NoReturn

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.derived_sizes import Truth, choice
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import ANY_SIZE, MapType, OptionalType, SequenceType, ShapedType, TensorType, Type

NEVER_FILLED = ("sequence_construct", "optional_construct")
"""Host functions that give, without operands, an empty sequence and an absent optional."""


def is_never_filled(value: Value) -> bool:
    """Whether the value is certainly an empty sequence or an absent optional, so that its type tells nothing."""
    op = value.op
    return op is not None and op.name == "host" and not op.operands and op.text("function") in NEVER_FILLED


def refilled(value: Value, ir: Builder, type: Type | None = None) -> Value:
    """What is never filled made again, as a value of `type`."""
    assert value.op is not None, value
    return ir.host(value.op.text("function"), (), (type or value.type,), {})[0]


def known_inside(type: Type, known: Set[str]) -> Type:
    """`type` with any size within sequences and optionals instead of those whose symbols are not `known`."""
    match type:
        case SequenceType(element):
            return SequenceType(_known_element(element, known))
        case OptionalType(element):
            return OptionalType(_known_element(element, known))
    return type


def _known_element(type: Type, known: Set[str]) -> Type:
    if not isinstance(type, TensorType) or type.shape is None:
        return known_inside(type, known)
    sizes = (dim if symbols_of(dim) <= known else ANY_SIZE for dim in type.shape)
    return TensorType(type.dtype, tuple(sizes))


def joined_element(a: Type, b: Type) -> Type | None:
    """The type of an element that is of either type; None where there is none."""
    if a == b:
        return a
    match a, b:
        case TensorType(), TensorType():
            if a.dtype != b.dtype:
                return None
            if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
                return TensorType(a.dtype, None)
            sizes = zip(a.shape, b.shape, strict=True)
            return TensorType(a.dtype, tuple(left if left == right else ANY_SIZE for left, right in sizes))
        case SequenceType(), SequenceType():
            inner = joined_element(a.element, b.element)
            return None if inner is None else SequenceType(inner)
        case OptionalType(), _:
            inner = joined_element(a.element, b.element if isinstance(b, OptionalType) else b)
            return None if inner is None else OptionalType(inner)
        case _, OptionalType():
            return joined_element(b, a)
        case MapType(), MapType():
            inner = joined_element(a.value, b.value) if a.key == b.key else None
            return None if inner is None else MapType(a.key, inner)
    return None


def is_rankless(type: Type) -> bool:
    """Whether it is a tensor, or made of tensors, whose rank only data decides."""
    match type:
        case ShapedType(shape=shape):
            return shape is None
        case SequenceType(element) | OptionalType(element):
            return is_rankless(element)
        case MapType():
            return False


def joined(ir: Builder, a: Value, b: Value, local: Set[str], truth: Truth | None, rule: str) -> Type:
    """The type of a value that may come from either branch; `local` symbols mean nothing outside the branches.

    `truth` tells in sizes which branch it is, where they do. Raises ModelError by `rule` where there is none.
    """
    outside = frozenset(ir.symbols.ranges) - local
    if is_never_filled(a) != is_never_filled(b) and type(a.type) is type(b.type):
        return known_inside(b.type if is_never_filled(a) else a.type, outside)
    if not isinstance(a.type, TensorType) or not isinstance(b.type, TensorType):
        common = joined_element(a.type, b.type)
        if common is None:
            _fail(ir, a.type, b.type, rule)
        return known_inside(common, outside)
    if a.dtype != b.dtype:
        _fail(ir, a.type, b.type, rule)
    left, right = a.type.shape, b.type.shape
    if left is None or right is None or len(left) != len(right):
        return TensorType(a.dtype, None)
    sizes = (_agreed(ir, *pair, local, truth) for pair in zip(left, right, strict=True))
    return TensorType(a.dtype, tuple(sizes))


def _fail(ir: Builder, a: Type, b: Type, rule: str) -> NoReturn:
    ir.fail("branch-types", f"the branches give {a} and {b}", rule=rule)


def _agreed(ir: Builder, a: Dim, b: Dim, local: Set[str], truth: Truth | None) -> Dim:
    agreed = None if (symbols_of(a) | symbols_of(b)) & local else agreed_size(a, b, truth)
    return ir.fresh_symbol("branch") if agreed is None else agreed


def agreed_size(a: Dim, b: Dim, truth: Truth | None) -> Dim | None:
    """The size that is `a` in the first branch and `b` in the second, where that can be said before the call."""
    return choice(truth, a, b) if truth is not None else a if a == b else None


def widened(ir: Builder, before: Type, after: Type, loose: set[Dim], known: Set[str]) -> Type:
    """A type for what is `before` first and `after` then: a size that changes gets a symbol of its own, once.

    Those given so far are `loose`; `known` are the symbols that mean the same in every iteration.
    """
    if before == after:
        return before
    if isinstance(before, TensorType) and isinstance(after, TensorType) and before.dtype == after.dtype:
        left, right = before.shape, after.shape
        if left is None or right is None or len(left) != len(right):
            return TensorType(before.dtype, None)
        sizes = zip(left, right, strict=True)
        kept = [a if a == b or a in loose else ir.fresh_symbol("carried") for a, b in sizes]
        loose.update(a for a, b in zip(kept, left, strict=True) if a != b)
        return TensorType(before.dtype, tuple(kept))
    common = joined_element(before, after)
    if common is None or isinstance(common, TensorType):
        ir.fail("carried-type", f"a carried value is {before} before and {after} after", rule="ONNX Loop, body")
    return known_inside(common, known)
