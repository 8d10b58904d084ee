"""Section headers for a linked image: the loader needs none, but the linker of a C program finds symbols by them.

All is read from the image itself: its segments, and the tables that its dynamic section names.
"""

import struct

__all__ = ["with_section_headers"]

_SEGMENT_BYTES, _SECTION_BYTES, _SYMBOL_BYTES = 56, 64, 24
_LOADED, _DYNAMIC = 1, 2
# Tags of the dynamic section, types and flags of sections.
_HASH, _STRINGS, _SYMBOLS, _STRING_BYTES = 4, 5, 6, 10
_CODE_TYPE, _STRING_TYPE, _HASH_TYPE, _DYNAMIC_TYPE, _SYMBOL_TYPE = 1, 3, 5, 6, 11
_WRITE, _ALLOCATE, _EXECUTE = 1, 2, 4

# The linker of codegen_host says of every export that it is in section 1.
_NAMES = ("", ".text", ".dynsym", ".dynstr", ".hash", ".dynamic", ".shstrtab")
_STRING_SECTION, _SYMBOL_SECTION = _NAMES.index(".dynstr"), _NAMES.index(".dynsym")


def with_section_headers(image: bytes) -> bytes:
    """The image, with its section headers behind all that is loaded."""
    table, count = struct.unpack_from("<Q", image, 32)[0], struct.unpack_from("<H", image, 56)[0]
    segments = [struct.unpack_from("<IIQQQQQQ", image, table + _SEGMENT_BYTES * k) for k in range(count)]
    code = next(each for each in segments if each[0] == _LOADED and each[1] & 1)
    dynamic = next(each for each in segments if each[0] == _DYNAMIC)
    words = struct.unpack_from(f"<{dynamic[5] // 8}Q", image, dynamic[2])
    tags = dict(zip(words[::2], words[1::2], strict=True))
    _, symbols = struct.unpack_from("<II", image, tags[_HASH])
    buckets = struct.unpack_from("<I", image, tags[_HASH])[0]
    names = b"".join(name.encode() + b"\0" for name in _NAMES)
    end = -(-len(image) // 8) * 8
    # (type, flags, start, bytes, link, the first symbol that is not local, alignment, bytes of an entry)
    sections = (
        (0, 0, 0, 0, 0, 0, 0, 0),
        (_CODE_TYPE, _ALLOCATE | _EXECUTE, code[2], code[5], 0, 0, 16, 0),
        (_SYMBOL_TYPE, _ALLOCATE, tags[_SYMBOLS], symbols * _SYMBOL_BYTES, _STRING_SECTION, 1, 8, _SYMBOL_BYTES),
        (_STRING_TYPE, _ALLOCATE, tags[_STRINGS], tags[_STRING_BYTES], 0, 0, 1, 0),
        (_HASH_TYPE, _ALLOCATE, tags[_HASH], 4 * (2 + buckets + symbols), _SYMBOL_SECTION, 0, 8, 4),
        (_DYNAMIC_TYPE, _ALLOCATE | _WRITE, dynamic[2], dynamic[5], _STRING_SECTION, 0, 8, 16),
        (_STRING_TYPE, 0, end, len(names), 0, 0, 1, 0),
    )
    start = -(-(end + len(names)) // 8) * 8
    headers = b"".join(
        struct.pack("<IIQQQQIIQQ", _name_offset(k), type, flags, at if flags else 0, at, *rest)
        for k, (type, flags, at, *rest) in enumerate(sections)
    )
    out = bytearray(image.ljust(end, b"\0") + names.ljust(start - end, b"\0") + headers)
    struct.pack_into("<Q", out, 40, start)
    struct.pack_into("<HHH", out, 58, _SECTION_BYTES, len(sections), _NAMES.index(".shstrtab"))
    return bytes(out)


def _name_offset(ordinal: int) -> int:
    return sum(len(name) + 1 for name in _NAMES[:ordinal])
