"""The program of a compiling process: Triton source text in, cubin and launch metadata out. The only user of triton.

`python -m onnxc.compiler.codegen_gpu.compile.compile_worker FD` answers one `Job` after another over the connection of
that descriptor. Nothing here touches a device.
"""

import linecache
import os
import shutil
import sys
import types
from functools import cache
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.language import core
from triton.language.extra import libdevice

from onnxc.compiler.codegen_gpu.compile.angle_library import LIBRARY, angle_symbol, uses_angles
from onnxc.compiler.codegen_gpu.compile.compile_job import OPTIONS, Compiled, Job
from onnxc.compiler.codegen_gpu.schedules.cards import WARP_THREADS
from onnxc.compiler.codegen_gpu.source.scalars import ANGLES
from onnxc.compiler.jobs.answer_jobs import answer_jobs
from onnxc.compiler.jobs.job import Failed

__all__ = ["compile_job", "main"]

# A process that compiled once and serves for long should not keep this one's memory, some 200 MB.
IDLE_SECONDS = 120.0

# In-kernel TMA descriptors want this alignment of their scratch memory; the arena gives more.
SCRATCH_ALIGNMENT = 128


def main() -> None:
    """Answers jobs until the connection is closed, or idle for `IDLE_SECONDS`."""
    answer_jobs(compile_job, IDLE_SECONDS)


def compile_job(job: Job) -> Compiled | Failed:
    """The kernel compiled; whatever Triton raises is a reason."""
    _empty(Path(os.environ["TRITON_CACHE_DIR"]))
    try:
        return _compile(job)
    except Exception as problem:
        return Failed(_reason(problem))


def _reason(problem: BaseException | None) -> str:
    """What was raised, then its causes: what is wrong in a function stands behind the call of it."""
    reasons: list[str] = []
    while problem is not None:
        reasons.append(f"{type(problem).__name__}: {problem}")
        problem = problem.__cause__
    return "\n".join(reasons)


def _compile(job: Job) -> Compiled:
    signature = dict(job.parameters)
    names = list(signature)
    aligned = [name for name in names if signature[name].startswith("*") or name in job.divisible]
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in aligned}
    options: dict[str, object] = {"num_warps": job.warps, "num_stages": job.stages, **OPTIONS}
    if job.cooperative:
        options["launch_cooperative_grid"] = True
    if uses_angles(job.text):
        options["extern_libs"] = {"angles": _angle_library()}
    module = types.ModuleType(f"onnxc_kernel_{job.name}")
    try:
        _execute(job, module)
        if list(module.kernel.arg_names) != names:
            raise TypeError(f"the parameters of the kernel are {module.kernel.arg_names}, expected {names}")
        source = ASTSource(module.kernel, signature, {}, attributes)
        result = triton.compile(source, target=GPUTarget("cuda", job.architecture, WARP_THREADS), options=options)
    finally:
        linecache.cache.pop(module.__file__ or "", None)
        sys.modules.pop(module.__name__, None)
    data = result.metadata
    assert not data.profile_scratch_size, data
    assert (data.global_scratch_align or 1) <= SCRATCH_ALIGNMENT, data
    return Compiled(
        entry=data.name,
        cubin=result.asm["cubin"],
        warps=data.num_warps,
        ctas=data.num_ctas,
        shared_bytes=data.shared,
        scratch_bytes=data.global_scratch_size or 0,
        cooperative=bool(data.launch_cooperative_grid),
    )


def _execute(job: Job, module: types.ModuleType) -> None:
    """Defines the kernel in the module. Triton asks `inspect` for its text, and that asks `linecache`."""
    # linecache.checkcache keeps files that are named so.
    module.__file__ = file = f"<{job.name}>"
    linecache.cache[file] = (len(job.text), None, job.text.splitlines(keepends=True), file)
    module.__dict__.update(triton=triton, tl=tl, libdevice=libdevice, angles=_ANGLES)
    sys.modules[module.__name__] = module
    exec(compile(job.text, file, "exec"), module.__dict__)


def _angle_function(name: str) -> object:
    """A function of kernels that calls the one of that name in `LIBRARY`."""
    symbols = {(core.dtype(f"fp{bits}"),): (angle_symbol(name, bits), core.dtype(f"fp{bits}")) for bits in (32, 64)}

    def call(x: tl.tensor, _semantic: object = None) -> tl.tensor:
        return core.extern_elementwise("", "", [x], symbols, is_pure=True, _semantic=_semantic)

    return core.extern(call)


_ANGLES = types.ModuleType("angles")
_ANGLES.__dict__.update({name: _angle_function(name) for name in ANGLES})


@cache
def _angle_library() -> str:
    """The path of `LIBRARY` in a file."""
    path = Path(os.environ["TRITON_CACHE_DIR"]).with_name("angles.ll")
    path.write_text(LIBRARY)
    return str(path)


def _empty(folder: Path) -> None:
    """Removes what Triton has kept of the kernel before; the parent keeps what is worth keeping."""
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
