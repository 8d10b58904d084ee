"""The processes that compile kernels of GPUs, and their settings of Triton."""

import os
from collections.abc import Mapping, Sequence

from onnxc.compiler.codegen_gpu.compile.compile_job import Compiled, Job
from onnxc.compiler.jobs.worker_pool import WorkerPool, keep_while_running, python_module, worker_environment

__all__ = ["KernelPool", "kernel_environment", "new_kernel_pool", "shared_pool"]

COMMAND = python_module("onnxc.compiler.codegen_gpu.compile.compile_worker")

TIMEOUT_SECONDS = 60.0
"""For one kernel. All those of resnet50, convnext or swin together took 49 to 76 s on two cores."""

KernelPool = WorkerPool[Job, Compiled]


def kernel_environment(folder: str) -> Mapping[str, str]:
    """The environment of a process that compiles kernels."""
    cache = os.path.join(folder, "cache")
    os.makedirs(cache, exist_ok=True)
    return worker_environment(folder) | {
        "TRITON_CACHE_DIR": cache,
        "TRITON_STORE_BINARY_ONLY": "1",
        # Names of files and lines would be most of a cubin, and differ between machines.
        "TRITON_DISABLE_LINE_INFO": "1",
    }


def new_kernel_pool(command: Sequence[str] = COMMAND, timeout_seconds: float = TIMEOUT_SECONDS) -> KernelPool:
    """A pool of its own."""
    return WorkerPool(command, timeout_seconds, kernel_environment)


_shared = keep_while_running(new_kernel_pool())


def shared_pool() -> KernelPool:
    """The pool of this process, which ends with it."""
    return _shared
