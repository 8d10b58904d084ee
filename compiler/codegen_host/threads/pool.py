"""The thread pool as LLVM IR: functions that are part of every image.

One loop runs at a time. Its items are claimed in chunks by the caller and by workers that happen to be free, through
one atomic word; a caller never waits for a worker that has not claimed a chunk. Whoever finds the pool taken – another
caller, or a loop inside a loop – runs its loop alone. The caller claims chunks from the first on, workers from the last
on: what one kernel writes the next one reads, mostly on the same processor. Claimed in one order, chunks of the 10 us
that they take in a small convolutional network waited for lines in the cache of another processor.

The word is generation << 32 | helpers that may still join << 24 | chunks claimed by workers << 12 | by the caller. It
is closed where no helper may join, else open. The fields describe a loop: function, context, count, grain, chunks,
done, waiting. What holds:

1. Only the holder of the lock stores the word and the fields, in this order: it closes the word, stores the fields,
   opens the word under the next generation. A generation is opened once, its helpers only fall and its claims only
   rise, so a word that was replaced does not come back (but to a thread that sleeps through 2^32 loops).
2. A worker reads an open word, then the fields, and joins by compare-and-exchange: one helper less, one chunk is its
   own. The exchange fails if the word was closed since it was read, so whoever joins has the fields of the loop that
   it joins. In terms of memory: behind the closing is a release fence, before the exchange an acquire fence, and who
   has read a field of a later loop finds the closing, or what came after it, in the word.
3. Whoever has joined may claim more chunks by plain addition: it has not reported its first one, and a loop ends when
   all chunks are reported. A claim counts where there were fewer claims than chunks before it, so as many count as
   there are chunks, and those from either end do not meet. After its report a worker touches nothing of the loop; at
   most it wakes the next caller in vain.
4. When all chunks are claimed nobody joins, and when all are reported nobody adds: the word between loops does not
   change, and a plain store closes it.
5. `stop` is stored before the generation is raised for it, and a worker reads the word before `stop`: one that misses
   the order waits for the end of a generation that is over, which takes no time.

tests/codegen_host/pool_model.py takes these steps, by the same names, in every order that there is.
"""

from collections.abc import Callable

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder, Int, Reg
from onnxc.compiler.codegen_host.llvm_values import register
from onnxc.compiler.codegen_host.threads.processors import (
    KEEP_APART,
    NOTE_PROCESSOR,
    PROCESSORS_WORDS,
    processor_functions,
)  # fmt: skip
from onnxc.compiler.codegen_host.threads.recorded_loops import (
    RECORDED_FOR,
    chunk_function,
    record_function,
    recorded_function,
)
from onnxc.compiler.codegen_host.threads.state import (
    FUTEX_CALLS,
    FUTEX_WAIT,
    FUTEX_WAKE,
    field,
    load,
    spin,
    store,
    system_call,
)
from onnxc.compiler.target import Target
from onnxc.runtime.thread_pool import POOL_LAYOUT, RECORDING_THREADS

__all__ = ["PARALLEL_FOR", "POOL_EXPORTS", "call_parallel_for", "pool_functions"]

PARALLEL_FOR = "onnxc_parallel_for"

# What runtime/thread_pool.py looks up in an image.
POOL_EXPORTS = ("onnxc_worker", "onnxc_pool_stop", "onnxc_pool_layout", "onnxc_ticks")

_ONE_HELPER = 1 << 24
_ONE_GENERATION = 1 << 32
# A claim of the caller, and of a worker.
_FROM_FIRST, _FROM_LAST = 1, 1 << 12
# Every thread claims one chunk too many before it stops; no count may run into what is beside it.
_MAX_CHUNKS = _FROM_LAST - 512

# (pause, clock): two intrinsics.
_X86_64 = ("llvm.x86.sse2.pause", "llvm.readcyclecounter")
_AARCH64 = ("llvm.aarch64.hint", "llvm.readsteadycounter")


