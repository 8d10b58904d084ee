"""Where the values of a routine are while it runs, and how regions give their symbols values."""

from collections.abc import Callable, Collection, Mapping, Sequence

from onnxc.compiler.codegen_host.heap import buffer_address
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.codegen_host.routine_frame import RoutineFrame
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim, only_atom
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.kernel_plan import Routine
from onnxc.runtime.records import record

__all__ = ["MatchedSizes", "RoutineValues", "match_sizes"]

Address = Callable[[], Reg]


@record
class MatchedSizes:
    """What values that come in for parameters say of the symbols in the types of these.

    names: all symbols that axes alone are. changed: of these, what those are that have not this value already. checks:
    axes whose sizes must be equal: (axis, the size that the parameter says, that of what comes in).
    """

    names: frozenset[str]
    changed: Mapping[str, Dim]
    checks: tuple[tuple[int, Dim, Dim], ...]


def match_sizes(parameters: Sequence[Value], incoming: Sequence[Value], changing: Collection[str] = ()) -> MatchedSizes:
    """The sizes of values beside those of the parameters that they come in for; `changing` symbols are set anew."""
    names: set[str] = set()
    changed: dict[str, Dim] = {}
    checks: list[tuple[int, Dim, Dim]] = []
    for parameter, value in zip(parameters, incoming, strict=True):
        dims = zip(parameter.tensor.known_shape, value.tensor.known_shape, strict=True)
        for axis, (own, outer) in enumerate(dims):
            name = only_atom(own)
            if isinstance(name, str) and name not in names:
                names.add(name)
                if own != outer or name in changing:
                    changed[name] = outer
            elif own != outer or symbols_of(own) & changed.keys():
                checks.append((axis, own, outer))
    return MatchedSizes(frozenset(names), changed, tuple(checks))


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
        matched = match_sizes(parameters, arguments, changing)
        before: dict[str, Int] = {name: self.frame.symbol(name) for name in matched.changed if name in self.known}
        self.bind(matched)
        self.known |= matched.names
        return before

    def bind(self, matched: "MatchedSizes") -> None:
        """Symbols get the sizes of what comes in, all at once; leaves where an axis has another size than it should."""
        frame = self.frame
        changed: dict[str, Int] = {name: frame.size(dim) for name, dim in matched.changed.items()}
        sizes = [frame.size(outer) for _, _, outer in matched.checks]
        frame.set_symbols(changed)
        for (axis, own, _), size in zip(matched.checks, sizes, strict=True):
            expected = frame.size(own)
            frame.leave_if(self.f.icmp("ne", size, expected), "axis", f"axis {axis}", None, size, expected)

    def new_symbols(self, results: Sequence[Value], inner: Sequence[Value]) -> dict[str, Int]:
        """What the results of a step say of symbols that had no value, from the sizes inside."""
        symbols: dict[str, Int] = {}
        for result, value in zip(results, inner, strict=True):
            for own, dim in zip(result.tensor.known_shape, value.tensor.known_shape, strict=True):
                name = only_atom(own)
                if isinstance(name, str) and name not in self.known:
                    symbols.setdefault(name, self.frame.size(dim))
        return symbols
