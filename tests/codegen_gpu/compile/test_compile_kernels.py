"""Compiling: equal sources once, the same bytes from every process, from the cache where it can be, errors by name."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from onnxc.compiler.codegen_gpu.compile import compile_kernels as module
from onnxc.compiler.codegen_gpu.compile.compile_job import Compiled, Job
from onnxc.compiler.codegen_gpu.compile.compile_kernels import KernelsFailed, compile_kernels, parameter_table
from onnxc.compiler.codegen_gpu.compile.cubin import CubinParameter
from onnxc.compiler.codegen_gpu.compile.kernel_pool import KernelPool, new_kernel_pool, shared_pool
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.jobs.job import Failed
from onnxc.compiler.target import parse_target
from onnxc.runtime.errors import DeviceError, UnsupportedError
from tests.codegen_gpu.sources import dot, elementwise, reduction, source

H200 = parse_target("cuda:sm_90")
CRASHING = source("@triton.jit\ndef kernel(a0):\n    pass\n__import__('os').abort()\n", "*fp32")
ENDLESS = source("@triton.jit\ndef kernel(a0):\n    pass\nwhile True: pass\n", "*fp32")
EMPTY = source("@triton.jit\ndef kernel():\n    pass\n")
WRONG = source("@triton.jit\ndef kernel(a0):\n    tl.store(a0, absent)\n", "*fp32")
# Tiles of 128 x 128 and 128 x 512 16-bit numbers are 160 KiB, and there are several stages of them.
LARGE = source(
    """@triton.jit
def kernel(a0, a1, y0, s0):
    m = tl.arange(0, 128)
    n = tl.arange(0, 512)
    total = tl.zeros((128, 512), tl.float32)
    for i in range(0, s0, 128):
        a = tl.load(a0 + m[:, None] * s0 + (i + m)[None, :])
        b = tl.load(a1 + (i + m)[:, None] * 512 + n[None, :])
        total = tl.dot(a, b, total)
    tl.store(y0 + m[:, None] * 512 + n[None, :], total)
