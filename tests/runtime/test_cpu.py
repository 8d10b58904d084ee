"""Native images are loaded or refused with a reason; memory is aligned."""

import ctypes
import gc
import os
import struct
import threading
from pathlib import Path

import numpy as np
import pytest

from onnxc.compiler.codegen_host.linking.link import link_image
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.compiler.target import parse_target
from onnxc.runtime import cpu
from onnxc.runtime.cpu import host_architecture, host_features, load_image
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.native.aligned_memory import allocate_aligned
from tests.codegen_host.native import HOST


def image_of(number: int) -> bytes:
    text = f"define i64 @f(i64 %x) {{\n  %r = add i64 %x, {number}\n  ret i64 %r\n}}"
    return link_image([compile_object(text, HOST)], ["f"])


IMAGE = image_of(5)


@pytest.mark.parametrize("data", [IMAGE, memoryview(IMAGE), memoryview(b"xyz" + IMAGE)[3:]], ids=type)
def test_images_in_memory(data: bytes | memoryview) -> None:
    image = load_image(data)
    assert image.function("f", 1)(37) == 42
    assert image.address("f") % 16 == 0


def test_ranges_of_a_file_and_of_bytes(tmp_path: Path) -> None:
    path = tmp_path / "container"
    path.write_bytes(bytes(4096) + IMAGE + bytes(10))
    assert load_image(path, offset=4096, size=len(IMAGE)).function("f", 1)(1) == 6
    assert load_image(path, offset=4096).function("f", 1)(2) == 7
    assert load_image(path.read_bytes(), offset=4096, size=len(IMAGE)).function("f", 1)(3) == 8


def test_images_are_told_apart_however_many_there_are() -> None:
    images = [load_image(image_of(k)) for k in range(40)]
    assert [image.function("f", 1)(0) for image in images] == list(range(40))


def test_no_descriptor_stays_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    images = [load_image(IMAGE) for _ in range(10)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert len(images) == 10


def mapped_images() -> int:
    return sum("memfd:onnxc" in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_an_image_is_unmapped_with_its_last_function() -> None:
    gc.collect()
    before = mapped_images()
    image = load_image(IMAGE)
    function = image.function("f", 1)
    assert mapped_images() > before
    del image
    gc.collect()
    assert function(1) == 6
    del function
    gc.collect()
    assert mapped_images() == before


def test_without_anonymous_files_a_temporary_one_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, flags: int) -> int:
        raise OSError(38, "no such system call")

    monkeypatch.setattr(os, "memfd_create", refuse)
    assert load_image(IMAGE).function("f", 1)(2) == 7


def test_images_load_in_several_threads_at_once() -> None:
    results: list[int] = []

    def work(number: int) -> None:
        results.extend(load_image(IMAGE).function("f", 1)(number * 100 + k) for k in range(20))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(number * 100 + k + 5 for number in range(4) for k in range(20))


@pytest.mark.parametrize("size", [*range(0, 64, 7), 64, 100, 343, 4095, 4096, len(IMAGE) - 1])
def test_truncated_images_are_refused(size: int) -> None:
    with pytest.raises(DeviceError) as caught:
        load_image(IMAGE[:size])
    assert caught.value.code in ("image-truncated", "image-malformed")


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"MZ" * 100, b"\x7fELF\x01" + bytes(100)])
def test_what_is_no_library_is_refused(data: bytes) -> None:
    with pytest.raises(DeviceError, match="no 64-bit ELF library") as caught:
        load_image(data)
    assert caught.value.code == "image-malformed"


def test_images_for_another_architecture_are_refused() -> None:
    other = "aarch64" if host_architecture() == "x86_64" else "x86-64-v2"
    text = "define i64 @f(i64 %x) {\n  ret i64 %x\n}"
    data = link_image([compile_object(text, parse_target(f"cpu:{other}"))], ["f"])
    with pytest.raises(DeviceError, match="this machine is") as caught:
        load_image(data)
    assert caught.value.code == "image-architecture"


