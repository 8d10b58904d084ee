"""A worker keeps off the processor of its caller: there the two would take turns.

Linux may wake a thread on the processor of the one that wakes it although another is idle. The worker then runs in
place of its caller, or waits behind it, loop by loop. A convolutional network of 270 us on one thread took 400 us on
two when calls came 1 ms apart, and takes 200 us so (two virtual processors, Linux 6.18).
"""

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder, Int, Reg
from onnxc.compiler.codegen_host.threads.state import load, store, system_call

__all__ = ["KEEP_APART", "NOTE_PROCESSOR", "PROCESSORS_WORDS", "processor_functions"]

NOTE_PROCESSOR, KEEP_APART = "note_processor", "keep_apart"

_SET_WORDS = 128
"""A set of 8,192 processors, as many as Linux can be built for."""

PROCESSORS_WORDS = 2 * _SET_WORDS
"""What a worker remembers: the set that it was given, and the set that it gave itself. Both are empty at first."""

# The numbers of the system calls getcpu, sched_getaffinity, sched_setaffinity.
_X86_64 = (309, 204, 203)
_AARCH64 = (168, 123, 122)


def processor_functions(arch: str) -> tuple[FunctionBuilder, ...]:
    """`void note_processor(ptr state)` for a caller, `void keep_apart(ptr state, ptr processors)` for a worker."""
    get_processor, get_allowed, set_allowed = _X86_64 if arch == "x86_64" else _AARCH64
    return _note(get_processor), _keep_apart(get_processor, get_allowed, set_allowed)


def _note(get_processor: int) -> FunctionBuilder:
    """Writes down where the caller is."""
    f = FunctionBuilder(NOTE_PROCESSOR, [("ptr", "state")], internal=True)
    (state,) = f.parameters
    store(f, state, "processor", _own_processor(f, state, get_processor))
    f.ret()
    return f


def _keep_apart(get_processor: int, get_allowed: int, set_allowed: int) -> FunctionBuilder:
    """Where the thread is on the processor of the caller: allows itself all but this, which moves it at once.

    So it is woken elsewhere next time too. Where it is allowed no other, nothing changes. A set that somebody else has
    given it since is the one that it keeps to.
    """
    f = FunctionBuilder(KEEP_APART, [("ptr", "state"), ("ptr", "processors")], internal=True)
    state, given = f.parameters
    chosen = f.gep(given, _SET_WORDS, "i64")
    own = _own_processor(f, state, get_processor)
    current = f.alloca("i64", _SET_WORDS)

    def move() -> None:
        nbytes = system_call(f, state, get_allowed, 0, _SET_WORDS * 8, current)
        f.if_(f.icmp("sgt", nbytes, 0), lambda: choose(nbytes))

    def choose(nbytes: Reg) -> None:
        words = f.lshr(nbytes, 3)
        (changed,) = f.loop(0, words, 1, difference, [f.constant("i64", 0)])
        f.if_(f.icmp("ne", changed, 0), lambda: f.loop(0, words, 1, lambda word: copy(current, given, word)))
        f.loop(0, words, 1, lambda word: copy(given, chosen, word))
        index = f.convert("zext", own, "i64")
        word = f.gep(chosen, f.lshr(index, 6), "i64")
        bit = f.shl(f.constant("i64", 1), f.and_(index, 63))
        f.store(f.and_(f.load("i64", word, 8), f.xor(bit, -1)), word, 8)
        system_call(f, state, set_allowed, 0, nbytes, chosen)

    def difference(word: Reg, before: Reg) -> tuple[Int]:
        here, there = (f.load("i64", f.gep(words, word, "i64"), 8) for words in (current, chosen))
        return (f.or_(before, f.xor(here, there)),)

    def copy(source: Reg, target: Reg, word: Reg) -> None:
        f.store(f.load("i64", f.gep(source, word, "i64"), 8), f.gep(target, word, "i64"), 8)

    f.if_(f.icmp("eq", own, load(f, state, "processor", "i32")), move)
    f.ret()
    return f


def _own_processor(f: FunctionBuilder, state: Reg, get_processor: int) -> Reg:
    slot = f.alloca("i32")
    f.store(f.constant("i32", -1), slot, 4)
    null = f.constant("ptr", 0)
    system_call(f, state, get_processor, slot, null, null)
    return f.load("i32", slot, 4)
