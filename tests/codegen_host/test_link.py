"""The linker: what is put together runs; what cannot be put together is refused."""

import ctypes
import hashlib
import math
import struct
from pathlib import Path

import numpy as np
import pytest

from onnxc.compiler.codegen_host.linking.elf_object import AARCH64, X86_64
from onnxc.compiler.codegen_host.linking.link import link_image
from onnxc.compiler.codegen_host.linking.relocations import MACHINES
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder, Reg
from onnxc.compiler.codegen_host.llvm_module import ModuleBuilder
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.compiler.target import parse_target
from onnxc.runtime.cpu import Image, load_image
from onnxc.runtime.errors import DeviceError
from tests.codegen_host.native import HOST, module, write
from tests.support.arrays import assert_close


def objects(*texts: str) -> list[bytes]:
    return [compile_object(text, HOST) for text in texts]


def linked(*texts: str, exports: tuple[str, ...] = ("f",), imports: tuple[str, ...] = ()) -> Image:
    return load_image(link_image(objects(*texts), exports, imports))


def segments(image: bytes) -> list[tuple[int, ...]]:
    """(type, flags, offset, address, physical address, bytes in the file, bytes in memory, alignment) of each."""
    table, count = struct.unpack_from("<Q", image, 32)[0], struct.unpack_from("<H", image, 56)[0]
    return [struct.unpack_from("<IIQQQQQQ", image, table + 56 * k) for k in range(count)]


ONE = """
@table = internal constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5]
declare i64 @g(i64)
define i64 @f(i64 %x) {
  %a = call i64 @g(i64 %x)
  %at = getelementptr double, ptr @table, i64 %a
  %value = load double, ptr %at
  %scaled = fmul double %value, 1.0e3
  %result = fptosi double %scaled to i64
  ret i64 %result
}
define i64 @back(i64 %x) {
  %r = sub i64 %x, 1
  ret i64 %r
}
"""
TWO = """
@table = internal constant [4 x i64] [i64 3, i64 2, i64 1, i64 0]
declare i64 @back(i64)
define i64 @g(i64 %x) {
  %y = call i64 @back(i64 %x)
  %at = getelementptr i64, ptr @table, i64 %y
  %r = load i64, ptr %at
  ret i64 %r
}
"""


def test_objects_refer_to_one_another_and_keep_their_own_constants() -> None:
    for image in (linked(ONE, TWO), linked(TWO, ONE)):
        assert [image.function("f", 1)(x) for x in (1, 2, 3, 4)] == [4500, 3500, 2500, 1500]


def test_functions_of_libm_and_libc_are_bound_by_the_loader() -> None:
    def body(f: FunctionBuilder, x: Reg, out: Reg, n: Reg) -> None:
        value = f.load("float", x)
        f.store(f.call("expf", "float", value), out)
        f.store(f.intrinsic("llvm.sin.*", "float", value), f.gep(out, 4))
        f.store(f.frem(value, 0.75), f.gep(out, 8))
        f.call("llvm.memcpy.p0.p0.i64", "void", f.gep(out, 12), x, n, f.constant("i1", 0))

    image = linked(module(write("f", [("ptr", "x"), ("ptr", "out"), ("i64", "n")], body)))
    x, out = np.array([2.0, 7.0, 8.0], np.float32), np.zeros(6, np.float32)
    image.function("f", 3)(x.ctypes.data, out.ctypes.data, 12)
    expected = [np.exp(np.float32(2)), np.sin(np.float32(2)), math.fmod(2, 0.75), 2, 7, 8]
    assert_close(out, np.array(expected, np.float32))


def test_memory_is_copied_by_the_function_that_has_one_version() -> None:
    """Of memcpy the loader would take glibc's oldest, which is for processors without AVX."""

    def body(f: FunctionBuilder, x: Reg, out: Reg, n: Reg) -> None:
        f.call("memcpy", "ptr", out, x, n)
        f.call("memmove", "ptr", f.gep(out, 8), x, n)

    image = link_image(objects(module(write("f", [("ptr", "x"), ("ptr", "out"), ("i64", "n")], body))), ("f",))
    assert b"memmove" in image
    assert b"memcpy" not in image
    x, out = np.array([5], np.int64), np.zeros(2, np.int64)
    load_image(image).function("f", 3)(x.ctypes.data, out.ctypes.data, 8)
    assert out.tolist() == [5, 5]


