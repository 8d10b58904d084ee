"""How much LLVM does for a function."""

from typing import Literal, get_args

__all__ = ["EFFORTS", "Effort", "effort_of", "marked", "stepping_effort"]

Effort = Literal["most", "plain", "least"]
"""`most`: all that it can. `plain`: the same, but addresses in loops are computed as they are written. `least`: one
pass without a look at the whole, for long functions that launch kernels.

To find what a loop may add to instead of multiplying takes LLVM half of its time for convolutions, which step through
memory already, and 1.3 of 1.4 s for boxes that suppress others. `least` takes it a sixth of the time of `most`.
"""

EFFORTS: tuple[Effort, ...] = get_args(Effort)


def stepping_effort(arch: str) -> Effort:
    """For loops that step through memory as they are written; addresses of other processors have fewer forms."""
    return "plain" if arch == "x86_64" else "most"


def marked(ir_text: str, effort: Effort) -> str:
    """A module that says in its first line what is to be done for it."""
    return f"!onnxc.{effort} = !{{}}\n{ir_text}"


def effort_of(ir_text: str) -> Effort:
    """What a module says; `most` where it says nothing."""
    head = ir_text[:64]
    return next((effort for effort in EFFORTS if head.startswith(marked("", effort))), "most")
