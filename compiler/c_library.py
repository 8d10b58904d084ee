"""A model to a C library: the stages up to the plan, whose code is then linked with an interface in C."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from onnxc.compiler.codegen_cpu.emit import kernel_pieces
from onnxc.compiler.codegen_host.assemble import native_code
from onnxc.compiler.codegen_host.c_library.build_library import build_library
from onnxc.compiler.codegen_host.c_library.library_call import expect_c_name
from onnxc.compiler.driver import run_stages
from onnxc.compiler.limits import limited_to
from onnxc.compiler.options import CompileOptions, ModelSource
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.compiler.target import without
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.files.plain_files import replaced_file

__all__ = ["c_library", "c_name", "write_files"]

# lib<name>.so beside a program would be found in place of these.
_SYSTEM_LIBRARIES = ("c", "m", "dl", "rt", "pthread")


def c_library(
    source: ModelSource, options: CompileOptions, name: str, *, weights_file: bool = False
) -> Mapping[str, bytes]:
    """The files of a C library by their names; `name` begins those of all that it defines.

    weights_file: the weights are in a file of their own, which is mapped, and not in the library.
    Raises UnsupportedError for a model that is not one native call on tensors of numbers.
    """
    expect_c_name(name)
    # Tile registers are for processes that have asked the system for them, as ours has.
    target = without(without(options.target, "amx-int8"), "amx-bf16")
    if target.kind != "cpu":
        raise InputError(f"a C library is for a processor, and the target is {target}", code="c-library-target")
    options = replace(options, target=target)
    plan = next(noun for stage, noun in run_stages(source, options) if stage == "plan")
    assert isinstance(plan, KernelPlan), plan
    with limited_to(options.limits):
        code = native_code(plan, kernel_pieces(plan, target), target, options.cache)
        return build_library(plan, code, target, name, weights_file=weights_file)


def c_name(path: Path) -> str:
    """An identifier of C that is like the name of a file."""
    name = re.sub(r"\W", "_", path.stem, flags=re.ASCII)
    return name if re.match(r"[A-Za-z]", name) and name not in _SYSTEM_LIBRARIES else f"model_{name}"


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Writes each file into the folder, which is made where there is none; DeviceError where that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            with replaced_file(folder / name, what="the file") as file:
                file.write(data)
    except OSError as problem:
        message = f'cannot write into "{folder}": {problem.strerror}'
        raise DeviceError(message, code="c-library-unwritable") from problem
