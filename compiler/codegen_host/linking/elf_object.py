"""ELF relocatable objects read into sections, symbols and relocations; the little of the format that LLVM emits."""

import struct

from onnxc.runtime.records import record

X86_64 = 62
AARCH64 = 183

_SYMBOL_TABLE, _RELOCATIONS, _NO_BITS = 2, 4, 8
_WRITE, _ALLOCATE, _EXECUTE, _THREAD_LOCAL = 1, 2, 4, 0x400
_UNDEFINED, _ABSOLUTE = 0, 0xFFF1

# Unwind tables: nothing is thrown through generated code, and no debugger is served by them.
_DROPPED = (".eh_frame",)


@record
class Relocation:
    offset: int
    type: int
    symbol: int
    addend: int


@record
class Section:
    """A part of the image; `data` is None for zeros that take no space in the file."""

    name: str
    size: int
    align: int
    data: bytes | None
    is_writable: bool
    is_executable: bool
    relocations: tuple[Relocation, ...]


@record
class Symbol:
    """A name for an offset in a section of the object; section None: defined elsewhere."""

    name: str
    section: int | None
    offset: int
    size: int
    is_global: bool
    is_function: bool


@record
class ElfObject:
    """Sections by their ordinal in the file, symbols in the file's order."""

    machine: int
    sections: dict[int, Section]
    symbols: tuple[Symbol, ...]


@record
class _Header:
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int


def parse_object(data: bytes) -> ElfObject:
    """The contents of an object file; anything that LLVM does not emit for us is an assertion."""
    assert data[:6] == b"\x7fELF\x02\x01", "no little-endian 64-bit ELF file"
    kind, machine = struct.unpack_from("<HH", data, 16)
    assert kind == 1, f"ELF type {kind} is no relocatable object"
    table = struct.unpack_from("<Q", data, 40)[0]
    count, names = struct.unpack_from("<HH", data, 60)
    headers = [_Header(*struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * k)) for k in range(count)]
    section_names = [_string(data, headers[names].offset + header.name) for header in headers]
    relocations = {header.info: _relocations(data, header) for header in headers if header.type == _RELOCATIONS}
    sections = {
        ordinal: _section(data, header, section_names[ordinal], relocations.get(ordinal, ()))
        for ordinal, header in enumerate(headers)
        if header.flags & _ALLOCATE and section_names[ordinal] not in _DROPPED
    }
    symbols = next((_symbols(data, h, headers[h.link]) for h in headers if h.type == _SYMBOL_TABLE), ())
    return ElfObject(machine, sections, symbols)


def _section(data: bytes, header: _Header, name: str, relocations: tuple[Relocation, ...]) -> Section:
    assert not header.flags & _THREAD_LOCAL, f"section {name} is thread-local"
    content = None if header.type == _NO_BITS else data[header.offset : header.offset + header.size]
    return Section(
        name,
        header.size,
        max(1, header.align),
        content,
        is_writable=bool(header.flags & _WRITE),
        is_executable=bool(header.flags & _EXECUTE),
        relocations=relocations,
    )


def _relocations(data: bytes, header: _Header) -> tuple[Relocation, ...]:
    entries = struct.iter_unpack("<QQq", data[header.offset : header.offset + header.size])
    return tuple(Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend) for offset, info, addend in entries)


def _symbols(data: bytes, header: _Header, strings: _Header) -> tuple[Symbol, ...]:
    entries = struct.iter_unpack("<IBBHQQ", data[header.offset : header.offset + header.size])
    return tuple(_symbol(_string(data, strings.offset + name), *rest) for name, *rest in entries)


def _symbol(name: str, info: int, _visibility: int, section: int, value: int, size: int) -> Symbol:
    # The symbol of the source file is absolute; no relocation refers to it.
    assert section < 0xFF00 or section == _ABSOLUTE, f"symbol {name} is in the special section {section:#x}"
    ordinal = None if section in (_UNDEFINED, _ABSOLUTE) else section
    return Symbol(name, ordinal, value, size, is_global=info >> 4 != 0, is_function=info & 15 == 2)


def _string(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()
