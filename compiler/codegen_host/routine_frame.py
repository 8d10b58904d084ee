"""What the steps of a routine share: the words of the frame, sizes, buffers, and ways to leave with a fault.

The symbols of a program are words of the frame. A region that binds a symbol which has a value outside stores its own,
and puts the other back at its end; so steps, and the segments that they call, read a symbol wherever it is used.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from onnxc.compiler.codegen_host.heap import buffer_address, buffer_of, call_grow
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg
from onnxc.compiler.codegen_host.sizes import emit_estimate, emit_saturated_size, emit_size
from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Value
from onnxc.runtime.program import (
    FAULT,
    FRAME_HEAP,
    FRAME_STATUS,
    FRAME_SYMBOLS,
    FRAME_WEIGHTS,
    LARGEST_BYTES,
    STATUS_CODE,
    STATUS_LOCATION,
    STATUS_SIZE,
    STATUS_VALUE,
    Fault,
)

__all__ = ["FaultTable", "RoutineFrame"]

_REPORTED = (STATUS_CODE, STATUS_LOCATION, STATUS_VALUE, STATUS_SIZE)
"""The words of the status block that a fault is told in."""


@dataclass
class FaultTable:
    """The faults of a program, each once."""

    faults: dict[Fault, int] = field(default_factory=dict)

    def ordinal(self, kind: str, message: str, location: Location | None) -> int:
        """The number of a fault."""
        return self.faults.setdefault(Fault(kind, message, str(location or "")), len(self.faults))


class RoutineFrame:
    """Reads and writes the frame of one call of `i64 routine(ptr frame)`; `symbols` are the program's, in order."""

    def __init__(self, f: FunctionBuilder, symbols: Sequence[str], faults: FaultTable) -> None:
        self.f, self.faults = f, faults
        self.frame = f.parameters[0]
        self.ordinals = {name: ordinal for ordinal, name in enumerate(symbols)}
        self.first_array = FRAME_SYMBOLS + len(symbols)
        self._symbols: dict[str, Reg] = {}
        self.heap, self.status, self.weights = (
            f.load("ptr", self.word(ordinal), 8) for ordinal in (FRAME_HEAP, FRAME_STATUS, FRAME_WEIGHTS)
        )
        # Named once, where every fault can see them.
        self.report = [f.gep(self.status, ordinal, "i64") for ordinal in _REPORTED]

    def word(self, ordinal: int) -> Reg:
        """Where word `ordinal` of the frame is."""
        return self.f.gep(self.frame, ordinal, "i64")

    # Sizes

    def symbol(self, name: str) -> Reg:
        """The value of a symbol now."""
        if name not in self._symbols:
            self._symbols[name] = self.f.load("i64", self.word(FRAME_SYMBOLS + self.ordinals[name]), 8)
        return self._symbols[name]

    def set_symbols(self, values: Mapping[str, Int]) -> None:
        """Symbols have these values from here on."""
        for name, value in values.items():
            self.f.store(value, self.word(FRAME_SYMBOLS + self.ordinals[name]), 8)
            self._symbols[name] = as_reg(value)

    def in_region(self, write: Callable[[], None]) -> Callable[[], None]:
        """What writes steps that do not always run once: symbols are read again in them, and behind them."""

        def region() -> None:
            self._symbols.clear()
            write()
            self._symbols.clear()

        return region

    def size(self, dim: Dim) -> Int:
        """A size with the symbols as they are now."""
        return emit_size(dim, self._values(dim), self.f)

    def saturated_size(self, dim: Dim) -> Int:
        """As `size`, and about the nearest i64 where that holds no such number: for what is asked of sizes."""
        return emit_saturated_size(dim, self._values(dim), self.f)

    def nbytes(self, value: Value, location: Location | None) -> Int:
        """The bytes of a tensor; leaves with a fault where a size is below 0, or memory could not hold it."""
        f, type = self.f, value.tensor
        for dim in type.known_shape:
            if not isinstance(dim, int):
                size = self.saturated_size(dim)
                self.leave_if(f.icmp("slt", size, 0), "size", "", location, size)
        return self.fitting(type.elements * type.dtype.itemsize, location)

    def fitting(self, nbytes: Dim, location: Location | None) -> Int:
        """A size in bytes; leaves with a fault where memory could not hold so many."""
        f = self.f
        if isinstance(nbytes, int):
            return nbytes
        estimate = emit_estimate(nbytes, self._values(nbytes), f)
        rounded = f.intrinsic("llvm.fptosi.sat.i64.f64", "i64", estimate)
        # NaN, as of two infinities, is too large as well.
        self.leave_if(f.fcmp("ugt", estimate, float(LARGEST_BYTES)), "memory", "", location, rounded)
        return self.size(nbytes)

    def _values(self, dim: Dim) -> dict[str, Int]:
        return {name: self.symbol(name) for name in sorted(symbols_of(dim))}

    # Buffers

    def reserve(self, buffer: int, nbytes: Int, location: Location | None, kept: Int = 0) -> Reg:
        """The address of a buffer that holds so many bytes, of which the first `kept` are as before."""
        failed = call_grow(buffer_of(self.heap, buffer, self.f), nbytes, kept, self.f)
        self.leave_if(failed, "memory", "", location, nbytes)
        return buffer_address(self.heap, buffer, self.f)

    # Faults

    def leave_if(
        self, condition: Reg, kind: str, message: str, location: Location | None, value: Int = 0, size: Int = 0
    ) -> None:
        """Where the condition holds, the routine ends with a fault and two numbers that tell of it."""
        f, ordinal = self.f, self.faults.ordinal(kind, message, location)

        def leave() -> None:
            for word, x in zip(self.report, (FAULT, ordinal, value, size), strict=True):
                f.store(x, word, 8)
            f.ret(1)

        f.if_(condition, leave)
