"""Linking: relocatable objects to one shared library that dlopen takes, without any tool of the system.

The image has three segments on pages of their own: read-only (headers, symbol and relocation tables, constants),
code, and writable (dynamic section, addresses of symbols, data). Only exports and imports are visible to the loader.
Imports are bound when the image is opened. Same objects, same bytes.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from onnxc.compiler.codegen_host.linking.elf_object import ElfObject, Relocation, Section, Symbol, parse_object
from onnxc.compiler.codegen_host.linking.relocations import MACHINES, Machine, RelocationType, relax_got_load
from onnxc.runtime.cpu import CACHE_LINE_BYTES
from onnxc.runtime.records import record

# What LLVM may call on its own, or for an intrinsic without an instruction; the f forms are for float.
_LIBM_STEMS = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh", "erf",
    "erfc", "exp", "exp10", "exp2", "expm1", "fabs", "floor", "fma", "fmax", "fmaximum", "fmaximum_num", "fmin",
    "fminimum", "fminimum_num", "fmod", "frexp", "hypot", "ldexp", "lgamma", "llrint", "llround", "log", "log10",
    "log1p", "log2", "logb", "lrint", "lround", "modf", "nearbyint", "nextafter", "pow", "remainder", "rint",
    "round", "roundeven", "scalbn", "sin", "sincos", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc",
)  # fmt: skip
_LIBM = frozenset(stem + suffix for stem in _LIBM_STEMS for suffix in ("", "f"))
# The first three are what the heap of a call is made of (codegen_host/heap.py).
_LIBC = frozenset({"aligned_alloc", "free", "madvise", "bcmp", "bzero", "memcmp", "memcpy", "memmove", "memset"})

# The loader gives an image that names no versions the oldest of a function. Of memcpy glibc keeps one with vectors of
# 16 bytes; memmove has one version, the fastest of the processor, and does all that memcpy does. i64[128, 128] repeated
# 12 times takes 28.7 us with the one and 16.6 us with the other on Zen 5.
_LOADED_AS = {"memcpy": "memmove"}

# A symbol wherever it is named: (object, index of its definition there), or (-1, index among the imports).
_SymbolKey = tuple[int, int]

_HEADER_BYTES, _SEGMENT_BYTES, _SEGMENTS, _SYMBOL_BYTES, _RELOCATION_BYTES = 64, 56, 5, 24, 24
_READ, _CODE, _WRITE = 4, 5, 6


@record
class _Program:
    """All objects together, and who defines what."""

    objects: tuple[ElfObject, ...]
    definitions: dict[str, _SymbolKey]
    imports: tuple[str, ...]

    def key(self, owner: int, symbol: int) -> _SymbolKey:
        entry = self.objects[owner].symbols[symbol]
        if entry.section is not None:
            return owner, symbol
        return self.definitions.get(entry.name) or (-1, self.imports.index(entry.name))

    def relocations(self, machine: Machine) -> Iterator[tuple[int, int, Section, Relocation, RelocationType]]:
        """(object, ordinal of the section, section, relocation, its type), in the order of the objects."""
        for owner, entry in enumerate(self.objects):
            for ordinal, section in entry.sections.items():
                for relocation in section.relocations:
                    assert relocation.type in machine.types, f"relocation type {relocation.type} in {section.name}"
                    yield owner, ordinal, section, relocation, machine.types[relocation.type]


@dataclass
class _Layout:
    """Where everything is in memory; the same offsets hold in the file, which ends where the zeros begin."""

    sections: dict[tuple[int, int], int] = field(default_factory=dict)
    slots: dict[_SymbolKey, int] = field(default_factory=dict)
    stubs: dict[_SymbolKey, int] = field(default_factory=dict)
    hash: int = 0
    symbols: int = 0
    strings: int = 0
    relocations: int = 0
    read_only_end: int = 0
    code: int = 0
    code_end: int = 0
    dynamic: int = 0
    file_end: int = 0
    end: int = 0


def link_image(
    objects: Sequence[bytes],
    exports: Sequence[str],
    imports: Sequence[str] = (),
    constants: Mapping[str, np.ndarray] | None = None,
) -> bytes:
    """A shared library with the code of all objects, in which `exports` can be looked up.

    Symbols that no object defines must be functions of libm or libc that LLVM is known to call, or be named in
    `imports`; the loader finds those when the image is opened. `constants` are bytes by the symbol of their first one.
    """
    parsed = [parse_object(data) for data in objects]
    if constants:
        parsed.append(_constants_object(parsed[0].machine, constants))
    program = _collect(parsed, imports)
    machine = MACHINES[program.objects[0].machine]
    missing = [name for name in exports if name not in program.definitions]
    assert not missing, f"no object defines {', '.join(missing)}"
    names = (*(_LOADED_AS.get(name, name) for name in program.imports), *exports)
    libraries = _libraries(program.imports)
    strings, offsets = _string_table((*names, *libraries))
    layout = _lay_out(program, machine, len(names), len(strings), len(libraries))
    image = bytearray(layout.file_end)
    for (owner, ordinal), address in layout.sections.items():
        data = program.objects[owner].sections[ordinal].data
        if data is not None:
            image[address : address + len(data)] = data
    for key, address in layout.stubs.items():
        code = machine.stub(address, layout.slots[key])
        image[address : address + len(code)] = code
    dynamic_relocations = _relocate(program, machine, layout, image)
    _write_headers(image, layout, machine, program.objects[0].machine)
    image[layout.strings : layout.strings + len(strings)] = strings
    _write_symbols(image, layout, program, names, offsets)
    _write_hash(image, layout, names)
    for k, entry in enumerate(dynamic_relocations):
        struct.pack_into("<QQq", image, layout.relocations + _RELOCATION_BYTES * k, *entry)
    needed = [offsets[library] for library in libraries]
    _write_dynamic(image, layout, needed, len(strings), len(dynamic_relocations))
    return bytes(image)


def _constants_object(machine: int, constants: Mapping[str, np.ndarray]) -> ElfObject:
    """Each constant as a read-only section with one symbol, on a cache line."""
    sections = {
        ordinal: Section(name, data.nbytes, CACHE_LINE_BYTES, data.tobytes(), False, False, ())
        for ordinal, (name, data) in enumerate(constants.items())
    }
    symbols = (
        Symbol(section.name, ordinal, 0, section.size, is_global=True, is_function=False)
        for ordinal, section in sections.items()
    )
    return ElfObject(machine, sections, tuple(symbols))


def _collect(objects: Sequence[ElfObject], imports: Sequence[str]) -> _Program:
    assert objects, "nothing to link"
    assert len({entry.machine for entry in objects}) == 1, "objects for different processors"
    definitions: dict[str, _SymbolKey] = {}
    for owner, entry in enumerate(objects):
        for index, symbol in enumerate(entry.symbols):
            if symbol.is_global and symbol.section is not None:
                assert symbol.name not in definitions, f"two objects define {symbol.name}"
                definitions[symbol.name] = (owner, index)
    wanted = [s.name for entry in objects for s in entry.symbols if s.is_global and s.section is None]
    undefined = tuple(dict.fromkeys(name for name in wanted if name not in definitions))
    unknown = [name for name in undefined if name not in _LIBM and name not in _LIBC and name not in imports]
    assert not unknown, f"undefined symbols: {', '.join(unknown)}"
    return _Program(tuple(objects), definitions, undefined)


def _libraries(imports: Sequence[str]) -> tuple[str, ...]:
    math = ["libm.so.6"] if any(name in _LIBM for name in imports) else []
    return (*math, "libc.so.6") if imports else ()


def _lay_out(program: _Program, machine: Machine, names: int, string_bytes: int, libraries: int) -> _Layout:
    layout = _Layout()
    slots, stubs, count = _indirections(program, machine)
    at = _HEADER_BYTES + _SEGMENTS * _SEGMENT_BYTES
    layout.hash, at = at, at + 4 * (2 + _bucket_count(names) + names + 1)
    layout.symbols = at = _align(at, 8)
    layout.relocations = at = at + _SYMBOL_BYTES * (names + 1)
    layout.strings, at = at + _RELOCATION_BYTES * count, at + _RELOCATION_BYTES * count + string_bytes
    at = layout.read_only_end = _lay_out_sections(program, layout, at, _READ)
    at = layout.code = _align(at, machine.page_bytes)
    at = _align(_lay_out_sections(program, layout, at, _CODE), 16)
    for key in stubs:
        layout.stubs[key], at = at, at + 16
    layout.code_end = at
    at = layout.dynamic = _align(at, machine.page_bytes)
    at += 16 * (libraries + 10)
    for key in slots:
        layout.slots[key], at = at, at + 8
    at = layout.file_end = _lay_out_sections(program, layout, at, _WRITE)
    layout.end = _lay_out_sections(program, layout, at, _WRITE, zeros=True)
    return layout


def _lay_out_sections(program: _Program, layout: _Layout, at: int, access: int, zeros: bool = False) -> int:
    """The end of the sections of that access, put behind one another."""
    for owner, entry in enumerate(program.objects):
        for ordinal, section in entry.sections.items():
            if _access(section) == access and (section.data is None) == zeros:
                layout.sections[owner, ordinal] = _align(at, section.align)
                at = layout.sections[owner, ordinal] + section.size
    return at


def _access(section: Section) -> int:
    assert not (section.is_writable and section.is_executable), f"section {section.name} is both code and data"
    return _WRITE if section.is_writable or section.data is None else _CODE if section.is_executable else _READ


def _indirections(program: _Program, machine: Machine) -> tuple[dict[_SymbolKey, None], dict[_SymbolKey, None], int]:
    """(symbols whose address is stored in a slot, imports that are called, relocations left to the loader)."""
    slots: dict[_SymbolKey, None] = {}
    stubs: dict[_SymbolKey, None] = {}
    absolute = 0
    for owner, _, section, relocation, type in program.relocations(machine):
        key = program.key(owner, relocation.symbol)
        if type.reference == "absolute":
            assert section.is_writable, f"an address in the read-only section {section.name}"
            absolute += 1
        elif type.reference == "got":
            slots[key] = None
        elif key[0] < 0:
            assert type.reference == "call", f"{type.name} refers to the imported {program.imports[key[1]]}"
            slots[key] = stubs[key] = None
    return slots, stubs, absolute + len(slots)


def _relocate(program: _Program, machine: Machine, layout: _Layout, image: bytearray) -> list[tuple[int, int, int]]:
    """Patches the image; gives what is left to the loader, as (address, symbol and type, addend)."""
    left: list[tuple[int, int, int]] = []
    for key, slot in layout.slots.items():
        if key[0] < 0:
            left.append((slot, (key[1] + 1) << 32 | machine.global_data, 0))
        else:
            left.append((slot, machine.relative, _address(program, layout, key)))
    for owner, ordinal, _, relocation, type in program.relocations(machine):
        key = program.key(owner, relocation.symbol)
        address = layout.sections[owner, ordinal] + relocation.offset
        is_imported = key[0] < 0
        if type.reference == "absolute" and is_imported:
            left.append((address, (key[1] + 1) << 32 | relocation.type, relocation.addend))
            continue
        if type.reference == "absolute":
            left.append((address, machine.relative, _address(program, layout, key) + relocation.addend))
            continue
        if type.is_relaxable and not is_imported and relax_got_load(image, address):
            target = _address(program, layout, key)
        elif type.reference == "got":
            target = layout.slots[key]
        else:
            target = layout.stubs[key] if is_imported else _address(program, layout, key)
        type.patch(image, address, target + relocation.addend)
    return left


def _address(program: _Program, layout: _Layout, key: _SymbolKey) -> int:
    symbol = program.objects[key[0]].symbols[key[1]]
    assert symbol.section is not None, f"{symbol.name} is not defined here"
    return layout.sections[key[0], symbol.section] + symbol.offset


def _string_table(names: Sequence[str]) -> tuple[bytes, dict[str, int]]:
    table, offsets = bytearray(b"\0"), {}
    for name in names:
        offsets[name] = len(table)
        table += name.encode() + b"\0"
    return bytes(table), offsets


def _write_headers(image: bytearray, layout: _Layout, machine: Machine, machine_code: int) -> None:
    identity = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    sizes = (_HEADER_BYTES, _SEGMENT_BYTES, _SEGMENTS, 64, 0, 0)
    struct.pack_into("<16sHHIQQQIHHHHHH", image, 0, identity, 3, machine_code, 1, 0, _HEADER_BYTES, 0, 0, *sizes)
    page = machine.page_bytes
    dynamic_bytes = min([*layout.slots.values(), layout.file_end]) - layout.dynamic
    # (type, access, start, end in the file, end in memory, alignment): three to load, the dynamic section, the stack.
    segments = (
        (1, _READ, 0, layout.read_only_end, layout.read_only_end, page),
        (1, _CODE, layout.code, layout.code_end, layout.code_end, page),
        (1, _WRITE, layout.dynamic, layout.file_end, layout.end, page),
        (2, _WRITE, layout.dynamic, layout.dynamic + dynamic_bytes, layout.dynamic + dynamic_bytes, 8),
        (0x6474E551, _WRITE, 0, 0, 0, 16),
    )
    for k, (kind, access, start, file_end, end, align) in enumerate(segments):
        entry = (kind, access, start, start, start, file_end - start, end - start, align)
        struct.pack_into("<IIQQQQQQ", image, _HEADER_BYTES + _SEGMENT_BYTES * k, *entry)


def _write_symbols(
    image: bytearray, layout: _Layout, program: _Program, names: Sequence[str], offsets: dict[str, int]
) -> None:
    imported = len(program.imports)
    for k, name in enumerate(names):
        # Global functions or data; section 1 stands for "defined here", imports have none.
        entry = (offsets[name], 0x12, 0, 0, 0, 0)
        if k >= imported:
            key = program.definitions[name]
            symbol = program.objects[key[0]].symbols[key[1]]
            kind = 0x12 if symbol.is_function else 0x11
            entry = (offsets[name], kind, 0, 1, _address(program, layout, key), symbol.size)
        struct.pack_into("<IBBHQQ", image, layout.symbols + _SYMBOL_BYTES * (k + 1), *entry)


def _bucket_count(names: int) -> int:
    return max(1, names)


def _write_hash(image: bytearray, layout: _Layout, names: Sequence[str]) -> None:
    """The System V hash table: for each bucket its first symbol, for each symbol the next of its bucket."""
    count = _bucket_count(len(names))
    buckets, chain = [0] * count, [0] * (len(names) + 1)
    for index, name in enumerate(names, 1):
        bucket = _hash(name) % count
        chain[index], buckets[bucket] = buckets[bucket], index
    struct.pack_into(f"<{2 + len(buckets) + len(chain)}I", image, layout.hash, count, len(chain), *buckets, *chain)


def _hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value


def _write_dynamic(
    image: bytearray, layout: _Layout, needed: Sequence[int], string_bytes: int, relocations: int
) -> None:
    entries = [(1, offset) for offset in needed]
    entries += [(4, layout.hash), (5, layout.strings), (6, layout.symbols), (10, string_bytes), (11, _SYMBOL_BYTES)]
    entries += [(7, layout.relocations), (8, relocations * _RELOCATION_BYTES), (9, _RELOCATION_BYTES)]
    entries += [(30, 8), (0, 0)]  # bind everything when the image is opened
    struct.pack_into(f"<{2 * len(entries)}Q", image, layout.dynamic, *(word for entry in entries for word in entry))


def _align(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
