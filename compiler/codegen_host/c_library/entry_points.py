"""The functions that a C library exports; docs/c_library.md says what each promises.

i32 NAME_open(ptr out, ptr weights_path, i32 threads)
i32 NAME_shapes(ptr model, ptr input_shapes, ptr output_shapes)
i32 NAME_run(ptr model, ptr inputs, ptr input_shapes, ptr outputs)
i32 NAME_late(ptr model, i32 output, ptr data, ptr shape)
ptr NAME_error(ptr model)
void NAME_close(ptr model)
"""

from collections.abc import Callable, Sequence

from onnxc.compiler.codegen_host.c_library.bind_sizes import BIND_SIZES, known_size, stored_symbols
from onnxc.compiler.codegen_host.c_library.library_call import LibraryCall
from onnxc.compiler.codegen_host.c_library.messages import (
    FAIL,
    FIRST,
    INPUT_ERROR,
    OUT_OF_MEMORY,
    SECOND,
    Messages,
    fail_if,
)
from onnxc.compiler.codegen_host.c_library.object_layout import ObjectLayout
from onnxc.compiler.codegen_host.c_library.weights_file import HEADER_BYTES, MAP_WEIGHTS, map_weights
from onnxc.compiler.codegen_host.heap import call_grow
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_module import ModuleBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg
from onnxc.compiler.codegen_host.sizes import emit_size
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim
from onnxc.runtime.cpu import CACHE_LINE_BYTES
from onnxc.runtime.native.addresses import WORD_BYTES
from onnxc.runtime.native.faults import illegal_data
from onnxc.runtime.native.workspaces import STATUS_WORDS
from onnxc.runtime.program import (
    BUFFER_WORDS,
    FAULT,
    FRAME_ARENA,
    FRAME_HEAP,
    FRAME_POOL,
    FRAME_STATUS,
    FRAME_WEIGHTS,
    HEAP_BUFFERS,
    HEAP_CHECK,
    INDEX_OUT_OF_RANGE,
    NO_FAULT,
    STATUS_CODE,
    STATUS_LOCATION,
    STATUS_SIZE,
    STATUS_VALUE,
    Fault,
)
from onnxc.runtime.records import record
from onnxc.runtime.thread_pool import MAX_WORKERS, PoolState

__all__ = ["ENTRY_POINTS", "POOL_IMPORTS", "WEIGHTS", "EntryPoints"]

ENTRY_POINTS = ("open", "shapes", "run", "late", "error", "close")

WEIGHTS = "onnxc_weights"

# Functions of libc that the pool calls through its fields of the same names.
POOL_IMPORTS = ("pthread_create", "pthread_join", "syscall")
_NEVER_STOPPED, _NO_MEMORY_TEXT, _FAULT_TEXTS = "onnxc_never_stopped", "onnxc_no_memory_text", "onnxc_fault_texts"
_NO_MEMORY = "error[out-of-memory]: the object of a model does not fit into memory"


