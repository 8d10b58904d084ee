"""The protocol of the thread that makes calls for another: it holds in every order, and what breaks it is found.

A step is one access to the box, as in compiler/codegen_host/threads/native_caller.py. The owner begins some calls,
looks until each has ended, and has the thread stop, which it may do while the last one goes on. Memory is sequentially
consistent. Left out is spinning, since a wait that ends after some looks is one that looks later.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from onnxc.compiler.codegen_host.threads.native_caller import caller_functions
from onnxc.runtime.native.native_caller import BEGIN, SERVE, CallBox
from tests.codegen_host.atomic_accesses import accesses
from tests.codegen_host.native import HOST
from tests.support.interleavings import Fault, Findings, explore

# What who begins stores and does, in its order, and how the thread goes to sleep.
ORDER = ("store frame", "add begun", "load sleeps")
STOP = ("store stop", "add begun", "load sleeps")
SLEEP = ("exchange sleeps", "futex")


class State(NamedTuple):
    """The box; `step` of the owner, with the calls it has begun; that of the thread, with what it keeps."""

    begun: int = 0
    ended: int = 0
    sleeps: int = 0
    stop: int = 0
    frame: int = 0
    owner: int = 0
    calls: int = 0
    thread: str = "load begun"
    own: int = 0
    is_awake: bool = True


class Model(NamedTuple):
    calls: int = 2
    waits: bool = True
    begin: tuple[str, ...] = ORDER
    stop: tuple[str, ...] = STOP
    sleep: tuple[str, ...] = SLEEP


def owner_steps(model: Model) -> tuple[str, ...]:
    each = (*model.begin, "look")
    steps = each * model.calls
    return (*(steps if model.waits else steps[:-1]), *model.stop)


def after_owner(model: Model, state: State) -> State | None:
    """The state when the owner has taken its next step; None where it waits."""
    steps = owner_steps(model)
    if state.owner == len(steps):
        return None
    step, moved = steps[state.owner], state._replace(owner=state.owner + 1)
    if step == "store frame":
        return moved._replace(frame=state.calls + 1, calls=state.calls + 1)
    if step == "add begun":
        return moved._replace(begun=state.begun + 1)
    if step == "store stop":
        return moved._replace(stop=1)
    if step == "load sleeps":
        return moved._replace(is_awake=True) if state.sleeps else moved
    return moved if state.ended == state.begun else None


def after_thread(model: Model, state: State) -> State | None:
    """The same for the thread. Where nothing is begun it goes to sleep, in the order of the model."""
    step = state.thread
    if not state.is_awake or step == "over":
        return None
    if step == "load begun":
        return state._replace(thread=model.sleep[0] if state.begun == state.own else "load stop")
    if step == "load stop":
        return state._replace(thread="over" if state.stop else "call", own=state.begun)
    if step == "call":
        if state.frame != state.own:
            raise Fault(f"call {state.own} runs with the frame of call {state.frame}")
        return state._replace(thread="store ended")
    if step == "store ended":
        return state._replace(thread="load begun", ended=state.own)
    following = (*model.sleep, "store sleeps", "load begun")
    moved = state._replace(thread=following[following.index(step) + 1])
    if step == "futex":
        # The system sleeps only if `begun` is what the thread has seen, in one step with looking.
        return moved._replace(is_awake=state.begun != state.own)
    return moved._replace(sleeps=int(step == "exchange sleeps"))


def explored(model: Model) -> Findings:
    def successors(state: State) -> Iterator[tuple[str, State]]:
        steps = owner_steps(model)
        if (after := after_owner(model, state)) is not None:
            yield f"owner: {steps[state.owner]}", after
        if (after := after_thread(model, state)) is not None:
            yield f"thread: {state.thread}", after

    def is_end(state: State) -> bool:
        return state.owner == len(owner_steps(model)) and state.thread == "over"

    return explore(State(), successors, is_end)


@pytest.mark.parametrize("calls", [0, 1, 3])
@pytest.mark.parametrize("waits", [True, False])
def test_in_every_order_each_call_is_made_with_its_frame_and_the_thread_ends(calls: int, *, waits: bool) -> None:
    findings = explored(Model(calls, waits or not calls))
    assert findings.fault == "", "\n".join(findings.steps)
    assert findings.states > 10


def test_a_call_that_is_begun_before_its_frame_is_stored_runs_with_another() -> None:
    findings = explored(Model(begin=("add begun", "store frame", "load sleeps")))
    assert "with the frame of" in findings.fault


@pytest.mark.parametrize(
    "model",
    [
        Model(begin=("store frame", "load sleeps", "add begun")),
        Model(stop=("add begun", "store stop", "load sleeps")),
        Model(sleep=("futex", "exchange sleeps")),
    ],
    ids=["looks before it begins", "stops too late", "sleeps before it says so"],
)
def test_other_orders_are_found(model: Model) -> None:
    assert explored(model).fault != ""


def test_the_code_takes_the_steps_of_the_model_in_its_order() -> None:
    functions = {function.name: function for function in caller_functions(HOST)}
    # What comes before is stored by the code in Python.
    assert accesses(functions[BEGIN], CallBox) == ["add begun", "load sleeps", "load syscall"]
    sleep = ["exchange sleeps", "load begun", "load syscall", "store sleeps"]
    wait = ["load spin_ticks", "load begun", "load begun", *sleep]
    assert accesses(functions[SERVE], CallBox) == [
        "load ended", *wait, "load begun", "load stop", "load entry", "load frame", "store ticks", "store ended", *wait,
        "load begun",
    ]  # fmt: skip
