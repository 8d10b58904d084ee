"""Relocation of code and data in an image, for the processors that we link for.

Each type is a row: what it refers to, how its value is computed, and the bits of the instruction that take it.
"""

import struct
from collections.abc import Callable
from typing import Literal

from onnxc.compiler.codegen_host.linking.elf_object import AARCH64, X86_64
from onnxc.runtime.records import record

# symbol: its address; call: the address, or that of a stub which jumps there if the symbol is imported;
# got: the address of a word that holds the address, or the address itself if the instruction can be relaxed;
# absolute: the address, filled in by the loader.
Reference = Literal["symbol", "call", "got", "absolute"]

# Writes the value into the image: (image, address to write at, target address with the addend).
Patch = Callable[[bytearray, int, int], None]


@record
class RelocationType:
    name: str
    reference: Reference
    patch: Patch
    is_relaxable: bool = False


@record
class Machine:
    """What linking needs to know of a processor.

    relative, global_data: the loader's relocations for an address of this image, and of an imported symbol.
    stub(address, slot): code at `address` that jumps to the address which is stored at `slot`.
    """

    page_bytes: int
    relative: int
    global_data: int
    types: dict[int, RelocationType]
    stub: Callable[[int, int], bytes]


def _signed_fits(value: int, bits: int) -> bool:
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def _relative_32(image: bytearray, address: int, target: int) -> None:
    struct.pack_into("<i", image, address, target - address)


def _relative_64(image: bytearray, address: int, target: int) -> None:
    struct.pack_into("<q", image, address, target - address)


def _absolute_64(image: bytearray, address: int, target: int) -> None:
    struct.pack_into("<Q", image, address, target)


def _x86_stub(address: int, slot: int) -> bytes:
    return b"\xff\x25" + struct.pack("<i", slot - (address + 6)) + b"\xcc" * 10  # jmp *slot(%rip)


def relax_got_load(image: bytearray, address: int) -> bool:
    """Turns x86's `mov symbol@GOTPCREL(%rip), reg` into `lea symbol(%rip), reg`, if that is the instruction."""
    if image[address - 2] != 0x8B:
        return False
    image[address - 2] = 0x8D
    return True


def _field(image: bytearray, address: int, value: int, low: int, bits: int) -> None:
    """Puts `value` into the bits [low, low + bits) of the instruction, which are zero."""
    word = struct.unpack_from("<I", image, address)[0] | (value & ((1 << bits) - 1)) << low
    struct.pack_into("<I", image, address, word)


def _arm_branch(bits: int, low: int) -> Patch:
    def patch(image: bytearray, address: int, target: int) -> None:
        distance = (target - address) >> 2
        assert _signed_fits(distance, bits), f"a branch of {target - address} bytes"
        _field(image, address, distance, low, bits)

    return patch


def _arm_address(image: bytearray, address: int, distance: int) -> None:
    """The 21-bit immediate of adr and adrp: two low bits apart from nineteen high ones."""
    assert _signed_fits(distance, 21), f"an address {distance} away"
    _field(image, address, distance, 29, 2)
    _field(image, address, distance >> 2, 5, 19)


def _arm_page(image: bytearray, address: int, target: int) -> None:
    _arm_address(image, address, (target >> 12) - (address >> 12))


def _arm_near(image: bytearray, address: int, target: int) -> None:
    _arm_address(image, address, target - address)


def _arm_low(scale: int) -> Patch:
    """The offset in a page, in units of the access of 1 << scale bytes."""

    def patch(image: bytearray, address: int, target: int) -> None:
        _field(image, address, (target & 0xFFF) >> scale, 10, 12)

    return patch


def _arm_stub(address: int, slot: int) -> bytes:
    code = bytearray(struct.pack("<4I", 0x90000010, 0xF9400211, 0xD61F0220, 0xD503201F))
    page = (slot >> 12) - (address >> 12)
    _arm_address(code, 0, page)  # adrp x16, slot
    _arm_low(3)(code, 4, slot)  # ldr x17, [x16, slot]; br x17; nop
    return bytes(code)


MACHINES = {
    X86_64: Machine(
        page_bytes=4096,
        relative=8,
        global_data=6,
        types={
            1: RelocationType("R_X86_64_64", "absolute", _absolute_64),
            2: RelocationType("R_X86_64_PC32", "call", _relative_32),
            4: RelocationType("R_X86_64_PLT32", "call", _relative_32),
            9: RelocationType("R_X86_64_GOTPCREL", "got", _relative_32),
            24: RelocationType("R_X86_64_PC64", "symbol", _relative_64),
            41: RelocationType("R_X86_64_GOTPCRELX", "got", _relative_32, is_relaxable=True),
            42: RelocationType("R_X86_64_REX_GOTPCRELX", "got", _relative_32, is_relaxable=True),
        },
        stub=_x86_stub,
    ),
    AARCH64: Machine(
        page_bytes=65536,
        relative=1027,
        global_data=1025,
        types={
            257: RelocationType("R_AARCH64_ABS64", "absolute", _absolute_64),
            260: RelocationType("R_AARCH64_PREL64", "symbol", _relative_64),
            261: RelocationType("R_AARCH64_PREL32", "symbol", _relative_32),
            274: RelocationType("R_AARCH64_ADR_PREL_LO21", "symbol", _arm_near),
            275: RelocationType("R_AARCH64_ADR_PREL_PG_HI21", "symbol", _arm_page),
            277: RelocationType("R_AARCH64_ADD_ABS_LO12_NC", "symbol", _arm_low(0)),
            278: RelocationType("R_AARCH64_LDST8_ABS_LO12_NC", "symbol", _arm_low(0)),
            279: RelocationType("R_AARCH64_TSTBR14", "symbol", _arm_branch(14, 5)),
            280: RelocationType("R_AARCH64_CONDBR19", "symbol", _arm_branch(19, 5)),
            282: RelocationType("R_AARCH64_JUMP26", "call", _arm_branch(26, 0)),
            283: RelocationType("R_AARCH64_CALL26", "call", _arm_branch(26, 0)),
            284: RelocationType("R_AARCH64_LDST16_ABS_LO12_NC", "symbol", _arm_low(1)),
            285: RelocationType("R_AARCH64_LDST32_ABS_LO12_NC", "symbol", _arm_low(2)),
            286: RelocationType("R_AARCH64_LDST64_ABS_LO12_NC", "symbol", _arm_low(3)),
            299: RelocationType("R_AARCH64_LDST128_ABS_LO12_NC", "symbol", _arm_low(4)),
            311: RelocationType("R_AARCH64_ADR_GOT_PAGE", "got", _arm_page),
            312: RelocationType("R_AARCH64_LD64_GOT_LO12_NC", "got", _arm_low(3)),
        },
        stub=_arm_stub,
    ),
}
