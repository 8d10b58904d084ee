"""The shapes of the inputs become the symbols of a frame, and what a call cannot be made with is refused.

    i32 onnxc_bind_sizes(ptr model, ptr shapes)

gives 0, or the code of an error; the tests and their order are those of Python's calls (runtime/signature.py).
"""

from collections.abc import Mapping, Sequence
from functools import reduce

from onnxc.compiler.codegen_host.c_library.library_call import LibraryCall
from onnxc.compiler.codegen_host.c_library.messages import FIRST, INPUT_ERROR, OUT_OF_MEMORY, SECOND, Messages, fail_if
from onnxc.compiler.codegen_host.c_library.object_layout import ObjectLayout
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg
from onnxc.compiler.codegen_host.sizes import emit_broken, emit_estimate, emit_saturated_size, emit_size
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.native.faults import illegal_data
from onnxc.runtime.program import FAULT, FRAME_STATUS, FRAME_SYMBOLS, LARGEST_BYTES, Fault

__all__ = ["BIND_SIZES", "bind_sizes", "known_size", "stored_symbols"]

BIND_SIZES = "onnxc_bind_sizes"


def bind_sizes(call: LibraryCall, layout: ObjectLayout, messages: Messages) -> FunctionBuilder:
    """The function."""
    f = FunctionBuilder(BIND_SIZES, [("ptr", "model"), ("ptr", "shapes")], returns="i32", internal=True)
    _Writer(f, call, layout, messages).write()
    return f


def stored_symbols(call: LibraryCall, names: Sequence[str], model: Reg, f: FunctionBuilder) -> dict[str, Int]:
    """The values of symbols, as the frame has them."""
    ordinals = {symbol.name: ordinal for ordinal, symbol in enumerate(call.symbols)}
    return {name: f.load("i64", f.gep(model, FRAME_SYMBOLS + ordinals[name], "i64"), 8) for name in names}


