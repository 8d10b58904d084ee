"""What is looked for in the machine code of a kernel."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from onnxc.compiler.codegen_gpu.compile.listing import Listing, disassembled, parse_listing

__all__ = ["MATRIX", "MachineCode", "code_of", "disassembler", "read_code"]

MATRIX = ("HGMMA", "IGMMA", "QGMMA", "HMMA", "IMMA", "QMMA", "DMMA", "UTCHMMA", "UTCIMMA", "UTCQMMA")
"""What multiplies matrices: by groups of four warps, by single warps, and from sm_100 on by a thread for all."""

_BLOCK_COPY, _HANDING_OVER = "UTMALDG", "USETMAXREG"

# A load from memory of one byte or two; of S8 and S16 too, which have a sign.
_NARROW = re.compile(r"LDG\.(\w+\.)*[US](8|16)(\.|$)")


@dataclass(frozen=True)
class MachineCode:
    """matrix: how many instructions of each kind multiply. block_copies, handings_over: how many there are of these.

    narrow_loads: of one byte or two, in the loops that multiply matrices and have no such loop within.
    """

    matrix: Mapping[str, int]
    block_copies: int
    handings_over: int
    narrow_loads: int


def code_of(listing: Listing) -> MachineCode:
    """What a listing has of all that."""
    names = listing.instructions
    counts = Counter(name.partition(".")[0] for name in names)
    inner = {each for loop in listing.innermost(*MATRIX) for each in loop}
    return MachineCode(
        {kind: counts[kind] for kind in MATRIX if counts[kind]},
        counts[_BLOCK_COPY],
        counts[_HANDING_OVER],
        sum(bool(_NARROW.match(names[each])) for each in inner),
    )


@cache
def read_code(cubin: bytes) -> MachineCode:
    """The same of a cubin."""
    return code_of(parse_listing(disassembled(cubin, disassembler())))


@cache
def disassembler() -> Path:
    """Where the nvdisasm of triton is, which is not imported for that."""
    spec = find_spec("triton")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
