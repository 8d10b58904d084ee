"""Parallel loops that leave their times in a log: what `onnxc_parallel_for` does where its handle asks for it.

The kernels are those of any call; what is around them reads the clock. The handle is RecordingMemory of
runtime/thread_pool.py, the log that of runtime/native/launch_log.py.
"""

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder, Int, Reg
from onnxc.runtime.native.launch_log import (
    LOG_CAPACITY,
    LOG_COUNT,
    LOG_RECORDS,
    RECORD_ENDED,
    RECORD_LOOP,
    RECORD_STARTED,
    RECORD_THREAD,
    RECORD_WORDS,
)
from onnxc.runtime.thread_pool import RecordingMemory

__all__ = ["RECORDED_FOR", "chunk_function", "record_function", "recorded_function"]

RECORDED_FOR = "recorded_for"
_CHUNK, _RECORD = "recorded_chunk", "record"

# What the chunks of a recorded loop share: the function, its context, the log, and what their records say.
_FUNCTION, _CONTEXT, _LOG, _LOOP, _WORDS = 0, 1, 2, 3, 4


def record_function() -> FunctionBuilder:
    """Writes one record that begins at `started` and ends now, if the log has room."""
    f = FunctionBuilder(_RECORD, [("ptr", "log"), ("i64", "loop"), ("i64", "started")], internal=True)
    log, loop, started = f.parameters
    ended = f.call("onnxc_ticks", "i64")
    ordinal = f.atomic_rmw("add", f.gep(log, LOG_COUNT, "i64"), 1)
    has_room = f.icmp("slt", ordinal, f.load("i64", f.gep(log, LOG_CAPACITY, "i64"), 8))

    def write() -> None:
        record = f.gep(f.gep(log, LOG_RECORDS, "i64"), f.mul(ordinal, RECORD_WORDS), "i64")
        # Where the storage of a thread begins is one of its own, and is read in one instruction.
        thread = f.convert("ptrtoint", f.call("llvm.thread.pointer", "ptr"), "i64")
        words = {RECORD_LOOP: loop, RECORD_THREAD: thread, RECORD_STARTED: started, RECORD_ENDED: ended}
        for word, value in words.items():
            f.store(value, f.gep(record, word, "i64"), align=8)

    f.if_(has_room, write)
    f.ret()
    return f


def chunk_function() -> FunctionBuilder:
    """The function of a loop over one of its chunks, which is recorded."""
    f = FunctionBuilder(_CHUNK, [("ptr", "shared"), ("i64", "begin"), ("i64", "end")], internal=True)
    shared, begin, end = f.parameters
    function, context, log = (_word(f, shared, word, "ptr") for word in (_FUNCTION, _CONTEXT, _LOG))
    started = f.call("onnxc_ticks", "i64")
    f.call_pointer(function, "void", context, begin, end)
    f.call(_RECORD, "void", log, _word(f, shared, _LOOP, "i64"), started)
    f.ret()
    return f


def recorded_function(parallel_for: str) -> FunctionBuilder:
    """A loop that is recorded, and where helpers may take part each of its chunks."""
    parameters = [("ptr", "handle"), ("ptr", "function"), ("ptr", "context")]
    parameters += [("i64", "count"), ("i64", "grain"), ("i64", "ordinal")]
    f = FunctionBuilder(RECORDED_FOR, parameters, internal=True)
    handle, function, context, count, grain, ordinal = f.parameters
    log = f.load("ptr", f.gep(handle, RecordingMemory.log.offset), 8)
    inner = f.gep(handle, RecordingMemory.inner.offset)
    shared = f.alloca("i64", _WORDS)
    loop = f.shl(ordinal, 1)
    words: dict[int, Int] = {_FUNCTION: function, _CONTEXT: context, _LOG: log, _LOOP: f.add(loop, 1)}
    for word, value in words.items():
        f.store(value, f.gep(shared, word, "i64"), align=8)
    threads = f.load("i64", f.gep(inner, 8), 8)
    is_shared = f.and_(f.icmp("sgt", threads, 1), f.icmp("sgt", count, grain))
    started = f.call("onnxc_ticks", "i64")

    def run_chunks() -> None:
        f.call(parallel_for, "void", inner, f.symbol(_CHUNK), shared, count, grain, ordinal)

    f.if_(is_shared, run_chunks, lambda: f.call_pointer(function, "void", context, 0, count))
    f.call(_RECORD, "void", log, loop, started)
    f.ret()
    return f


def _word(f: FunctionBuilder, shared: Reg, word: int, type: str) -> Reg:
    return f.load(type, f.gep(shared, word, "i64"), 8)
