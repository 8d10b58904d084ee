"""A C library as files: the shared library with its weights, a header, and a CMakeLists.txt."""

from collections.abc import Mapping

import numpy as np

from onnxc.compiler.codegen_host.assemble import CHECK_TICKS, NativeCode
from onnxc.compiler.codegen_host.c_library.bind_sizes import bind_sizes
from onnxc.compiler.codegen_host.c_library.entry_points import ENTRY_POINTS, POOL_IMPORTS, WEIGHTS, EntryPoints
from onnxc.compiler.codegen_host.c_library.header_text import cmake_text, header_text
from onnxc.compiler.codegen_host.c_library.library_call import LibraryCall, library_call
from onnxc.compiler.codegen_host.c_library.messages import Messages
from onnxc.compiler.codegen_host.c_library.object_layout import ObjectLayout
from onnxc.compiler.codegen_host.c_library.section_headers import with_section_headers
from onnxc.compiler.codegen_host.image import support_object
from onnxc.compiler.codegen_host.link import link_image
from onnxc.compiler.codegen_host.llvm_ir import ModuleBuilder
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.compiler.target import Target

__all__ = ["build_library"]

# CHECK_TICKS are about 10 ms; threads spin for 50 us, as those of Python's calls do (runtime/thread_pool.py).
_CHECKS_PER_SPIN = 200


def build_library(plan: KernelPlan, code: NativeCode, target: Target, name: str) -> Mapping[str, bytes]:
    """The bytes of each file by its name; UnsupportedError where the plan is not one native call."""
    call = library_call(plan, code, name)
    objects = (*code.objects, compile_object(_glue(call, code, target).text(), target), support_object(target))
    # A symbol needs a byte to stand for.
    weights = code.weights if code.weights.nbytes else np.zeros(1, np.uint8)
    exports = [f"{name}_{entry}" for entry in ENTRY_POINTS]
    library = link_image(objects, exports, POOL_IMPORTS, {WEIGHTS: weights})
    return {
        f"lib{name}.so": with_section_headers(library),
        f"{name}.h": header_text(call, plan.name, target).encode(),
        "CMakeLists.txt": cmake_text(call).encode(),
    }


def _glue(call: LibraryCall, code: NativeCode, target: Target) -> ModuleBuilder:
    """The entry points, and what they call."""
    module, messages = ModuleBuilder(), Messages()
    layout = ObjectLayout(call.frame_words, call.launch.buffers)
    module.add(bind_sizes(call, layout, messages))
    spin_ticks = CHECK_TICKS[target.arch] // _CHECKS_PER_SPIN
    EntryPoints(call, layout, messages, code.program.faults, code.locations, spin_ticks).write(module)
    messages.write(module, layout)
    return module
