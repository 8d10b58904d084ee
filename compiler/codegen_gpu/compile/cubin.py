"""What a cubin says of its kernel: registers, memory, threads and the table of its parameters, read from the ELF file.

A cubin is a 64-bit ELF file. The sections `.nv.info` (of the file) and `.nv.info.<kernel>` are lists of attributes:
format (1 byte), attribute (1 byte), then by the format no value, a byte, 16 bits, or a length of 16 bits and as many
bytes. NVIDIA does not publish this; the numbers are those that `cuobjdump -elf` names, with which the tests compare.
"""

import os
import struct
from collections import Counter
from collections.abc import Iterator, Mapping

from onnxc.compiler.codegen_gpu.compile.listing import disassembled, parse_listing
from onnxc.runtime.records import record

__all__ = ["Cubin", "CubinError", "CubinParameter", "instruction_counts", "read_cubin"]

_HEADER = struct.Struct("<4s5B7xHHIQQQI6H")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_CUDA_MACHINE, _NO_DATA = 190, 8

# An instruction has 16 bytes, the operation in the lowest 12 bits: LDL and STL, of sm_80 as of sm_100.
_INSTRUCTION, _OPERATION, _LOCAL = struct.Struct("<QQ"), 0xFFF, (0x983, 0x387)

# Attributes.
_REQUIRED_THREADS, _MAX_THREADS, _FRAME_BYTES, _PARAMETER, _REGISTERS = 0x10, 0x05, 0x11, 0x17, 0x2F
_LONG = 4

# From sm_90 on the first 1 KiB of the static shared memory is the system's; limits per block do not count it.
_RESERVED_SHARED_BYTES = 1024


class CubinError(ValueError):
    """Bytes that are no cubin with one kernel; the text says why."""


@record
class CubinParameter:
    """Where the driver puts a parameter, in bytes from the first one."""

    offset: int
    size: int


@record
class Cubin:
    """A cubin of one kernel.

    architecture: 90 for sm_90. stack_bytes: of each thread; more than 0 means spills or local arrays, and a frame that
    no instruction reads or writes is none. shared_bytes: static shared memory of a CTA. threads: of a CTA, 0 if the
    kernel does not say. code_bytes: of the instructions.
    """

    entry: str
    architecture: int
    registers: int
    stack_bytes: int
    shared_bytes: int
    threads: int
    parameters: tuple[CubinParameter, ...]
    code_bytes: int


def read_cubin(data: bytes) -> Cubin:
    """What the cubin says of its kernel; CubinError where it is damaged or has not one kernel."""
    try:
        return _read(data)
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise CubinError(f"the cubin is damaged: {problem}") from problem


def instruction_counts(cubin: bytes, disassembler: str | os.PathLike[str]) -> Mapping[str, int]:
    """How often each instruction, with its modifiers, stands in the code: {"LDG.E.128": 2, ...}, most frequent first.

    disassembler: nvdisasm, which triton brings along (backends/nvidia/bin).
    """
    return dict(Counter(parse_listing(disassembled(cubin, disassembler)).instructions).most_common())


@record
class _Section:
    name: str
    kind: int
    size: int
    data: bytes


def _read(data: bytes) -> Cubin:
    sections, architecture = _sections(data)
    kernels = [name.removeprefix(".text.") for name in sections if name.startswith(".text.")]
    if len(kernels) != 1:
        raise CubinError(f"the cubin holds {len(kernels)} kernels, expected one")
    (entry,) = kernels
    of_file = _values(sections, ".nv.info")
    of_kernel = _values(sections, f".nv.info.{entry}")
    symbol = _symbol_index(sections, entry)
    return Cubin(
        entry=entry,
        architecture=architecture,
        registers=_of_symbol(of_file, _REGISTERS, symbol),
        stack_bytes=_of_symbol(of_file, _FRAME_BYTES, symbol) if _uses_stack(sections[f".text.{entry}"].data) else 0,
        shared_bytes=_shared_bytes(sections, entry),
        threads=_threads(of_kernel),
        parameters=_parameters(of_kernel),
        code_bytes=sections[f".text.{entry}"].size,
    )