def test_an_image_that_lacks_a_function_at_load_is_refused() -> None:
    text = "declare void @no_such_function()\ndefine void @f() {\n  call void @no_such_function()\n  ret void\n}"
    data = link_image([compile_object(text, HOST)], ["f"], imports=["no_such_function"])
    with pytest.raises(DeviceError, match="no_such_function") as caught:
        load_image(data)
    assert caught.value.code == "image-load"


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="No such file") as caught:
        load_image(tmp_path / "missing")
    assert caught.value.code == "image-unreadable"


def test_a_missing_symbol_is_refused() -> None:
    with pytest.raises(DeviceError, match="exports no symbol g") as caught:
        load_image(IMAGE).address("g")
    assert caught.value.code == "image-symbol"


def test_headers_that_point_outside_are_refused() -> None:
    data = bytearray(IMAGE)
    struct.pack_into("<Q", data, 32, 1 << 40)
    with pytest.raises(DeviceError) as caught:
        load_image(bytes(data))
    assert caught.value.code == "image-truncated"


@pytest.mark.parametrize("huge_pages", [False, True])
@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 4096, (2 << 20) - 1, (2 << 20) + 1])
def test_memory_is_aligned_writable_and_of_the_size_asked_for(nbytes: int, huge_pages: bool) -> None:
    block = allocate_aligned(nbytes, huge_pages=huge_pages)
    assert (block.dtype, block.shape) == (np.uint8, (nbytes,))
    # An empty slice points to the start of what it was cut from.
    assert nbytes == 0 or block.ctypes.data % (2 << 20 if huge_pages else 64) == 0
    block[:] = 7
    assert (block == 7).all()


@pytest.mark.parametrize("huge_pages", [False, True])
def test_memory_that_the_system_has_not_is_a_memory_error(huge_pages: bool) -> None:
    with pytest.raises(MemoryError):
        allocate_aligned(1 << 60, huge_pages=huge_pages)


def test_huge_pages_begin_as_zeros() -> None:
    assert not allocate_aligned(3 << 20, huge_pages=True).any()


def test_aligned_memory_outlives_its_parts() -> None:
    view = allocate_aligned(5 << 20, huge_pages=True)[4 << 20 :]
    gc.collect()
    view[:] = 3
    assert ctypes.string_at(view.ctypes.data, 2) == b"\3\3"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "processor : 0\nflags\t\t: fpu sse4_1 abm avx512_vnni\nflags : other\n",
            {"fpu", "sse4.1", "lzcnt", "avx512vnni"},
        ),
        ("Features\t: fp asimd asimddp bf16\n", {"fp", "neon", "dotprod", "bf16"}),
        ("model name : nothing said\n", set()),
    ],
)
def test_features_are_read_by_the_names_of_llvm(monkeypatch: pytest.MonkeyPatch, text: str, expected: set[str]) -> None:
    monkeypatch.setattr(cpu.Path, "read_text", lambda self: text)
    host_features.cache_clear()
    try:
        assert host_features() == expected
    finally:
        host_features.cache_clear()


@pytest.mark.parametrize(("permits", "expected"), [(True, {"fpu", "amx-int8"}), (False, {"fpu"})])
def test_tile_registers_are_there_where_the_system_permits_them(
    monkeypatch: pytest.MonkeyPatch, permits: bool, expected: set[str]
) -> None:
    monkeypatch.setattr(cpu.Path, "read_text", lambda self: "flags : fpu amx_int8\n")
    monkeypatch.setattr(cpu, "_permits_tiles", lambda: permits)
    host_features.cache_clear()
    try:
        assert host_features() == expected
    finally:
        host_features.cache_clear()


def test_features_are_empty_where_the_kernel_tells_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(cpu.Path, "read_text", refuse)
    host_features.cache_clear()
    try:
        assert host_features() == frozenset()
    finally:
        host_features.cache_clear()