def call_parallel_for(
    f: FunctionBuilder, pool: Reg, function: str, context: Reg, count: Int, grain: Int, ordinal: int = 0
) -> None:
    """Runs `void function(ptr context, i64 begin, i64 end)` over [0, count) in chunks of `grain` items.

    `pool` is the address of a runtime handle, or null. The function is called for disjoint ranges, in any order, by
    any thread, or once for everything; for count <= 0 it is not called. All calls are over when this one returns.
    `ordinal` says in the log of a handle that records which loop it is; else it is a register that nobody reads.
    """
    f.call(PARALLEL_FOR, "void", pool, f.symbol(function), context, count, grain, ordinal)


def pool_functions(target: Target) -> tuple[FunctionBuilder, ...]:
    """The functions of a module that defines PARALLEL_FOR and POOL_EXPORTS."""
    pause, clock = _X86_64 if target.arch == "x86_64" else _AARCH64
    return (
        _layout(),
        _ticks(clock),
        _futex(FUTEX_CALLS[target.arch]),
        _pause(pause),
        *processor_functions(target.arch),
        _start_workers(),
        _drain(),
        _wait_for_helpers(),
        record_function(),
        chunk_function(),
        recorded_function(PARALLEL_FOR),
        _parallel_for(),
        _sleep(),
        _worker(),
        _stop(),
    )


def _layout() -> FunctionBuilder:
    f = FunctionBuilder("onnxc_pool_layout", [], returns="i64")
    f.ret(POOL_LAYOUT)
    return f


def _ticks(clock: str) -> FunctionBuilder:
    """A clock that all processors share, in units of its own."""
    f = FunctionBuilder("onnxc_ticks", [], returns="i64")
    f.ret(f.call(clock, "i64"))
    return f


def _pause(intrinsic: str) -> FunctionBuilder:
    """Tells the processor that the thread is waiting."""
    f = FunctionBuilder("pause", [], internal=True, attributes="nounwind alwaysinline")
    if "aarch64" in intrinsic:
        f.call(intrinsic, "void", f.constant("i32", 1))
    else:
        f.call(intrinsic, "void")
    f.ret()
    return f


def _futex(syscall: int) -> FunctionBuilder:
    """The system call: sleep while *address == value, or wake up to `value` threads that do."""
    f = FunctionBuilder("futex", [("ptr", "state"), ("ptr", "address"), ("i64", "op"), ("i64", "value")], internal=True)
    state, address, op, value = f.parameters
    null = f.constant("ptr", 0)
    system_call(f, state, syscall, address, op, value, null, null, 0)
    f.ret()
    return f


def _start_workers() -> FunctionBuilder:
    """Creates threads until there are `wanted`; if the system refuses one, never asks again."""
    f = FunctionBuilder("start_workers", [("ptr", "state"), ("i64", "wanted")], internal=True)
    state, wanted = f.parameters
    entry, create = load(f, state, "entry", "ptr"), load(f, state, "pthread_create", "ptr")
    null = f.constant("ptr", 0)

    def start(index: Reg) -> tuple[Reg]:
        thread = f.gep(field(f, state, "threads"), index, "i64")
        failure = f.call_pointer(create, "i32", thread, null, entry, state)
        created = f.icmp("eq", failure, 0)
        count = f.convert("trunc", f.add(index, 1), "i32")
        refused = f.convert("trunc", index, "i32")

        def keep() -> tuple[Reg]:
            store(f, state, "workers", count)
            return (f.add(index, 1),)

        def give_up() -> tuple[Reg]:
            store(f, state, "capacity", refused)
            return (wanted,)

        return (f.if_(created, keep, give_up)[0],)

    first = f.convert("zext", load(f, state, "workers", "i32"), "i64")
    f.while_([first], lambda index: f.icmp("slt", index, wanted), start)
    f.ret()
    return f


