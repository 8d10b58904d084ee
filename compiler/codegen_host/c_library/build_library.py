"""A C library as files: the shared library, a header, a CMakeLists.txt, and the weights where they are apart."""

from collections.abc import Mapping

import numpy as np

from onnxc.compiler.codegen_host.assemble import NativeCode
from onnxc.compiler.codegen_host.c_library.bind_sizes import bind_sizes
from onnxc.compiler.codegen_host.c_library.entry_points import ENTRY_POINTS, POOL_IMPORTS, WEIGHTS, EntryPoints
from onnxc.compiler.codegen_host.c_library.header_text import cmake_text, header_text
from onnxc.compiler.codegen_host.c_library.library_call import LibraryCall, library_call
from onnxc.compiler.codegen_host.c_library.messages import Messages
from onnxc.compiler.codegen_host.c_library.object_layout import ObjectLayout
from onnxc.compiler.codegen_host.c_library.section_headers import with_section_headers
from onnxc.compiler.codegen_host.c_library.weights_file import (
    HEADER_BYTES,
    WEIGHTS_HEADER,
    WEIGHTS_IMPORTS,
    weights_header,
)
from onnxc.compiler.codegen_host.image import support_objects
from onnxc.compiler.codegen_host.linking.link import link_image
from onnxc.compiler.codegen_host.llvm_module import ModuleBuilder
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.compiler.codegen_host.routines import CHECK_TICKS
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.compiler.target import Target
from onnxc.runtime.errors import UnsupportedError

__all__ = ["build_library"]

# Code reaches 2 GiB in each direction; half of it leaves room for all else.
LARGEST_WEIGHTS_INSIDE = 1 << 30

# CHECK_TICKS are about 10 ms; threads spin for 50 us, as those of Python's calls do (runtime/thread_pool.py).
_CHECKS_PER_SPIN = 200


def build_library(
    plan: KernelPlan, code: NativeCode, target: Target, name: str, *, weights_file: bool
) -> Mapping[str, bytes]:
    """The bytes of each file by its name; UnsupportedError where the plan is not one native call."""
    call = library_call(plan, code, name)
    file_bytes = HEADER_BYTES + code.weights.nbytes if weights_file else None
    glue = compile_object(_glue(call, code, target, file_bytes).text(), target)
    objects = (*code.objects, glue, *support_objects(target))
    exports = [f"{name}_{entry}" for entry in ENTRY_POINTS]
    library = link_image(objects, exports, (*POOL_IMPORTS, *WEIGHTS_IMPORTS), _constants(code, file_bytes))
    files = {
        f"lib{name}.so": with_section_headers(library),
        f"{name}.h": header_text(call, plan.name, target).encode(),
        "CMakeLists.txt": cmake_text(call).encode(),
    }
    if weights_file:
        files[f"{name}.weights"] = weights_header(code.weights) + code.weights.tobytes()
    return files


def _constants(code: NativeCode, file_bytes: int | None) -> Mapping[str, np.ndarray]:
    """The weights, where they are in the library, under the symbol that the entry points know them by."""
    if file_bytes is not None:
        return {}
    if code.weights.nbytes > LARGEST_WEIGHTS_INSIDE:
        message = f"weights of {code.weights.nbytes} bytes are too many for the inside of a library; put them in a file"
        raise UnsupportedError(f"{message} with --weights-file", code="weights-inside")
    # A symbol needs a byte to stand for.
    return {WEIGHTS: code.weights if code.weights.nbytes else np.zeros(1, np.uint8)}


def _glue(call: LibraryCall, code: NativeCode, target: Target, file_bytes: int | None) -> ModuleBuilder:
    """The entry points, and what they call."""
    module, messages = ModuleBuilder(), Messages()
    layout = ObjectLayout(call.frame_words, call.launch.buffers)
    module.add(bind_sizes(call, layout, messages))
    if file_bytes is not None:
        module.global_constant(WEIGHTS_HEADER, "i8", weights_header(code.weights))
    spin_ticks = CHECK_TICKS[target.arch] // _CHECKS_PER_SPIN
    faults = code.program.faults
    EntryPoints(call, layout, messages, faults, code.locations, spin_ticks, file_bytes).write(module)
    messages.write(module, layout)
    return module
