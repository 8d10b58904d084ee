"""Kernels compiled one after the other, each with the processor seconds that this took; both are kept in a folder."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from onnxc.compiler.codegen_gpu.compile.compile_job import Compiled, Job
from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels, triton_version
from onnxc.compiler.codegen_gpu.compile.kernel_cache import kernel_key
from onnxc.compiler.codegen_gpu.compile.kernel_pool import COMMAND, TIMEOUT_SECONDS, kernel_environment
from onnxc.compiler.codegen_gpu.schedules.cards import card_of
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.jobs.file_cache import FileCache
from onnxc.compiler.jobs.job import Failed
from onnxc.compiler.jobs.worker_pool import WorkerPool
from onnxc.compiler.target import Target
from onnxc.runtime.device_code import DeviceKernel

__all__ = ["TimedKernels"]

_TICKS = os.sysconf("SC_CLK_TCK")

_NOTHING = "@triton.jit\ndef kernel():\n    pass\n"
"""What a process compiles first, so that no other kernel is counted with its start."""


class TimedKernels:
    """Compiles for a target; `folder` is for its own use, and what others put there has no time.

    start_seconds: of a processor, what a process takes until it compiles. tell: as of `compile_kernels`.
    """

    def __init__(self, target: Target, folder: Path, tell: Callable[[int, int], None] | None = None) -> None:
        self._target, self._folder, self._tell = target, folder, tell
        self._pool = _TimedPool(card_of(target).architecture, FileCache(folder, ".seconds"))
        self.start_seconds = self._pool.start()

    def compile(self, sources: Sequence[KernelSource]) -> Sequence[DeviceKernel]:
        """The kernel of each source. Raises what `compile_kernels` does."""
        return compile_kernels(sources, self._target, self._folder, 1, self._tell, pool=self._pool)

    def seconds(self, sources: Sequence[KernelSource]) -> float:
        """What compiling the different ones of these took when they were compiled, in seconds of a processor."""
        installed = triton_version()
        keys = {kernel_key(source, self._target.name, installed) for source in sources}
        return sum(self._pool.seconds_of(key) for key in sorted(keys))

    def close(self) -> None:
        """Ends the process."""
        self._pool.close()


class _TimedPool(WorkerPool[Job, Compiled]):
    """One process, which is looked at before and after each job."""

    def __init__(self, architecture: int, kept: FileCache) -> None:
        super().__init__(COMMAND, TIMEOUT_SECONDS, kernel_environment)
        self._nothing = Job("nothing", _NOTHING, (), (), 4, 3, architecture)
        self._kept = kept

    def start(self) -> float:
        """Sees to it that there is a process; the processor seconds of the one there is until then."""
        super().run([self._nothing], 1)
        return self._used()

    def run(
        self, jobs: Sequence[Job], count: int, progress: Callable[[int], None] | None = None
    ) -> list[Compiled | Failed]:
        """As of `WorkerPool`, one after the other whatever the count."""
        del count
        # The process may have left, when nobody wanted anything of it.
        self.start()
        answers = []
        for done, job in enumerate(jobs, 1):
            before = self._used()
            answers += super().run([job], 1)
            self._kept.store({job.name: str(max(0.0, self._used() - before)).encode()})
            if progress is not None:
                progress(done)
        return answers

    def seconds_of(self, key: str) -> float:
        """What the job of that name took, 0 where that is not known."""
        return float(self._kept.load(key) or b"0")

    def _used(self) -> float:
        """The processor seconds of the process and of those that it has started, as of ptxas."""
        return sum(_processor_seconds(process) for process in self.process_ids)


def _processor_seconds(process: int) -> float:
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0.0
    # Behind the name in parentheses: state and ten others, then user and system time, of itself and of its children.
    return sum(map(int, text.rpartition(")")[2].split()[11:15])) / _TICKS
