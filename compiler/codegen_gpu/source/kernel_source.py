"""A kernel as Triton source text, and the launches that carry out one kernel of the plan.

Plain data between the code that writes sources, the workers that compile them and the host function that launches
them; nothing here imports triton.
"""

from dataclasses import field
from typing import Literal

from onnxc.compiler.ir.dims import Dim
from onnxc.runtime.records import record

__all__ = ["Argument", "ArgumentKind", "DeviceStep", "KernelCode", "KernelParameter", "KernelSource"]

ArgumentKind = Literal["input", "output", "status", "scratch", "location", "size", "table", "count"]


@record
class KernelParameter:
    """A run-time parameter of a kernel.

    type: in Triton's spelling, "*fp32" and the like for a pointer (booleans are "*u8"), else "i32" or "i64".
    """

    name: str
    type: str

    @property
    def is_pointer(self) -> bool:
        """Whether the argument is an address on the device."""
        return self.type.startswith("*")


@record
class KernelSource:
    """The canonical source of one device kernel; equal sources are compiled once.

    text: holds one function `kernel`, decorated with `@triton.jit`, whose parameters are `parameters` in order. There
    are no constexpr parameters: constants are literals. The module it is executed in provides triton, tl, libdevice and
    angles.
    All pointers are multiples of 16 bytes; `divisible` names the numbers known to be multiples of 16.
    cooperative: whether its programs wait for each other, so that all must run at the same time.
    operator: the custom operator whose code it calls, empty for none; for people alone.
    """

    text: str
    parameters: tuple[KernelParameter, ...]
    warps: int = 4
    stages: int = 3
    divisible: tuple[str, ...] = ()
    cooperative: bool = False
    operator: str = field(default="", compare=False)


@record
class Argument:
    """What a launch passes for a parameter.

    value: the number of an input or output, the offset in bytes of a place in the scratch memory, the number of a
    location in the source model, or a size in the kernel's symbols, which "table" passes as the address of its entry
    in the table of growing sizes, and "count", a symbol, as the address of its integer; of no meaning for "status".
    """

    kind: ArgumentKind
    value: Dim = 0


@record
class DeviceStep:
    """One launch: a kernel, the number of programs along each axis of the grid, an argument for each parameter."""

    source: KernelSource
    grid: tuple[Dim, Dim, Dim]
    arguments: tuple[Argument, ...]


@record
class KernelCode:
    """The launches, in order, that carry out one kernel of the plan.

    element_counts: counts that must be below 2**31 at run time, since indices are i32.
    """

    steps: tuple[DeviceStep, ...]
    element_counts: tuple[Dim, ...] = ()