def _drain() -> FunctionBuilder:
    """Runs chunk `first`, which the thread has claimed, and more until none is left; gives how many it ran.

    `claim` is what it adds to the word for one more.
    """
    parameters = [("ptr", "state"), ("ptr", "function"), ("ptr", "context")]
    parameters += [("i64", name) for name in ("count", "grain", "chunks", "first", "claim")]
    f = FunctionBuilder("drain", parameters, returns="i64", internal=True)
    state, function, context, count, grain, chunks, first, claim = f.parameters

    def run(chunk: Reg, finished: Reg) -> tuple[Reg, Reg]:
        begin = f.mul(chunk, grain)
        f.call_pointer(function, "void", context, begin, f.smin(f.add(begin, grain), count))
        word = f.atomic_rmw("add", field(f, state, "word"), claim)
        return _claimed(f, word, chunks, f.icmp("eq", claim, _FROM_LAST)), f.add(finished, 1)

    _, finished = f.while_([first, 0], lambda chunk, _: f.icmp("sge", chunk, 0), run)
    f.ret(finished)
    return f


def _claimed(f: FunctionBuilder, word: Reg, chunks: Reg, is_from_last: Reg) -> Reg:
    """The chunk of a claim that found the word so; -1 where none was left."""
    from_first = f.and_(word, _FROM_LAST - 1)
    from_last = f.and_(f.lshr(word, 12), _FROM_LAST - 1)
    chunk = f.select(is_from_last, register(f.sub(f.sub(chunks, 1), from_last)), register(from_first))
    is_left = f.icmp("slt", f.add(from_first, from_last), chunks)
    return f.select(is_left, chunk, f.constant("i64", -1))


def _spin(f: FunctionBuilder, state: Reg, goes_on: Callable[[], Reg]) -> Reg:
    """Waits for the condition to end, for a while; i1 whether it still holds."""
    return spin(f, load(f, state, "spin_ticks"), goes_on)


def _wait_for_helpers() -> FunctionBuilder:
    """Returns when helpers have reported `chunks`."""
    f = FunctionBuilder("wait_for_helpers", [("ptr", "state"), ("i32", "chunks")], internal=True)
    state, chunks = f.parameters

    def unfinished() -> Reg:
        return f.icmp("ne", load(f, state, "done", "i32", "acquire"), chunks)

    def sleep() -> None:
        f.atomic_rmw("xchg", field(f, state, "waiting"), f.constant("i32", 1), "seq_cst")
        f.while_([], unfinished, wait)

    def wait() -> None:
        done = load(f, state, "done", "i32", "seq_cst")
        asleep = f.icmp("ne", done, chunks)
        value = f.convert("zext", done, "i64")
        f.if_(asleep, lambda: _futex_call(f, state, "done", 0, FUTEX_WAIT, value))

    f.if_(_spin(f, state, unfinished), sleep)
    f.ret()
    return f


def _futex_call(f: FunctionBuilder, state: Reg, name: str, offset: int, op: int, value: Int) -> None:
    f.call("futex", "void", state, f.gep(field(f, state, name), offset), op, value)