def test_addresses_of_functions_are_right_whoever_defines_them() -> None:
    text = """
declare i64 @g(i64)
declare double @cos(double)
declare i64 @getpid()
@functions = internal constant [3 x ptr] [ptr @g, ptr @f, ptr @getpid]
define ptr @f(i64 %x) {
  switch i64 %x, label %other [ i64 0, label %zero  i64 1, label %one  i64 2, label %two  i64 3, label %three ]
zero:
  ret ptr @g
one:
  ret ptr @cos
two:
  ret ptr @f
three:
  ret ptr @functions
other:
  ret ptr null
}
"""
    image = linked(text, TWO, ONE.replace("@f(", "@h("), exports=("f", "g"), imports=("getpid",))
    f = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(image.address("f"))
    cos = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(f(1))
    table = (ctypes.c_void_p * 3).from_address(f(3))
    assert f(0) == table[0] == image.address("g")
    assert f(2) == table[1] == image.address("f")
    assert cos(0.5) == math.cos(0.5)
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(table[2])() == ctypes.CDLL(None).getpid()
    assert f(9) is None


def test_jump_tables() -> None:
    cases = "\n".join(f"i64 {k}, label %c{k}" for k in range(12))
    blocks = "\n".join(f"c{k}:\n  br label %end" for k in range(12))
    phis = ", ".join(f"[ {k * k + 7}, %c{k} ]" for k in range(12))
    calls = "declare void @sink(i64)"
    text = f"""
{calls}
define i64 @f(i64 %x) {{
entry:
  switch i64 %x, label %other [ {cases} ]
other:
  br label %end
{blocks.replace("br label %end", "call void @sink(i64 %x)" + chr(10) + "  br label %end")}
end:
  %r = phi i64 [ -1, %other ], {phis}
  ret i64 %r
}}
"""
    image = linked(text, "define void @sink(i64 %x) {\n  ret void\n}")
    assert [image.function("f", 1)(k) for k in range(13)] == [*[k * k + 7 for k in range(12)], -1]


def test_data_is_writable_and_zeros_take_no_space_in_the_file() -> None:
    text = """
@count = internal global i64 41
@zeros = internal global [1000000 x i64] zeroinitializer, align 64
define i64 @f(i64 %x) {
  %old = load i64, ptr @count
  %new = add i64 %old, 1
  store i64 %new, ptr @count
  %at = getelementptr i64, ptr @zeros, i64 %x
  %seen = load i64, ptr %at
  store i64 1, ptr %at
  %sum = add i64 %new, %seen
  ret i64 %sum
}
"""
    data = link_image(objects(text), ["f"])
    f = load_image(data).function("f", 1)
    assert len(data) < 20_000
    assert [f(999_999), f(999_999), f(0)] == [42, 44, 44]


@pytest.mark.parametrize("align", [64, 128, 1024, 4096])
def test_large_alignments_hold_in_memory(align: int) -> None:
    filler = "@filler = internal global i8 1\n@other = internal constant i8 2\n"
    text = f"""{filler}
@a = internal constant [3 x i8] c"abc", align {align}
@b = internal global [3 x i8] c"def", align {align}
@c = internal global [3 x i8] zeroinitializer, align {align}
define i64 @f(i64 %x) {{
  %second = icmp eq i64 %x, 1
  %third = icmp eq i64 %x, 2
  %p = select i1 %second, ptr @b, ptr @a
  %q = select i1 %third, ptr @c, ptr %p
  %v = ptrtoint ptr %q to i64
  %one = load volatile i8, ptr @filler
  %two = load volatile i8, ptr @other
  ret i64 %v
}}
"""
    f = linked(text).function("f", 1)
    addresses = [f(k) for k in range(3)]
    assert [address % align for address in addresses] == [0, 0, 0]
    assert [ctypes.string_at(address, 3) for address in addresses] == [b"abc", b"def", b"\0\0\0"]


