"""Where the values of a routine are while it runs, and how regions give their symbols values."""

from collections.abc import Callable, Collection, Mapping, Sequence

from onnxc.compiler.codegen_host.heap import buffer_address
from onnxc.compiler.codegen_host.llvm_ir import as_reg
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.codegen_host.routine_frame import RoutineFrame
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim, only_atom
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.kernel_plan import Routine

__all__ = ["RoutineValues"]

Address = Callable[[], Reg]


class RoutineValues:
    """`known` are the symbols that have a value; `direct` says where outputs are wanted that segments write there."""

    def __init__(
        self, frame: RoutineFrame, routine: Routine, weight_offsets: Sequence[int], direct: Mapping[Value, Reg]
    ) -> None:
        self.f, self.frame, self.routine, self.weight_offsets = frame.f, frame, routine, weight_offsets
        self.addresses: dict[Value, Address] = {}
        self.known = set(routine.known)
        self.direct = direct

    # Addresses

    def put(self, value: Value, address: Reg) -> None:
        """A value is at an address that does not change."""
        self.addresses[value] = lambda: address

    def address(self, value: Value) -> Reg:
        """Where a value is now."""
        if value in self.addresses:
            return self.addresses[value]()
        offset = self.weight_offsets[self.routine.constants[value]]
        return self.f.gep(self.frame.weights, offset)

    def copy(self, target: Reg, source: Reg, nbytes: Int) -> None:
        """Copies bytes."""
        self.f.call("memcpy", "ptr", target, source, nbytes)

    def alias(self, parameter: Value, argument: Value) -> None:
        """A parameter is where its argument is."""
        self.addresses[parameter] = lambda: self.address(argument)

    def in_cell(self, value: Value, cell: Reg) -> None:
        """The address of a value is in memory, since it may differ."""
        self.addresses[value] = lambda: self.f.load("ptr", cell, 8)

    def make_room(self, value: Value) -> None:
        """A place for a value that the next step writes."""
        if value in self.direct:
            self.put(value, self.direct[value])
            return
        location = value.op.location if value.op is not None else None
        self.frame.reserve(self.routine.buffers[value], self.frame.nbytes(value, location), location)
        self.in_buffer(value, self.routine.buffers[value])

    def in_buffer(self, value: Value, buffer: int) -> None:
        """A value is in a buffer, which may move as it grows."""
        self.addresses[value] = lambda: buffer_address(self.frame.heap, buffer, self.f)

    # Symbols

    def enter(
        self, parameters: Sequence[Value], arguments: Sequence[Value], changing: Collection[str] = ()
    ) -> dict[str, Int]:
        """Binds the symbols of the parameters of a region; the values that they had outside, to be put back.

        Those that the region is not `changing`, and that are the same outside, have their value already.
        """
        bound: dict[str, Int] = {}
        seen: set[str] = set()
        checks: list[tuple[int, Dim, Int]] = []
        for parameter, argument in zip(parameters, arguments, strict=True):
            dims = zip(parameter.tensor.known_shape, argument.tensor.known_shape, strict=True)
            for axis, (own, outer) in enumerate(dims):
                name = only_atom(own)
                if isinstance(name, str) and name not in seen:
                    seen.add(name)
                    if own != outer or name in changing:
                        bound[name] = self.frame.size(outer)
                elif own != outer or symbols_of(own) & bound.keys():
                    checks.append((axis, own, self.frame.size(outer)))
        before = {name: self.frame.symbol(name) for name in bound if name in self.known}
        self.frame.set_symbols(bound)
        self.known |= seen
        for axis, own, value in checks:
            self.expect_size(axis, own, value)
        return dict(before)

    def expect_size(self, axis: int, own: Dim, value: Int) -> None:
        """Leaves unless an axis has the size that a region says it has."""
        expected = self.frame.size(own)
        differs = self.f.icmp("ne", value, expected)
        self.frame.leave_if(as_reg(differs), "axis", f"axis {axis}", None, value, expected)

    def new_symbols(self, results: Sequence[Value], inner: Sequence[Value]) -> dict[str, Int]:
        """What the results of a step say of symbols that had no value, from the sizes inside."""
        found: dict[str, Int] = {}
        for result, value in zip(results, inner, strict=True):
            for own, dim in zip(result.tensor.known_shape, value.tensor.known_shape, strict=True):
                name = only_atom(own)
                if isinstance(name, str) and name not in self.known:
                    found.setdefault(name, self.frame.size(dim))
        return found