def _parallel_for() -> FunctionBuilder:
    parameters = [("ptr", "pool"), ("ptr", "function"), ("ptr", "context")]
    parameters += [("i64", "count"), ("i64", "grain"), ("i64", "ordinal")]
    f = FunctionBuilder(PARALLEL_FOR, parameters)
    pool, function, context, count, given_grain, ordinal = f.parameters

    def run_alone() -> None:
        f.call_pointer(function, "void", context, 0, count)
        f.ret()

    def run_recorded() -> None:
        f.call(RECORDED_FOR, "void", pool, function, context, count, given_grain, ordinal)
        f.ret()

    def run_without_helpers() -> None:
        f.if_(f.icmp("sle", limit, RECORDING_THREADS), run_recorded)
        run_alone()

    f.if_(f.icmp("sle", count, 0), f.ret)
    given_grain = f.smax(given_grain, 1)
    f.if_(f.icmp("eq", pool, f.constant("ptr", 0)), run_alone)
    # A handle that records looks like one of too few threads, so that those of calls need no test of their own.
    limit = f.load("i64", f.gep(pool, 8), 8)
    f.if_(f.icmp("sle", limit, 1), run_without_helpers)
    f.if_(f.icmp("sle", count, given_grain), run_alone)
    state = f.load("ptr", pool, 8)
    smallest_grain = f.add(f.udiv(f.sub(count, 1), _MAX_CHUNKS), 1)
    grain = f.smax(given_grain, smallest_grain)
    chunks = f.add(f.udiv(f.sub(count, 1), grain), 1)
    capacity = f.convert("zext", load(f, state, "capacity", "i32"), "i64")
    wanted = f.smin(f.smin(f.sub(limit, 1), f.sub(chunks, 1)), capacity)
    f.if_(f.icmp("eq", wanted, 0), run_alone)
    # Looking first keeps the line of a taken lock where its owner has it.
    f.if_(f.icmp("ne", load(f, state, "lock", "i32"), 0), run_alone)
    zero, one = f.constant("i32", 0), f.constant("i32", 1)
    _, is_mine = f.compare_exchange(field(f, state, "lock"), zero, one, "acquire", "monotonic")
    f.if_(f.xor(is_mine, 1), run_alone)

    helpers = _ready_workers(f, state, wanted)
    loop = {"function": function, "context": context, "count": count, "grain": grain, "chunks": chunks}
    generation = _close(f, state)
    for name, value in {**loop, "done": zero, "waiting": zero}.items():
        store(f, state, name, value)
    _open(f, state, f.add(generation, 1), helpers)
    finished = f.call("drain", "i64", state, *loop.values(), 0, _FROM_FIRST)
    f.call("wait_for_helpers", "void", state, f.convert("trunc", f.sub(chunks, finished), "i32"))
    store(f, state, "lock", zero, "release")
    f.ret()
    return f


def _ready_workers(f: FunctionBuilder, state: Reg, wanted: Reg) -> Reg:
    """How many workers there are for a loop, up to `wanted`; what is missing is created first."""
    workers = f.convert("zext", load(f, state, "workers", "i32"), "i64")
    f.if_(f.icmp("slt", workers, wanted), lambda: f.call("start_workers", "void", state, wanted))
    return f.smin(wanted, f.convert("zext", load(f, state, "workers", "i32"), "i64"))


def _close(f: FunctionBuilder, state: Reg) -> Reg:
    """The generation of the loop that was; when the next store is visible, nobody joins it any more."""
    generation = f.lshr(load(f, state, "word"), 32)
    # The generation stays, so that closing wakes nobody.
    store(f, state, "word", f.shl(generation, 32))
    f.fence("release")
    return generation


def _open(f: FunctionBuilder, state: Reg, generation: Reg, helpers: Reg) -> None:
    """Lets helpers join the loop whose fields are stored, and wakes them if any sleep."""
    # The first chunk is the caller's.
    word = f.or_(f.or_(f.shl(generation, 32), f.shl(helpers, 24)), _FROM_FIRST)
    f.atomic_rmw("xchg", field(f, state, "word"), word, "seq_cst")
    sleepers = load(f, state, "sleepers", "i32", "seq_cst")

    def wake() -> None:
        f.call(NOTE_PROCESSOR, "void", state)
        _futex_call(f, state, "word", 4, FUTEX_WAKE, helpers)

    f.if_(f.icmp("ne", sleepers, 0), wake)


