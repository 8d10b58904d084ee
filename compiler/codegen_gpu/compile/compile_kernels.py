"""From sources to kernels of a GPU: from the cache, else compiled in worker processes and checked.

Triton is never imported here, and no GPU is asked for anything. The same sources give the same kernels, bit for bit,
whatever the number of processes and whatever the cache holds.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from onnxc.compiler.codegen_gpu.compile.compile_job import Compiled, Job
from onnxc.compiler.codegen_gpu.compile.cubin import Cubin, CubinParameter, read_cubin
from onnxc.compiler.codegen_gpu.compile.kernel_cache import KernelCache, kernel_key
from onnxc.compiler.codegen_gpu.compile.kernel_pool import KernelPool, shared_pool
from onnxc.compiler.codegen_gpu.schedules.cards import WARP_THREADS, Card, card_of
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelParameter, KernelSource
from onnxc.compiler.jobs.job import Failed
from onnxc.compiler.jobs.worker_pool import default_count
from onnxc.compiler.target import Target
from onnxc.runtime.device_code import DeviceKernel
from onnxc.runtime.errors import DeviceError, InputError, UnsupportedError

__all__ = ["KernelsFailed", "compile_kernels", "parameter_table"]

# After the parameters of the source come two addresses: scratch memory, and scratch memory of a profiler.
_TRAILING_POINTERS = 2

_SHOWN_FAILURES = 5


class KernelsFailed(UnsupportedError):
    """Kernels do not compile, or exceed what a card has; `compiled` are the others of the call, by their sources."""

    def __init__(self, message: str, compiled: Mapping[KernelSource, DeviceKernel]) -> None:
        super().__init__(message, code="kernel-compile-failed")
        self.compiled = compiled


def compile_kernels(
    sources: Sequence[KernelSource],
    target: Target,
    cache: Path | None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    names: Sequence[str] = (),
    pool: KernelPool | None = None,
) -> list[DeviceKernel]:
    """The kernel of each source, in order; equal sources are compiled once and give the same kernel.

    cache: the folder of compiled kernels, None for none. workers: how many processes may compile, by default as many
    as this process may use CPUs, 8 at most. progress: is told how many different kernels are done, and of how many.
    names: what each source is called in an error. pool: the processes, by default those that this process keeps.

    Raises KernelsFailed ("kernel-compile-failed") with every kernel that does not compile or exceeds the target's
    limits, and the others; InputError where it calls code of a custom operator, DeviceError where there is no triton.
    """
    card, installed = card_of(target), triton_version()
    keys = [kernel_key(source, target.name, installed) for source in sources]
    different = dict(zip(keys, sources, strict=True))
    folder = KernelCache(cache)
    kernels = {key: kernel for key, source in different.items() if (kernel := folder.load(key, source.text))}
    hits, total = len(kernels), len(different)

    def tell(done: int) -> None:
        if progress is not None:
            progress(hits + done, total)

    tell(0)
    if missing := {key: source for key, source in different.items() if key not in kernels}:
        jobs = [_job(key, source, card) for key, source in missing.items()]
        results = (pool or shared_pool()).run(jobs, workers or default_count(), tell)
        failures: dict[str, str] = {}
        for (key, source), result in zip(missing.items(), results, strict=True):
            checked = _checked(key, source, result, card)
            if isinstance(checked, str):
                failures[key] = checked
            else:
                kernels[key] = checked
        folder.store([kernels[key] for key in missing if key in kernels])
        for key, reason in failures.items():
            if operator := different[key].operator:
                raise InputError(f"the Triton code of {operator} does not compile: {reason}", code="triton-code")
        if failures:
            message = _failure_text(failures, keys, different, names, target)
            compiled = {source: kernels[key] for source, key in zip(sources, keys, strict=True) if key in kernels}
            raise KernelsFailed(message, compiled)
    return [kernels[key] for key in keys]


def triton_version() -> str:
    """The version of the installed triton; DeviceError if there is none."""
    try:
        return version("triton")
    except PackageNotFoundError:
        message = "compiling for CUDA needs the package triton, which is not installed: pip install 'onnxc[gpu]'"
        raise DeviceError(message, code="no-triton") from None


def parameter_table(parameters: Sequence[str]) -> tuple[CubinParameter, ...]:
    """Where our launches expect the parameters of these types: in order, each at a multiple of its size."""
    sizes = [4 if kind == "i32" else 8 for kind in parameters] + [8] * _TRAILING_POINTERS
    table, end = [], 0
    for size in sizes:
        offset = -(-end // size) * size
        table.append(CubinParameter(offset, size))
        end = offset + size
    return tuple(table)


def _job(key: str, source: KernelSource, card: Card) -> Job:
    parameters = tuple((parameter.name, parameter.type) for parameter in source.parameters)
    assert all(_is_known(parameter) for parameter in source.parameters), source.parameters
    assert set(source.divisible) <= {name for name, kind in parameters if not kind.startswith("*")}, source.divisible
    return Job(
        key,
        source.text,
        parameters,
        source.divisible,
        source.warps,
        source.stages,
        card.architecture,
        source.cooperative,
    )


def _is_known(parameter: KernelParameter) -> bool:
    return parameter.is_pointer or parameter.type in ("i32", "i64")


def _checked(key: str, source: KernelSource, result: Compiled | Failed, card: Card) -> DeviceKernel | str:
    """The kernel, or why it cannot be used; that it has our parameters is not in question."""
    if isinstance(result, Failed):
        return result.reason
    cubin = read_cubin(result.cubin)
    parameters = tuple(parameter.type for parameter in source.parameters)
    assert cubin.parameters == parameter_table(parameters), (parameters, cubin.parameters)
    assert cubin.entry == result.entry, (cubin.entry, result.entry)
    assert cubin.architecture == card.architecture, (cubin.architecture, card.architecture)
    if excess := _excess(cubin, result, card):
        return excess
    return DeviceKernel(
        key=key,
        name=result.entry,
        cubin=result.cubin,
        parameters=parameters,
        warps=result.warps,
        ctas=result.ctas,
        shared_bytes=result.shared_bytes,
        scratch_bytes=result.scratch_bytes,
        cooperative=result.cooperative,
        registers=cubin.registers,
        stack_bytes=cubin.stack_bytes,
        source=source.text,
    )


def _excess(cubin: Cubin, result: Compiled, card: Card) -> str:
    """What the kernel needs more of than the card has; empty if nothing. The compiler does not complain of it."""
    threads = result.warps * WARP_THREADS
    needs = (
        ("bytes of shared memory", result.shared_bytes + cubin.shared_bytes, card.shared_bytes),
        ("threads", threads, card.threads_per_block),
        ("registers", threads * cubin.registers, card.registers_per_sm),
    )
    exceeded = [f"{need} {what}, {card.name} has {limit}" for what, need, limit in needs if need > limit]
    return f"a block needs {'; '.join(exceeded)}" if exceeded else ""


def _failure_text(
    failures: Mapping[str, str],
    keys: Sequence[str],
    sources: Mapping[str, KernelSource],
    names: Sequence[str],
    target: Target,
) -> str:
    called = dict(zip(reversed(keys), reversed(names), strict=True)) if names else {}
    shown = list(failures.items())[:_SHOWN_FAILURES]
    texts = [f"{called.get(key, _signature(key, sources[key]))}: {reason}" for key, reason in shown]
    more = f"\nand {len(failures) - len(shown)} more" if len(failures) > len(shown) else ""
    noun = "a kernel does" if len(failures) == 1 else f"{len(failures)} kernels do"
    return f"{noun} not compile for {target}\n" + "\n".join(texts) + more


def _signature(key: str, source: KernelSource) -> str:
    parameters = ", ".join(f"{parameter.name}: {parameter.type}" for parameter in source.parameters)
    return f"kernel {key[:12]}({parameters})"
