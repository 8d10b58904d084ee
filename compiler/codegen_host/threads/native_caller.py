"""The thread of runtime/native/native_caller.py as LLVM IR: functions that are part of every image.

`begun` and `ended` count calls. What holds:

1. Only who begins calls stores `begun`, `entry`, `frame` and `stop`, and begins none before the one before has ended.
   Raising `begun` makes what was stored before it visible to the thread that reads it.
2. Only the thread stores `ticks` and `ended`, when a call has returned: who reads there what `begun` is sees all that
   it wrote.
3. The thread says that it `sleeps`, and then has the system look at `begun` and put it to sleep in one step; who begins
   raises `begun` and then looks whether it sleeps. One of the two sees what the other has done.
4. `stop` is stored before `begun` is raised for it, so that the thread, which is or will be idle, does not miss it.

tests/codegen_host/test_caller_model.py takes these steps, by the same names, in every order that there is.
"""

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.codegen_host.threads import state
from onnxc.compiler.codegen_host.threads.state import FUTEX_CALLS, FUTEX_WAIT, FUTEX_WAKE
from onnxc.compiler.target import Target
from onnxc.runtime.native.native_caller import BEGIN, HAS_ENDED, SERVE, CallBox

__all__ = ["caller_functions"]


def caller_functions(target: Target) -> tuple[FunctionBuilder, ...]:
    """CALLER_EXPORTS, for a module that has the functions of the pool."""
    futex = FUTEX_CALLS[target.arch]
    return _serve(futex), _begin(futex), _has_ended()


def _field(f: FunctionBuilder, box: Reg, name: str) -> Reg:
    return state.field(f, box, name, CallBox)


def _load(f: FunctionBuilder, box: Reg, name: str, type: str, ordering: str = "monotonic") -> Reg:
    return state.load(f, box, name, type, ordering, CallBox)


def _futex(f: FunctionBuilder, box: Reg, call: int, operation: int, value: Int) -> None:
    null = f.constant("ptr", 0)
    state.system_call(f, box, call, _field(f, box, "begun"), operation, value, null, null, 0, of=CallBox)


def _serve(futex: int) -> FunctionBuilder:
    """The life of the thread: makes each call that is begun, until it is to stop."""
    f = FunctionBuilder(SERVE, [("ptr", "box")], returns="i64")
    (box,) = f.parameters

    def next_after(ended: Reg) -> Reg:
        """`begun`, when it is not the count of those that have ended."""
        _wait(f, box, ended, futex)
        return _load(f, box, "begun", "i32", "acquire")

    def call(begun: Reg) -> tuple[Reg]:
        started = f.call("onnxc_ticks", "i64")
        f.call_pointer(_load(f, box, "entry", "ptr"), "i64", _load(f, box, "frame", "ptr"))
        ticks = f.sub(f.call("onnxc_ticks", "i64"), started)
        f.atomic_store(ticks, _field(f, box, "ticks"), "monotonic")
        f.atomic_store(begun, _field(f, box, "ended"))
        return (next_after(begun),)

    first = next_after(_load(f, box, "ended", "i32"))
    f.while_([first], lambda _: f.icmp("eq", _load(f, box, "stop", "i32"), 0), call)
    f.ret(0)
    return f


def _wait(f: FunctionBuilder, box: Reg, ended: Reg, futex: int) -> None:
    """Returns when something was begun after so many."""

    def is_idle(ordering: str = "monotonic") -> Reg:
        return f.icmp("eq", _load(f, box, "begun", "i32", ordering), ended)

    def sleep() -> None:
        f.atomic_rmw("xchg", _field(f, box, "sleeps"), f.constant("i32", 1), "seq_cst")
        value = f.convert("zext", ended, "i64")
        f.while_([], lambda: is_idle("seq_cst"), lambda: _futex(f, box, futex, FUTEX_WAIT, value))
        f.atomic_store(f.constant("i32", 0), _field(f, box, "sleeps"), "monotonic")

    f.if_(state.spin(f, _load(f, box, "spin_ticks", "i64"), is_idle), sleep)


def _begin(futex: int) -> FunctionBuilder:
    """Has the thread make the call that the box describes, or stop."""
    f = FunctionBuilder(BEGIN, [("ptr", "box")], returns="i64")
    (box,) = f.parameters
    f.atomic_rmw("add", _field(f, box, "begun"), f.constant("i32", 1), "seq_cst")
    sleeps = f.icmp("ne", _load(f, box, "sleeps", "i32", "seq_cst"), 0)
    f.if_(sleeps, lambda: _futex(f, box, futex, FUTEX_WAKE, 1))
    f.ret(0)
    return f


def _has_ended() -> FunctionBuilder:
    """1 where the last call that was begun has returned, else 0."""
    f = FunctionBuilder(HAS_ENDED, [("ptr", "box")], returns="i64")
    (box,) = f.parameters
    ended = _load(f, box, "ended", "i32", "acquire")
    f.ret(f.convert("zext", f.icmp("eq", ended, _load(f, box, "begun", "i32")), "i64"))
    return f