def _sleep() -> FunctionBuilder:
    """Returns when the generation may have changed."""
    parameters = [("ptr", "state"), ("i64", "generation"), ("ptr", "processors")]
    f = FunctionBuilder("sleep", parameters, internal=True)
    state, generation, processors = f.parameters
    one = f.constant("i32", 1)

    def has_news() -> Reg:
        return f.icmp("ne", f.lshr(load(f, state, "word", ordering="seq_cst"), 32), generation)

    def wait() -> None:
        f.atomic_rmw("add", field(f, state, "sleepers"), one, "seq_cst")
        f.if_(f.xor(has_news(), 1), lambda: _futex_call(f, state, "word", 4, FUTEX_WAIT, generation))
        f.atomic_rmw("sub", field(f, state, "sleepers"), one, "seq_cst")
        f.call(KEEP_APART, "void", state, processors)

    quiet = _spin(f, state, lambda: f.xor(has_news(), 1))
    f.if_(quiet, wait)
    f.ret()
    return f


def _worker() -> FunctionBuilder:
    """The life of a thread: joins loops until the pool stops."""
    f = FunctionBuilder("onnxc_worker", [("ptr", "state")], returns="ptr")
    (state,) = f.parameters

    def read_word() -> Reg:
        return load(f, state, "word", ordering="acquire")

    def look(word: Reg) -> tuple[Reg]:
        function, context = load(f, state, "function", "ptr"), load(f, state, "context", "ptr")
        count, grain, chunks = load(f, state, "count"), load(f, state, "grain"), load(f, state, "chunks")
        chunk = _claimed(f, word, chunks, f.constant("i1", 1))
        helpers = f.and_(f.lshr(word, 24), f.constant("i64", 255))
        has_work = f.and_(f.icmp("ne", helpers, 0), f.icmp("sge", chunk, 0))

        def join() -> None:
            f.fence("acquire")
            after = f.sub(word, _ONE_HELPER - _FROM_LAST)
            _, is_in = f.compare_exchange(field(f, state, "word"), word, after)
            f.if_(is_in, work)

        def work() -> None:
            finished = f.call("drain", "i64", state, function, context, count, grain, chunks, chunk, _FROM_LAST)
            f.atomic_rmw("add", field(f, state, "done"), f.convert("trunc", finished, "i32"), "seq_cst")
            waiting = f.icmp("ne", load(f, state, "waiting", "i32", "seq_cst"), 0)
            f.if_(waiting, lambda: _futex_call(f, state, "done", 0, FUTEX_WAKE, 1))

        f.if_(has_work, join, lambda: f.call("sleep", "void", state, f.lshr(word, 32), processors))
        return (read_word(),)

    processors = f.alloca("i64", PROCESSORS_WORDS)
    f.loop(0, PROCESSORS_WORDS, 1, lambda word: f.store(0, f.gep(processors, word, "i64"), 8))
    f.while_([read_word()], lambda _: f.icmp("eq", load(f, state, "stop", "i32"), 0), look)
    f.ret(0)
    return f


def _stop() -> FunctionBuilder:
    """1 if all workers have ended, 0 if a loop still runs; either way later loops run in their callers alone.

    Once the workers have ended the lock stays taken, so that there are never any again.
    """
    f = FunctionBuilder("onnxc_pool_stop", [("ptr", "state")], returns="i64")
    (state,) = f.parameters
    zero, one = f.constant("i32", 0), f.constant("i32", 1)

    def join(index: Reg) -> None:
        thread = f.load("i64", f.gep(field(f, state, "threads"), index, "i64"), 8)
        f.call_pointer(load(f, state, "pthread_join", "ptr"), "i32", thread, f.constant("ptr", 0))

    f.if_(f.icmp("ne", load(f, state, "stop", "i32"), 0), lambda: f.ret(1))
    store(f, state, "capacity", zero)
    _, is_mine = f.compare_exchange(field(f, state, "lock"), zero, one)
    f.if_(f.xor(is_mine, 1), lambda: f.ret(0))
    store(f, state, "stop", one)
    f.atomic_rmw("add", field(f, state, "word"), _ONE_GENERATION, "seq_cst")
    _futex_call(f, state, "word", 4, FUTEX_WAKE, 255)
    f.loop(0, f.convert("zext", load(f, state, "workers", "i32"), "i64"), 1, join)
    store(f, state, "workers", zero)
    f.ret(1)
    return f