def test_segments_are_on_pages_of_their_own_and_never_both_writable_and_executable() -> None:
    kinds = segments(link_image(objects(ONE, TWO), ["f"]))
    loads = [entry for entry in kinds if entry[0] == 1]
    assert [entry[1] for entry in loads] == [4, 5, 6]
    ends = [0, *(entry[3] + entry[6] for entry in loads)]
    assert all(entry[3] % 4096 == 0 and entry[2] == entry[3] for entry in loads)
    assert all(entry[3] // 4096 > (end - 1) // 4096 for entry, end in zip(loads[1:], ends[1:], strict=False))
    assert [entry[1] for entry in kinds if entry[0] == 0x6474E551] == [6]


def test_only_exports_can_be_looked_up() -> None:
    image = linked(ONE, TWO)
    with pytest.raises(DeviceError, match="no symbol g"):
        image.address("g")


def test_many_exports_are_all_found() -> None:
    names = [f"function_{k}" for k in range(300)]
    text = "\n".join(f"define i64 @{name}() {{\n  ret i64 {k}\n}}" for k, name in enumerate(names))
    image = linked(text, exports=tuple(names))
    assert [image.function(name, 0)() for name in names] == list(range(300))


def test_images_without_imports_need_no_library() -> None:
    assert b"libc.so" not in link_image(objects(ONE, TWO), ["f"])


def test_same_objects_same_bytes() -> None:
    first = link_image(objects(ONE, TWO), ["f", "g"])
    assert hashlib.sha256(link_image(objects(ONE, TWO), ["f", "g"])).digest() == hashlib.sha256(first).digest()


def test_undefined_symbols_are_our_defect() -> None:
    with pytest.raises(AssertionError, match="undefined symbols: g"):
        link_image(objects(ONE), ["f"])


def test_missing_exports_are_our_defect() -> None:
    with pytest.raises(AssertionError, match="no object defines nothing, none"):
        link_image(objects(ONE, TWO), ["f", "nothing", "none"])


def test_two_definitions_are_our_defect() -> None:
    with pytest.raises(AssertionError, match="two objects define"):
        link_image(objects(ONE, ONE, TWO), ["f"])


def test_objects_for_different_processors_are_our_defect() -> None:
    other = compile_object(TWO, parse_target("cpu:aarch64" if HOST.arch == "x86_64" else "cpu:x86-64-v2"))
    with pytest.raises(AssertionError, match="different processors"):
        link_image([*objects(ONE), other], ["f"])


def test_what_is_no_object_is_our_defect() -> None:
    with pytest.raises(AssertionError, match="no little-endian 64-bit ELF"):
        link_image([b"not an object"], [])


@pytest.mark.parametrize("target", ["x86-64-v3", "aarch64"])
def test_images_for_every_architecture_are_linked_on_any(target: str) -> None:
    builder = ModuleBuilder()
    builder.add(write("f", [("float", "x")], lambda f, x: f.call("expf", "float", x), "float"))
    parsed = parse_target(f"cpu:{target}")
    image = link_image([compile_object(text, parsed) for text in (builder.text(), ONE.replace("@f", "@h"), TWO)], ["f"])
    assert struct.unpack_from("<HH", image, 16) == (3, {"x86-64-v3": X86_64, "aarch64": AARCH64}[target])
    page = {"x86-64-v3": 4096, "aarch64": 65536}[target]
    assert [entry[3] % page for entry in segments(image) if entry[0] == 1] == [0, 0, 0]


# Instruction words by the encodings of the Arm Architecture Reference Manual, C6.2.
@pytest.mark.parametrize(
    ("number", "word", "place", "target", "expected"),
    [
        (275, 0x90000000, 0x10000, 0x10123, 0x90000000),  # adrp x0, same page
        (275, 0x90000000, 0x10FFC, 0x11000, 0xB0000000),  # adrp x0, next page
        (275, 0x90000001, 0x20000, 0x10000, 0x90FFFF81),  # adrp x1, -16 pages
        (277, 0x91000000, 0, 0x12345, 0x910D1400),  # add x0, x0, #0x345
        (286, 0xF9400000, 0, 0x12348, 0xF941A400),  # ldr x0, [x0, #0x348]
        (299, 0x3DC00000, 0, 0x12340, 0x3DC0D000),  # ldr q0, [x0, #0x340]
        (283, 0x94000000, 0x1000, 0x0FFC, 0x97FFFFFF),  # bl -4
        (282, 0x14000000, 0x1000, 0x1010, 0x14000004),  # b +16
        (280, 0x54000000, 0x1000, 0x1008, 0x54000040),  # b.eq +8
        (279, 0x36000000, 0x1000, 0x0FF8, 0x3607FFC0),  # tbz w0, #0, -8
        (274, 0x10000000, 0x1000, 0x1005, 0x30000020),  # adr x0, +5
    ],
)
def test_aarch64_relocations(number: int, word: int, place: int, target: int, expected: int) -> None:
    image = bytearray(place + 4)
    struct.pack_into("<I", image, place, word)
    MACHINES[AARCH64].types[number].patch(image, place, target)
    assert f"{struct.unpack_from('<I', image, place)[0]:08x}" == f"{expected:08x}"


def test_branches_that_do_not_reach_are_refused() -> None:
    with pytest.raises(AssertionError, match="a branch of"):
        MACHINES[AARCH64].types[283].patch(bytearray(4), 0, 1 << 28)


def test_images_are_the_same_from_a_file(tmp_path: Path) -> None:
    data = link_image(objects(ONE, TWO), ["f"])
    path = tmp_path / "image"
    path.write_bytes(b"x" * 100 + data + b"y" * 100)
    assert load_image(path, offset=100, size=len(data)).function("f", 1)(1) == 4500