class _Writer:
    def __init__(self, f: FunctionBuilder, call: LibraryCall, layout: ObjectLayout, messages: Messages) -> None:
        self.f, self.call, self.layout, self.messages = f, call, layout, messages
        self.model, self.shapes = f.parameters
        self.symbols: dict[str, Int] = {}

    def write(self) -> None:
        f, call = self.f, self.call
        status = f.load("i64", self.layout.address(f, self.model, FRAME_STATUS), 8)
        text = "error[not-open]: opening the model has failed, which leaves an object for the error alone"
        self.refuse_if(f.icmp("eq", status, 0), INPUT_ERROR, text, 0)
        f.store(0, self.layout.address(f, self.model, self.layout.has_results), 8)
        for binding in call.bindings:
            size = self.axis(binding.slot, binding.axis)
            self.symbols[call.symbols[binding.symbol].name] = size
            f.store(size, f.gep(self.model, FRAME_SYMBOLS + binding.symbol, "i64"), 8)
        self.expect_declared_sizes()
        self.expect_ranges()
        self.expect_memory([type for _, type in call.inputs], 0, "the inputs")
        self.expect_guards()
        self.expect_outputs()
        f.ret(0)

    def axis(self, ordinal: int, axis: int) -> Reg:
        """The size of an axis of an input, as the caller says it."""
        f = self.f
        shape = f.load("ptr", f.gep(self.shapes, ordinal, "ptr"), 8)
        return f.load("i64", f.gep(shape, axis, "i64"), 8)

    def size(self, dim: Dim) -> Int:
        return emit_size(dim, self.symbols, self.f)

    def saturated_size(self, dim: Dim) -> Int:
        """As `size`, and about the nearest i64 where that holds no such number: for what is asked of sizes."""
        return emit_saturated_size(dim, self.symbols, self.f)

    def expect_declared_sizes(self) -> None:
        """Axes whose sizes are numbers, or decided by those of others."""
        for check in self.call.checks:
            name, type = self.call.inputs[check.slot]
            declared = type.known_shape[check.axis]
            text = f"error[{'input-shape' if isinstance(declared, int) else 'sizes-disagree'}]: axis {check.axis}"
            text += f' of input "{name}" is {FIRST}, expected {"" if isinstance(declared, int) else f"{declared} = "}'
            actual, expected = self.axis(check.slot, check.axis), self.size(declared)
            differs = self.f.icmp("ne", actual, expected)
            self.refuse_if(differs, INPUT_ERROR, f"{text}{SECOND}", actual, expected)

    def expect_ranges(self) -> None:
        f = self.f
        for binding in self.call.bindings:
            symbol, size = self.call.symbols[binding.symbol], self.axis(binding.slot, binding.axis)
            outside = f.icmp("slt", size, symbol.low)
            allowed = f"{symbol.low} or more"
            if symbol.high is not None:
                outside = f.or_(outside, f.icmp("sgt", size, symbol.high))
                allowed = f"{symbol.low} to {symbol.high}"
            what = f'axis {binding.axis} of input "{self.call.inputs[binding.slot][0]}" is {FIRST}'
            text = f"error[size-out-of-range]: {what}, expected {symbol.name} from {allowed}"
            self.refuse_if(outside, INPUT_ERROR, text, size)

    def expect_guards(self) -> None:
        for op in self.call.guards:
            left, right = (self.saturated_size(op.dim(side)) for side in ("left", "right"))
            broken = emit_broken(op.text("relation"), left, right, self.f)
            fault = Fault("guard", op.text("message"), str(op.location or ""))
            ordinal = self.messages.of_error(illegal_data((FAULT, 0, FIRST, SECOND), (), (fault,)))
            fail_if(self.f, self.model, broken, ordinal, left, right)

    def expect_outputs(self) -> None:
        """The sizes of the outputs that are known before the call are possible, and fit into memory with the arena."""
        early = [type for k, (_, type) in enumerate(self.call.outputs) if k not in self.call.late]
        self.expect_memory(early, self.call.arena_bytes, "the outputs and the arena")
        for type in early:
            for dim in type.known_shape:
                if not isinstance(dim, int):
                    size = self.saturated_size(dim)
                    text = f"error[impossible-size]: the inputs make a size of {FIRST}"
                    self.refuse_if(self.f.icmp("slt", as_reg(size), 0), INPUT_ERROR, text, size)

    def expect_memory(self, types: Sequence[TensorType], arena_bytes: Dim, what: str) -> None:
        """As floats, for integers could overflow; each size counts as 1 at least, as Python's calls count them."""
        f, total = self.f, emit_estimate(arena_bytes, self.symbols, self.f)
        for type in types:
            factors = [_at_least_one(emit_estimate(dim, self.symbols, f), f) for dim in type.known_shape]
            itemsize = f.constant("double", float(type.dtype.itemsize))
            total = f.fadd(total, reduce(f.fmul, factors, itemsize))
        nbytes = f.intrinsic("llvm.fptosi.sat.i64.f64", "i64", total)
        text = f"error[out-of-memory]: {what}, about {FIRST} bytes, do not fit into memory"
        self.refuse_if(f.fcmp("ugt", total, float(LARGEST_BYTES)), OUT_OF_MEMORY, text, nbytes)

    def refuse_if(self, condition: Reg, code: int, text: str, first: Int, second: Int = 0) -> None:
        fail_if(self.f, self.model, condition, self.messages.ordinal(code, text), first, second)


def _at_least_one(size: Reg, f: FunctionBuilder) -> Reg:
    return f.select(f.fcmp("olt", size, 1.0), 1.0, size)


def known_size(dim: Dim, symbols: Mapping[str, Int], known: frozenset[str], f: FunctionBuilder) -> Int:
    """A size of an output, and -1 where only a call finds it."""
    return emit_size(dim, symbols, f) if symbols_of(dim) <= known else -1
