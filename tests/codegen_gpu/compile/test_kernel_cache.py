"""The cache of kernels: what is found is what was stored, and the key holds all that a kernel is compiled from."""

from dataclasses import replace
from pathlib import Path

import pytest

from onnxc.compiler.codegen_gpu.compile import kernel_cache
from onnxc.compiler.codegen_gpu.compile.kernel_cache import KernelCache, kernel_key
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelParameter, KernelSource
from onnxc.compiler.jobs.file_cache import FileCache
from onnxc.runtime.device_code import DeviceKernel
from tests.codegen_gpu.sources import elementwise

KERNEL = DeviceKernel(
    "0" * 64, "kernel", bytes(range(256)) * 4, ("*fp32", "i64"), 4, 1, 1024, 128, False, 32, 8, "the source"
)


def test_what_is_found_is_what_was_stored(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    assert cache.load(KERNEL.key, KERNEL.source) is None
    cache.store([KERNEL])
    assert cache.load(KERNEL.key, KERNEL.source) == KERNEL
    assert [path.name for path in tmp_path.iterdir()] == [f"{KERNEL.key}.kernel"]


@pytest.mark.parametrize("content", [b"", b"\x02\0\0\0", b"\x02\0\0\0{}cubin", b"\x02\0\0\0no"], ids=str)
def test_a_file_that_describes_no_kernel_counts_as_absent_and_is_removed(tmp_path: Path, content: bytes) -> None:
    FileCache(tmp_path, ".kernel").store({KERNEL.key: content})
    assert KernelCache(tmp_path).load(KERNEL.key, KERNEL.source) is None
    assert list(tmp_path.iterdir()) == []


def test_all_that_a_kernel_is_compiled_from_is_in_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    source = elementwise()
    variants: list[tuple[KernelSource, str, str]] = [
        (source, "sm_90", "3.9.0"),
        (source, "sm_80", "3.9.0"),
        (source, "sm_90", "3.6.0"),
        (replace(source, text=source.text + "\n"), "sm_90", "3.9.0"),
        (replace(source, warps=8), "sm_90", "3.9.0"),
        (replace(source, stages=4), "sm_90", "3.9.0"),
        (replace(source, divisible=()), "sm_90", "3.9.0"),
        (replace(source, parameters=(*source.parameters[:3], KernelParameter("s0", "i64"))), "sm_90", "3.9.0"),
    ]
    keys = [kernel_key(*variant) for variant in variants]
    assert len(set(keys)) == len(keys)
    assert kernel_key(elementwise(), "sm_90", "3.9.0") == keys[0]
    monkeypatch.setattr(kernel_cache, "CACHE_VERSION", 1 << 20)
    assert kernel_key(source, "sm_90", "3.9.0") not in keys
    monkeypatch.setattr(kernel_cache, "CACHE_VERSION", 1)
    monkeypatch.setattr(kernel_cache, "OPTIONS", {"enable_fp_fusion": True})
    assert kernel_key(source, "sm_90", "3.9.0") not in keys
