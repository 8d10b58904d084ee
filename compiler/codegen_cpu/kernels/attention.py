"""Attention: scores are never in memory as a whole, but block by block of keys in a cache.

What decides is the schedule; the forms are in attention_panels.py and attention_lines.py.
"""

from onnxc.compiler.codegen_cpu.attention.lines import emit_lines
from onnxc.compiler.codegen_cpu.attention.operands import attention_operands
from onnxc.compiler.codegen_cpu.attention.panels import emit_panels
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, open_kernel
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import AttentionSchedule
from onnxc.compiler.target import Target

_FORMS = {"panels": emit_panels, "lines": emit_lines}


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of an attention kernel."""
    emit_form = _FORMS[kernel.scheduled(AttentionSchedule).algorithm]
    return emit_form(attention_operands(open_kernel(kernel, name, target)), name)