@record
class EntryPoints:
    """Writes the entry points of a library. `faults` and `locations` are what the numbers in a status block mean.

    spin_ticks: how long threads wait for each other before they sleep, in the units of onnxc_ticks. file_bytes: the
    bytes of the weights file, None where the weights are in the library.
    """

    call: LibraryCall
    layout: ObjectLayout
    messages: Messages
    faults: Sequence[Fault]
    locations: Sequence[str]
    spin_ticks: int
    file_bytes: int | None

    def write(self, module: ModuleBuilder) -> None:
        """Adds them, with the constants that they read."""
        if self.file_bytes is None:
            module.declare_constant(WEIGHTS)
        else:
            module.add(map_weights(self.layout, self.messages, self.file_bytes))
        module.declare("onnxc_worker", "ptr", ["ptr"])
        for name in POOL_IMPORTS:
            module.declare(name, "void", [])
        module.global_constant(_NO_MEMORY_TEXT, "i8", f"{_NO_MEMORY}\0".encode())
        module.global_constant(_FAULT_TEXTS, "i64", self.fault_texts() or (0,))
        # The object is as long as its longest text asks for, so `open` comes when all are known.
        calls = (self.shapes(), self.run(), self.late(), self.error(), self.close(), _never_stopped())
        for function in (*calls, self.open()):
            module.add(function)

    def function(self, name: str, parameters: Sequence[tuple[str, str]], returns: str = "i32") -> FunctionBuilder:
        return FunctionBuilder(f"{self.call.name}_{name}", parameters, returns)

    # The life of an object

    def open(self) -> FunctionBuilder:
        """An object comes out wherever there is memory, so that its error can be asked for."""
        f = self.function("open", [("ptr", "out"), ("ptr", "weights_path"), ("i32", "threads")])
        out, path, threads = f.parameters
        few = self.messages.ordinal(INPUT_ERROR, f"error[thread-count]: threads is {FIRST}, and at least 1 is needed")
        nbytes = self.layout.nbytes(self.messages.text_bytes)
        model = f.call("aligned_alloc", "ptr", CACHE_LINE_BYTES, nbytes)
        f.store(model, out, 8)
        f.if_(f.is_null(model), lambda: f.ret(OUT_OF_MEMORY))
        f.call("memset", "ptr", model, f.constant("i32", 0), nbytes)
        count = f.convert("sext", threads, "i64")
        # Before anything can fail: closing the object stops the pool.
        self._prepare_pool(f, model, f.smin(count, MAX_WORKERS + 1))
        fail_if(f, model, f.icmp("slt", count, 1), few, count)
        self._prepare_frame(f, model, self._weights(f, model, path))
        f.ret(0)
        return f

    def _weights(self, f: FunctionBuilder, model: Reg, path: Reg) -> Reg:
        """The address of the weights."""
        if self.file_bytes is None:
            return f.symbol(WEIGHTS)
        _leave_with(f, f.call(MAP_WEIGHTS, "i32", model, path))
        return f.gep(f.load("ptr", self.layout.address(f, model, self.layout.weights), 8), HEADER_BYTES)

    def _prepare_frame(self, f: FunctionBuilder, model: Reg, weights: Reg) -> None:
        layout = self.layout
        heap = layout.address(f, model, layout.heap)
        words = {
            FRAME_POOL: layout.address(f, model, layout.handle),
            FRAME_WEIGHTS: weights,
            FRAME_STATUS: layout.address(f, model, layout.status),
            FRAME_HEAP: heap,
        }
        for word, address in words.items():
            f.store(address, layout.address(f, model, word), 8)
        f.store(f.symbol(_NEVER_STOPPED), f.gep(heap, HEAP_CHECK, "i64"), 8)

    def _prepare_pool(self, f: FunctionBuilder, model: Reg, threads: Reg) -> None:
        """As runtime/thread_pool.py does, but for one object, whose calls come one at a time."""
        layout = self.layout
        pool, handle = (layout.address(f, model, word) for word in (layout.pool, layout.handle))
        f.store(pool, handle, 8)
        f.store(threads, f.gep(handle, 1, "i64"), 8)
        f.store(f.constant("i32", MAX_WORKERS), f.gep(pool, PoolState.capacity.offset), 4)
        f.store(self.spin_ticks, f.gep(pool, PoolState.spin_ticks.offset), 8)
        f.store(f.symbol("onnxc_worker"), f.gep(pool, PoolState.entry.offset), 8)
        for name in POOL_IMPORTS:
            f.store(f.symbol(name), f.gep(pool, getattr(PoolState, name).offset), 8)

    def close(self) -> FunctionBuilder:
        """Threads end, and all memory is given back; nothing happens to no object."""
        f = self.function("close", [("ptr", "model")], "void")
        (model,) = f.parameters
        layout = self.layout
        f.if_(f.is_null(model), f.ret)
        f.call("onnxc_pool_stop", "i64", layout.address(f, model, layout.pool))
        buffers = [layout.heap + HEAP_BUFFERS + BUFFER_WORDS * k for k in range(layout.buffers)]
        for word in (*buffers, layout.arena):
            f.call("free", "void", f.load("ptr", layout.address(f, model, word), 8))
        if self.file_bytes is not None:
            mapped = f.load("ptr", layout.address(f, model, layout.weights), 8)
            f.if_(f.xor(f.is_null(mapped), 1), lambda: self._unmap(f, mapped))
        f.call("free", "void", model)
        f.ret()
        return f

    def _unmap(self, f: FunctionBuilder, mapped: Reg) -> None:
        assert self.file_bytes is not None, self
        f.call("munmap", "i32", mapped, self.file_bytes)

    def error(self) -> FunctionBuilder:
        """The text of the last error; without an object, the one error that leaves none."""
        f = self.function("error", [("ptr", "model")], "ptr")
        (model,) = f.parameters
        f.if_(f.is_null(model), lambda: f.ret(f.symbol(_NO_MEMORY_TEXT)))
        f.ret(self.layout.address(f, model, self.layout.text))
        return f

    # Calls

    def shapes(self) -> FunctionBuilder:
        """The sizes of the outputs, -1 for those that only a call finds."""
        f = self.function("shapes", [("ptr", "model"), ("ptr", "input_shapes"), ("ptr", "output_shapes")])
        model, input_shapes, output_shapes = f.parameters
        _leave_with(f, f.call(BIND_SIZES, "i32", model, input_shapes))
        known = self.call.known
        symbols = stored_symbols(self.call, sorted(known), model, f)
        for ordinal, (_, type) in enumerate(self.call.outputs):
            shape = f.load("ptr", f.gep(output_shapes, ordinal, "ptr"), 8)
            for axis, dim in enumerate(type.known_shape):
                f.store(known_size(dim, symbols, known, f), f.gep(shape, axis, "i64"), 8)
        f.ret(0)
        return f

    def run(self) -> FunctionBuilder:
        """One call."""
        parameters = [("ptr", "model"), ("ptr", "inputs"), ("ptr", "input_shapes"), ("ptr", "outputs")]
        f = self.function("run", parameters)
        model, inputs, input_shapes, outputs = f.parameters
        call, layout = self.call, self.layout
        _leave_with(f, f.call(BIND_SIZES, "i32", model, input_shapes))
        self._reserve_arena(f, model)
        for position, ordinal in enumerate(call.arguments, call.first_array):
            address = f.load("ptr", f.gep(inputs, ordinal, "ptr"), 8)
            f.store(address, layout.address(f, model, position), 8)
        for ordinal, position in enumerate(call.results):
            if ordinal not in call.late:
                address = f.load("ptr", f.gep(outputs, ordinal, "ptr"), 8)
                f.store(address, layout.address(f, model, call.first_output + position), 8)
        f.call(call.launch.entry, "i64", model)
        self._leave_with_fault(f, model)
        f.store(1, layout.address(f, model, layout.has_results), 8)
        f.ret(0)
        return f

    def _reserve_arena(self, f: FunctionBuilder, model: Reg) -> None:
        """The frame has an arena that is large enough, or the call ends."""
        dim, layout = self.call.arena_bytes, self.layout
        if dim == 0:
            return
        nbytes = emit_size(dim, stored_symbols(self.call, sorted(symbols_of(dim)), model, f), f)
        arena = layout.address(f, model, layout.arena)
        text = f"error[out-of-memory]: an arena of {FIRST} bytes does not fit into memory"
        refused = call_grow(arena, nbytes, 0, f)
        fail_if(f, model, refused, self.messages.ordinal(OUT_OF_MEMORY, text), nbytes)
        f.store(f.load("ptr", arena, 8), layout.address(f, model, FRAME_ARENA), 8)

    def _leave_with_fault(self, f: FunctionBuilder, model: Reg) -> None:
        """Ends the call where its status block says that something is wrong, and clears it."""
        status = self.layout.address(f, model, self.layout.status)
        words = (STATUS_CODE, STATUS_LOCATION, STATUS_VALUE, STATUS_SIZE)
        code, ordinal, value, size = (f.load("i64", f.gep(status, word, "i64"), 8) for word in words)

        def leave() -> None:
            f.call("memset", "ptr", status, f.constant("i32", 0), STATUS_WORDS * WORD_BYTES)
            row = f.add(ordinal, f.select(f.icmp("eq", code, FAULT), 0, len(self.faults)))
            text = f.load("i64", f.gep(f.symbol(_FAULT_TEXTS), row, "i64"), 8)
            f.ret(f.call(FAIL, "i32", model, text, value, size))

        f.if_(f.icmp("ne", code, NO_FAULT), leave)

    def fault_texts(self) -> tuple[int, ...]:
        """The ordinals of the texts for all faults, then for indices that the kernels of each node find illegal."""
        cases = (
            *((FAULT, k) for k in range(len(self.faults))),
            *((INDEX_OUT_OF_RANGE, k) for k in range(len(self.locations))),
        )
        return tuple(
            self.messages.of_error(illegal_data((kind, k, FIRST, SECOND), self.locations, self.faults))
            for kind, k in cases
        )

    def late(self) -> FunctionBuilder:
        """Where an output is that the last call has left on the heap, and its shape."""
        f = self.function("late", [("ptr", "model"), ("i32", "output"), ("ptr", "data"), ("ptr", "shape")])
        model, output, data, shape = f.parameters
        call, layout = self.call, self.layout
        has_results = f.icmp("ne", f.load("i64", layout.address(f, model, layout.has_results), 8), 0)
        for ordinal in call.late:
            is_wanted = f.and_(has_results, f.icmp("eq", output, f.constant("i32", ordinal)))
            f.if_(is_wanted, self._late_output(f, ordinal, data, shape))
        index = f.convert("sext", output, "i64")
        text = f"error[no-late-output]: output {FIRST} is none that the last call has left on the heap"
        fail_if(f, model, f.constant("i1", 1), self.messages.ordinal(INPUT_ERROR, text), index)
        f.ret(0)
        return f

    def _late_output(self, f: FunctionBuilder, ordinal: int, data: Reg, shape: Reg) -> Callable[[], None]:
        model, call = f.parameters[0], self.call

        def write() -> None:
            word = call.first_output + call.results[ordinal]
            f.store(f.load("ptr", self.layout.address(f, model, word), 8), data, 8)
            dims: tuple[Dim, ...] = call.outputs[ordinal][1].known_shape
            names = sorted(frozenset().union(*map(symbols_of, dims)))
            symbols = stored_symbols(call, names, model, f)
            for axis, dim in enumerate(dims):
                f.store(emit_size(dim, symbols, f), f.gep(shape, axis, "i64"), 8)
            f.ret(0)

        return write


def _never_stopped() -> FunctionBuilder:
    """What the heap asks for signals: in C they are the caller's own affair."""
    f = FunctionBuilder(_NEVER_STOPPED, [], returns="i64", internal=True)
    f.ret(1)
    return f


def _leave_with(f: FunctionBuilder, code: Reg) -> None:
    """Ends the function with a code that is not 0."""
    f.if_(f.icmp("ne", code, f.constant("i32", 0)), lambda: f.ret(code))