def _sections(data: bytes) -> tuple[Mapping[str, _Section], int]:
    """The sections by name, and the number of the architecture."""
    magic, bits, _, _, _, version, _, machine, *rest = _HEADER.unpack_from(data)
    _, _, _, table, flags, _, _, _, entry_bytes, count, names = rest
    if magic != b"\x7fELF" or bits != 2 or machine != _CUDA_MACHINE or entry_bytes != _SECTION.size:
        raise CubinError("the bytes are no cubin: not a 64-bit ELF file for CUDA")
    headers = [_SECTION.unpack_from(data, table + i * entry_bytes) for i in range(count)]
    contents = [_content(data, header) for header in headers]
    named = (
        _Section(_text(contents[names], header[0]), header[1], header[5], content)
        for header, content in zip(headers, contents, strict=True)
    )
    # Version 8 of the ABI moved the architecture up by a byte.
    return {section.name: section for section in named}, (flags >> 8 if version >= 8 else flags) & 0xFF


def _content(data: bytes, header: tuple[int, ...]) -> bytes:
    _, kind, _, _, offset, size, *_ = header
    if kind in (0, _NO_DATA):
        return b""
    if offset + size > len(data):
        raise CubinError(f"the cubin is damaged: a section ends at byte {offset + size} of {len(data)}")
    return data[offset : offset + size]


def _text(strings: bytes, offset: int) -> str:
    return strings[offset:].partition(b"\0")[0].decode()


def _symbol_index(sections: Mapping[str, _Section], name: str) -> int:
    """The number by which attributes of the file name the kernel."""
    if not {".symtab", ".strtab"} <= sections.keys():
        raise CubinError("the cubin has no symbols")
    for index, (offset, *_) in enumerate(_SYMBOL.iter_unpack(sections[".symtab"].data)):
        if _text(sections[".strtab"].data, offset) == name:
            return index
    raise CubinError(f"the cubin has no symbol {name}")


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The attributes of a section with their values; short ones have theirs in the second half of the head."""
    position = 0
    while position < len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, position)
        position += 4
        if form != _LONG:
            yield attribute, struct.pack("<H", value)
            continue
        if position + value > len(data):
            raise CubinError("the cubin is damaged: an attribute ends behind its section")
        yield attribute, data[position : position + value]
        position += value


def _values(sections: Mapping[str, _Section], name: str) -> Mapping[int, list[bytes]]:
    if name not in sections:
        raise CubinError(f"the cubin has no section {name}")
    values: dict[int, list[bytes]] = {}
    for attribute, value in _attributes(sections[name].data):
        values.setdefault(attribute, []).append(value)
    return values


def _of_symbol(values: Mapping[int, list[bytes]], attribute: int, symbol: int) -> int:
    """The number that an attribute of the file gives for a symbol."""
    for value in values.get(attribute, ()):
        index, amount = struct.unpack("<II", value)
        if index == symbol:
            return int(amount)
    raise CubinError(f"the cubin has no attribute {attribute:#x} of its kernel")


def _uses_stack(code: bytes) -> bool:
    """Whether an instruction reads or writes memory of the thread's own."""
    return any(word & _OPERATION in _LOCAL for word, _ in _INSTRUCTION.iter_unpack(code))


def _threads(values: Mapping[int, list[bytes]]) -> int:
    for attribute in (_REQUIRED_THREADS, _MAX_THREADS):
        for value in values.get(attribute, ()):
            x, y, z = struct.unpack("<III", value)
            return int(x * y * z)
    return 0


def _parameters(values: Mapping[int, list[bytes]]) -> tuple[CubinParameter, ...]:
    """The table of the parameters, in order: u32 index, u16 ordinal, u16 offset, u32 with the size from bit 18 on."""
    records = sorted(struct.unpack("<4xHHI", value) for value in values.get(_PARAMETER, ()))
    if [ordinal for ordinal, _, _ in records] != list(range(len(records))):
        raise CubinError("the cubin's table of parameters has gaps")
    return tuple(CubinParameter(offset, word >> 18) for _, offset, word in records)


def _shared_bytes(sections: Mapping[str, _Section], entry: str) -> int:
    name = f".nv.shared.{entry}"
    size = sections[name].size if name in sections else 0
    return max(0, size - _RESERVED_SHARED_BYTES) if ".nv.shared.reserved.0" in sections else size
