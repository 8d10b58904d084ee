"""Square matrices transposed in registers: as many rows as a vector has lanes.

Instructions that interleave two vectors of up to 256 bits do so within each 128 bits, at once and wherever two halves
may not change places; what crosses these takes several times as long on some processors. A square in memory is loaded
half row by half row, so that nothing crosses.
"""

from collections.abc import Sequence

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg, register, vector_type

__all__ = ["PART_BITS", "element_bits", "load_turned", "turn_square"]

PART_BITS = 128
"""What an instruction interleaves by itself."""

FLOAT_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


def turn_square(f: FunctionBuilder, rows: Sequence[Reg]) -> list[Reg]:
    """The transpose of the square matrix of `rows`."""
    lanes, parts = rows[0].lanes, _parts(rows[0])
    side = lanes // parts
    turned = [row for first in range(0, lanes, side) for row in _interleaved(f, rows[first : first + side], parts)]
    if parts > 2:
        turned = [_kept_apart(f, row) for row in turned]
    return _exchanged(f, turned, side)


def load_turned(f: FunctionBuilder, addresses: Sequence[Reg], element: str) -> list[Reg]:
    """The transpose of the square matrix whose rows lie at the addresses."""
    lanes = len(addresses)
    vector, half = vector_type(element, lanes), lanes // 2
    if lanes * element_bits(element) != 2 * PART_BITS:
        return turn_square(f, [f.load(vector, address) for address in addresses])
    part = vector_type(element, half)

    def columns(first: int) -> list[Reg]:
        upper, lower = (
            [f.load(part, f.gep(address, first, element)) for address in rows]
            for rows in (addresses[:half], addresses[half:])
        )
        joined = [f.shuffle(a, b, list(range(lanes))) for a, b in zip(upper, lower, strict=True)]
        return _interleaved(f, joined, 2)

    return [*columns(0), *columns(half)]


def _parts(row: Reg) -> int:
    """How many times a vector has the bits that one instruction interleaves, at least 1."""
    return max(row.lanes * element_bits(row.element) // PART_BITS, 1)


def element_bits(element: str) -> int:
    """The bits of an element of a vector."""
    return FLOAT_BITS.get(element) or int(element[1:])


def _interleaved(f: FunctionBuilder, rows: Sequence[Reg], parts: int) -> list[Reg]:
    """The transposes of the squares that the rows have in each of so many parts.

    A row and the one half a square below interleave, as often as a side has bits.
    """
    turned, lanes, side = list(rows), rows[0].lanes, len(rows)
    firsts = range(0, lanes, lanes // parts)
    low = [lane for first in firsts for pair in range(side // 2) for lane in (first + pair, lanes + first + pair)]
    high = [lane + side // 2 for lane in low]
    for _ in range(side.bit_length() - 1):
        pairs = zip(turned[: side // 2], turned[side // 2 :], strict=True)
        turned = [f.shuffle(a, b, picks) for a, b in pairs for picks in (low, high)]
    return turned


def _kept_apart(f: FunctionBuilder, row: Reg) -> Reg:
    """A row that LLVM does not look through: for shuffles that are several in one it looks the longer the more follow
    each other. A square of 16 x 16 floats took it 7.2 ms, and takes 3.0 ms, with as many instructions that shuffle."""
    floats = vector_type("float", row.lanes * element_bits(row.element) // element_bits("float"))
    kept = f.intrinsic("llvm.arithmetic.fence.*", floats, register(f.convert("bitcast", row, floats)))
    return register(f.convert("bitcast", kept, row.type))


def _exchanged(f: FunctionBuilder, rows: Sequence[Reg], side: int) -> list[Reg]:
    """The rows of a square of squares with these exchanged, so that all is turned where each of them is.

    The even squares of two rows become a row, and the odd ones, which is one instruction each, as often as the ordinals
    of squares have bits.
    """
    lanes, turned = len(rows), list(rows)
    even = [lane for lane in range(2 * lanes) if not lane & side]
    odd = [lane + side for lane in even]
    for first in range(side):
        line = turned[first::side]
        for _ in range((lanes // side).bit_length() - 1):
            pairs = list(zip(line[::2], line[1::2], strict=True))
            line = [f.shuffle(a, b, picks) for picks in (even, odd) for a, b in pairs]
        turned[first::side] = line
    return turned
