"""The table of growing sizes in a native segment: it writes the table for a call, and tells kernels where entries are.

Sizes and guards that grow are computed where the table is written. Where kernels are launched, the symbols of the frame
have their limits, for grids and the arena; what the sizes of this call decide is then read from the table.
"""

from onnxc.compiler.codegen_gpu.growing_sizes import GrowingSizes
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.codegen_host.segment_frame import SegmentFrame
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.planning.kernel_plan import Guard
from onnxc.runtime.program import FRAME_HEAP, TABLE_ENTRY_BYTES, TABLE_ON_DEVICE, TABLE_ON_HOST

__all__ = ["SizeTable"]


class SizeTable:
    """The table as the function of a segment sees it; nothing is written where it is empty."""

    def __init__(self, frame: SegmentFrame, growing: GrowingSizes) -> None:
        self._frame, self._growing = frame, growing
        if growing.shape is None:
            return
        f, table = frame.f, frame.word(FRAME_HEAP, "ptr")
        self._on_host = f.load("ptr", f.gep(table, TABLE_ON_HOST, "i64"), align=8)
        self._on_device = f.load("ptr", f.gep(table, TABLE_ON_DEVICE, "i64"), align=8)
        self._is_missing = f.icmp("eq", f.load("i64", f.gep(table, TABLE_ON_DEVICE, "i64"), align=8), 0)

    def write_on_host(self) -> None:
        """Writes the table and returns, where there is none on the device.

        Of a segment in several functions each writes what it has the symbols of, which is all that its launches use.
        """
        if self._growing.shape is None:
            return
        f, frame = self._frame.f, self._frame
        words: dict[int, Int] = {}
        for guard, entry in self._growing.guards.items():
            if all(symbols_of(condition.size) <= frame.symbols.keys() for condition in guard):
                holds = frame.holds(guard)
                assert holds is not None, "a guard without conditions does not grow"
                words[entry] = f.convert("zext", holds, "i64")
        for size, entry in self._growing.sizes.items():
            if symbols_of(size) <= frame.symbols.keys():
                words[entry] = frame.size(size)

        def write() -> None:
            for entry, word in words.items():
                f.store(word, f.gep(self._on_host, entry * TABLE_ENTRY_BYTES), align=8)
            f.ret(0)

        f.if_(self._is_missing, write)

    def holds(self, guard: Guard) -> Reg | None:
        """Whether the conditions of a variant hold for this call; None where there are none."""
        entry = self._growing.guards.get(guard)
        if entry is None:
            return self._frame.holds(guard)
        f = self._frame.f
        return f.icmp("ne", f.load("i64", f.gep(self._on_host, entry * TABLE_ENTRY_BYTES), align=8), 0)

    def entry(self, size: Dim) -> Reg:
        """Where kernels load a size."""
        return self._frame.f.gep(self._on_device, self._growing.sizes[size] * TABLE_ENTRY_BYTES)