""",
    "*fp16",
    "*fp16",
    "*fp32",
    "i32",
    warps=8,
    divisible=("s0",),
)


class Counting(KernelPool):
    """A pool that keeps the names of its jobs."""

    def __init__(self) -> None:
        super().__init__(("/absent",), 1.0)
        self.names: list[str] = []

    def run(self, jobs: Sequence[Job], count: int, progress: object = None) -> list[Compiled | Failed]:
        self.names.extend(job.name for job in jobs)
        return shared_pool().run(jobs, count)


def refused(*sources: KernelSource, pool: KernelPool | None = None, names: Sequence[str] = ()) -> str:
    with pytest.raises(UnsupportedError) as error:
        compile_kernels(sources, H200, None, pool=pool, names=names)
    assert error.value.code == "kernel-compile-failed"
    return str(error.value)


def test_what_compiles_beside_what_does_not_is_told() -> None:
    good, other = elementwise(), reduction()
    with pytest.raises(KernelsFailed) as error:
        compile_kernels([good, WRONG, other], H200, None)
    assert list(error.value.compiled) == [good, other]
    assert [kernel.source for kernel in error.value.compiled.values()] == [good.text, other.text]


def test_no_sources_give_no_kernels_and_start_nothing() -> None:
    assert compile_kernels([], H200, None, pool=new_kernel_pool(("/absent",))) == []


def test_equal_sources_are_compiled_once_and_progress_counts_different_ones(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    sources = [elementwise(), reduction(), elementwise()]
    pool = Counting()
    first, second, third = compile_kernels(sources, H200, tmp_path, pool=pool)
    assert first is third
    assert pool.names == [first.key, second.key]
    assert (first.name, first.parameters, first.warps, first.ctas) == (
        "kernel", ("*fp32", "*fp32", "*fp32", "i32"), 4, 1,
    )  # fmt: skip
    assert (first.scratch_bytes, first.cooperative, first.stack_bytes) == (0, False, 0)
    assert 0 < first.registers <= 255
    assert first.source == sources[0].text
    assert second.shared_bytes > 0
    found = compile_kernels(sources, H200, tmp_path, progress=lambda done, total: told.append((done, total)), pool=pool)
    assert found == [first, second, third]
    assert told == [(2, 2)]
    assert len(pool.names) == 2


def test_a_damaged_file_is_compiled_again(tmp_path: Path) -> None:
    pool = Counting()
    (kernel,) = compile_kernels([reduction()], H200, tmp_path, pool=pool)
    path = tmp_path / f"{kernel.key}.kernel"
    path.write_bytes(path.read_bytes()[:-100])
    assert compile_kernels([reduction()], H200, tmp_path, pool=pool) == [kernel]
    assert pool.names == [kernel.key, kernel.key]
    assert compile_kernels([reduction()], H200, tmp_path, pool=pool) == [kernel]
    assert len(pool.names) == 2


@pytest.mark.slow
def test_two_processes_give_the_same_bytes() -> None:
    sources = [elementwise("fp16"), dot(), reduction()]
    found = []
    for order, workers in ((sources, 1), (sources[::-1], 2)):
        pool = new_kernel_pool()
        kernels = compile_kernels(order, H200, None, workers=workers, pool=pool)
        found.append({kernel.key: kernel for kernel in kernels})
        pool.close()
    assert found[0] == found[1]


def test_a_kernel_that_does_not_compile_is_named_with_what_the_compiler_says() -> None:
    text = refused(reduction(), WRONG, names=("softmax_0", "gelu_3"))
    assert "a kernel does not compile for cuda:sm_90\ngelu_3: CompilationError" in text
    assert "NameError('absent is not defined')" in text
    assert "(a0: *fp32): CompilationError" in refused(WRONG)


def test_parameters_that_are_not_those_of_the_text_are_an_error() -> None:
    assert "expected ['a0', 'y0', 'n']" in refused(
        replace(reduction(), parameters=(*reduction().parameters[:2], replace(reduction().parameters[2], name="n")))
    )


def test_what_compiles_is_kept_where_another_does_not(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError):
        compile_kernels([WRONG, reduction()], H200, tmp_path)
    pool = Counting()
    compile_kernels([reduction()], H200, tmp_path, pool=pool)
    assert pool.names == []


@pytest.mark.slow
def test_a_process_that_dies_is_told_with_the_kernel() -> None:
    text = refused(CRASHING, reduction(), names=("the bad one", "the good one"))
    assert "the bad one: the process that compiles it was ended by signal 6" in text
    assert "the good one" not in text


def test_a_kernel_that_takes_too_long_is_told() -> None:
    pool = new_kernel_pool(timeout_seconds=2)
    assert "loop_7: compiling took more than 2 s" in refused(ENDLESS, pool=pool, names=("loop_7",))
    assert pool.process_ids == ()


def test_a_process_without_work_ends_itself_and_is_replaced() -> None:
    module = "onnxc.compiler.codegen_gpu.compile"
    code = f"from {module} import compile_worker as worker; worker.IDLE_SECONDS = 0.05; worker.main()"
    pool = new_kernel_pool((sys.executable, "-P", "-c", code))
    (kernel,) = compile_kernels([EMPTY], H200, None, pool=pool)
    first = pool.process_ids
    deadline = time.monotonic() + 30
    while Path(f"/proc/{first[0]}/stat").read_text().split()[2] != "Z" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert compile_kernels([EMPTY], H200, None, pool=pool) == [kernel]
    assert pool.process_ids != first
    pool.close()


@pytest.mark.slow
def test_more_shared_memory_than_the_card_has_is_an_error() -> None:
    text = refused(LARGE, names=("matmul_1",))
    assert "matmul_1: a block needs " in text
    assert "bytes of shared memory, H200 SXM has 232448" in text


def test_a_kernel_with_other_parameters_than_ours_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "parameter_table", lambda parameters: (CubinParameter(0, 8),))
    with pytest.raises(AssertionError, match=r"CubinParameter\(offset=0, size=8\)"):
        compile_kernels([reduction()], H200, None)


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ((), [(0, 8), (8, 8)]),
        (("i32",), [(0, 4), (8, 8), (16, 8)]),
        (("i32", "i32", "*u8"), [(0, 4), (4, 4), (8, 8), (16, 8), (24, 8)]),
        (("i32", "i64", "i32"), [(0, 4), (8, 8), (16, 4), (24, 8), (32, 8)]),
    ],
)
def test_parameters_lie_at_multiples_of_their_sizes(types: Sequence[str], expected: list[tuple[int, int]]) -> None:
    assert [(place.offset, place.size) for place in parameter_table(types)] == expected


def test_every_type_of_parameter_has_the_place_that_launches_expect() -> None:
    text = "@triton.jit\ndef kernel(a0, s0, s1, a1, s2, y0):\n    tl.store(y0, s0 + s1 + s2)\n"
    mixed = source(text, "*u8", "i32", "i64", "*bf16", "i32", "*i64")
    # The table is compared in compile_kernels.
    (kernel,) = compile_kernels([mixed], H200, None)
    assert kernel.parameters == ("*u8", "i32", "i64", "*bf16", "i32", "*i64")


def test_a_hundred_kernels_come_from_the_cache_at_once(tmp_path: Path) -> None:
    (kernel,) = compile_kernels([elementwise()], H200, tmp_path)
    sources = [replace(elementwise(), text=f"{elementwise().text}# {number}\n") for number in range(100)]
    keys = [module.kernel_key(source, H200.name, module.triton_version()) for source in sources]
    module.KernelCache(tmp_path).store(
        [replace(kernel, key=key, source=s.text) for key, s in zip(keys, sources, strict=True)]
    )
    start = time.perf_counter()
    found = compile_kernels(sources, H200, tmp_path, pool=new_kernel_pool(("/absent",)))
    elapsed = time.perf_counter() - start
    assert [found_kernel.cubin for found_kernel in found] == [kernel.cubin] * 100
    assert elapsed < 0.3, elapsed


def test_without_triton_there_is_a_device_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(module, "version", absent)
    with pytest.raises(DeviceError, match="needs the package triton") as error:
        compile_kernels([elementwise()], H200, None)
    assert error.value.code == "no-triton"


def test_the_compiling_process_never_imports_triton(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels
from onnxc.compiler.jobs.job import Failed
from onnxc.compiler.target import parse_target
from tests.codegen_gpu.sources import reduction
if __name__ == "__main__":
    (kernel,) = compile_kernels([reduction()], parse_target("cuda:sm_90"), Path({str(tmp_path)!r}))
    assert kernel.cubin.startswith(b"\\x7fELF")
    assert not [name for name in sys.modules if name.split(".")[0] in ("triton", "torch", "cupy")]
"""
    root = Path(module.__file__).parents[4]
    # TRITON_INTERPRET would make the workers interpret.
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
