"""The cache on disk: what is found is what was stored, damage counts as absent, and the folder stays small."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from onnxc.compiler.codegen_gpu.compile import kernel_cache
from onnxc.compiler.codegen_gpu.compile.kernel_cache import KernelCache, kernel_key
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelParameter, KernelSource
from onnxc.runtime.device_code import DeviceKernel
from tests.codegen_gpu.sources import elementwise

KERNEL = DeviceKernel(
    "0" * 64, "kernel", bytes(range(256)) * 4, ("*fp32", "i64"), 4, 1, 1024, 128, False, 32, 8, "the source"
)


def kernel(number: int) -> DeviceKernel:
    return replace(KERNEL, key=f"{number:064x}", cubin=bytes([number]) * 1000)


def stored(folder: Path) -> list[int]:
    return sorted(int(path.stem, 16) for path in folder.glob("*.kernel"))


def test_what_is_found_is_what_was_stored(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path / "a" / "b")
    assert cache.load(KERNEL.key, KERNEL.source) is None
    cache.store([KERNEL])
    assert cache.load(KERNEL.key, KERNEL.source) == KERNEL
    assert KernelCache(tmp_path / "a" / "b").load(KERNEL.key, KERNEL.source) == KERNEL
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == [f"{KERNEL.key}.kernel"]
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_without_a_folder_nothing_is_kept() -> None:
    cache = KernelCache(None)
    cache.store([KERNEL])
    assert cache.load(KERNEL.key, KERNEL.source) is None


def test_damage_counts_as_absent_and_is_removed(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    cache.store([KERNEL])
    path = tmp_path / f"{KERNEL.key}.kernel"
    whole = path.read_bytes()
    changed = [whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :] for place in range(0, len(whole), 7)]
    for data in (b"", whole[:10], whole[:-1], whole + b"x", *changed):
        path.write_bytes(data)
        assert cache.load(KERNEL.key, KERNEL.source) is None
        assert not path.exists()
    path.write_bytes(whole)
    assert cache.load(KERNEL.key, KERNEL.source) == KERNEL


def test_a_file_under_another_name_counts_as_absent(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    cache.store([kernel(1)])
    os.rename(tmp_path / f"{1:064x}.kernel", tmp_path / f"{2:064x}.kernel")
    assert cache.load(f"{2:064x}", KERNEL.source) is None


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    size = 1500
    cache = KernelCache(tmp_path, max_bytes=10 * size)
    cache.store([kernel(number) for number in range(7)])
    for number in range(7):
        os.utime(tmp_path / f"{number:064x}.kernel", (number, number))
    assert cache.load(f"{0:064x}", KERNEL.source) is not None
    (tmp_path / "not ours").write_bytes(bytes(100 * size))
    one = (tmp_path / f"{0:064x}.kernel").stat().st_size
    KernelCache(tmp_path, max_bytes=int(5.5 * one)).store([kernel(7)])
    # Eight do not fit; four are at most 0.8 of the bound.
    assert stored(tmp_path) == [0, 5, 6, 7]
    assert (tmp_path / "not ours").exists()


def test_remains_of_dead_processes_go_too(tmp_path: Path) -> None:
    (tmp_path / ".dead.partial").write_bytes(bytes(10000))
    os.utime(tmp_path / ".dead.partial", (1, 1))
    KernelCache(tmp_path, max_bytes=5000).store([KERNEL])
    assert [path.name for path in tmp_path.iterdir()] == [f"{KERNEL.key}.kernel"]


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    cache = KernelCache(tmp_path / "file" / "cache")
    cache.store([KERNEL])
    assert cache.load(KERNEL.key, KERNEL.source) is None


def use_cache(folder: Path, seed: int) -> None:
    """Stores and loads in another order than others do, in a folder that is always too small."""
    cache = KernelCache(folder, max_bytes=12_000)
    for step in range(200):
        number = (step * (2 * seed + 1)) % 16
        cache.store([kernel(number)])
        found = cache.load(f"{number:064x}", KERNEL.source)
        assert found is None or found == kernel(number)


def test_many_processes_use_a_folder_at_the_same_time(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from tests.codegen_gpu.test_kernel_cache import use_cache; "
    code += "use_cache(Path(sys.argv[1]), int(sys.argv[2]))"
    root = Path(kernel_cache.__file__).parents[4]
    commands = ([sys.executable, "-c", code, str(tmp_path), str(seed)] for seed in range(3))
    processes = [subprocess.Popen(command, cwd=root) for command in commands]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert not list(tmp_path.glob("*.partial"))
    cache = KernelCache(tmp_path)
    assert all(cache.load(f"{number:064x}", KERNEL.source) == kernel(number) for number in stored(tmp_path))


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
