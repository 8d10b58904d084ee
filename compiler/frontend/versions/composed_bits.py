"""What works on the bits of integers, by products with powers of 2, which is exact for all of them."""

from collections.abc import Mapping

import numpy as np

from onnxc.compiler.frontend.element_types import ELEMENT_TYPES
from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto
from onnxc.compiler.frontend.versions.change import Change
from onnxc.compiler.frontend.versions.steps import Steps
from onnxc.compiler.frontend.versions.upward import Adapter

__all__ = ["bit_cast", "bit_shift", "bit_shift_28", "bitwise", "bitwise_not"]

WIDEST = 64


def bitwise(operator: str) -> Adapter:
    """Each bit by an operator on truths, and all of them added up."""

    def adapt(change: Change) -> None:
        at, width = Steps(change), ELEMENT_TYPES[change.known_element(0)].dtype.bits
        powers = change.tensor(np.uint64(1) << np.arange(width, dtype=np.uint64), "powers")
        left, right = (_bits(at, name, powers) for name in change.node.input)
        both = at("Cast", at(operator, left, right), to=TensorProto.UINT64)
        total = at.over("ReduceSum", at("Mul", both, powers), [-1], keepdims=0)
        at.become("Cast", total, to=change.known_element(0))

    return adapt


def _bits(at: Steps, x: str, powers: str) -> str:
    """bool[..., width]: the bits of integers, the lowest first."""
    wide = at.over("Unsqueeze", at("Cast", x, to=TensorProto.UINT64), [-1])
    shifted, two = at("Div", wide, powers), at.constant(2, np.uint64)
    lowest = at("Sub", shifted, at("Mul", at("Div", shifted, two), two))
    return at("Cast", lowest, to=TensorProto.BOOL)


def bitwise_not(change: Change) -> None:
    """-1 - x, in which -1 is all bits."""
    all_bits = ~np.zeros((), ELEMENT_TYPES[change.known_element(0)].dtype.numpy)
    Steps(change).become("Sub", change.tensor(all_bits, "constant"), change.input(0))


def bit_shift(change: Change) -> None:
    """A product with a power of 2, or its quotient; nothing is left of what is shifted out of the widest type."""
    at, element = Steps(change), change.known_element(0)
    powers = np.uint64(1) << np.arange(WIDEST, dtype=np.uint64)
    wide, by = (at("Cast", name, to=TensorProto.UINT64) for name in change.node.input)
    most = at.constant(WIDEST, np.uint64)
    ordinals = at("Cast", at("Where", at("Less", by, most), by, most), to=TensorProto.INT64)

    def chosen(table: np.ndarray) -> str:
        return at("Gather", change.tensor(table, "powers"), ordinals, axis=0)

    if change.text("direction") == "LEFT":
        result = at("Mul", wide, chosen(np.append(powers, np.uint64(0))))
    else:
        half = at("Div", wide, chosen(np.append(powers, powers[-1])))
        result = at("Div", half, chosen(np.append(np.ones(WIDEST, np.uint64), np.uint64(2))))
    at.become("Cast", result, to=element)


UNSIGNED: Mapping[int, int] = {
    TensorProto.INT8: TensorProto.UINT8,
    TensorProto.INT16: TensorProto.UINT16,
    TensorProto.INT32: TensorProto.UINT32,
    TensorProto.INT64: TensorProto.UINT64,
}


def bit_shift_28(change: Change) -> None:
    """Signed integers shifted as unsigned ones; negative ones to the right between two inversions of all bits."""
    at, element, x = Steps(change), change.element(0), change.input(0)
    unsigned = UNSIGNED.get(element)
    if unsigned is None:
        return
    direction, all_bits = change.text("direction"), at.scalar(-1)
    is_negative = at("Less", x, at.scalar(0))
    if direction == "RIGHT":
        x = at("Where", is_negative, at("Sub", all_bits, x), x)
    by = at("Cast", change.input(1), to=unsigned)
    shifted = at("Cast", at("BitShift", at("Cast", x, to=unsigned), by, direction=direction), to=element)
    if direction == "RIGHT":
        at.become("Where", is_negative, at("Sub", all_bits, shifted), shifted)
    else:
        at.become("Identity", shifted)


def bit_cast(change: Change) -> None:
    """Integers keep their bits when they are cast to integers of the same width."""
    at = Steps(change)
    before, after = (ELEMENT_TYPES[code].dtype for code in (change.known_element(0), change.integer("to")))
    if before == after:
        at.become("Identity", change.input(0))
    elif before.is_integer and after.is_integer:
        at.become("Cast", change.input(0), to=change.integer("to"))
    else:
        change.fail(f"only integers keep their bits in a cast, and these are {before} and {after}")
