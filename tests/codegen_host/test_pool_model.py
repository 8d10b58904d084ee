"""The protocol of the thread pool: it holds in every order of steps, and what breaks it is found."""

import pytest

from onnxc.compiler.codegen_host.threads.pool import PARALLEL_FOR, pool_functions
from onnxc.runtime.thread_pool import PoolState
from tests.codegen_host.atomic_accesses import accesses
from tests.codegen_host.native import HOST
from tests.codegen_host.pool_model import LOOK, PUBLISH, Model, explore_pool

FEW_THEN_MANY = ((2, 1), (4, 1))


@pytest.mark.parametrize(
    "model",
    [
        Model(((2, 1), (4, 1), (2, 1)), workers=1),
        Model(((5, 1), (2, 1), (5, 1)), workers=1),
        Model(FEW_THEN_MANY, workers=2),
        pytest.param(Model(((2, 1), (4, 2), (2, 1)), workers=2), marks=pytest.mark.slow),
        pytest.param(Model(((3, 2), (2, 1), (5, 2)), workers=2), marks=pytest.mark.slow),
    ],
)
def test_in_every_order_each_chunk_runs_once_and_the_pool_comes_to_its_end(model: Model) -> None:
    findings = explore_pool(model)
    assert findings.fault == "", "\n".join(findings.steps)
    assert findings.states > 1000


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("closing", [None, "store done", "open: exchange word"])
def test_a_word_that_is_open_while_the_fields_change_lets_a_worker_join_with_those_of_another_loop(
    closing: str | None, workers: int
) -> None:
    steps = [step for step in PUBLISH if step != "close: store word"]
    if closing is not None:
        steps.insert(steps.index(closing), "close: store word")
    findings = explore_pool(Model(FEW_THEN_MANY, workers, publish=tuple(steps)))
    assert findings.fault == "a thread has the fields of two loops: loop 0 and 4 chunks"
    assert findings.steps[-1] == "worker: join: exchange word"


def test_fields_that_are_stored_after_the_opening_are_of_another_loop() -> None:
    late = tuple(step for step in PUBLISH if step != "store function")
    findings = explore_pool(Model(FEW_THEN_MANY, 1, publish=(*late, "store function")))
    assert "the fields of two loops" in findings.fault


def test_equal_loops_never_showed_it() -> None:
    open_word = tuple(step for step in PUBLISH if step != "close: store word")
    assert explore_pool(Model(((2, 1), (2, 1)), 1, publish=open_word)).fault == ""


def test_a_worker_that_reads_stop_before_the_word_may_sleep_for_ever() -> None:
    findings = explore_pool(Model(FEW_THEN_MANY, 1, look=tuple(reversed(LOOK))))
    assert findings.fault == "no end can be reached"
    assert findings.steps[-4:] == (
        "worker: load stop", "caller: stop: store stop", "caller: stop: add generation", "caller: stop: wake",
    )  # fmt: skip


# The code takes the steps of the model in its order


def test_the_code_publishes_a_loop_in_the_order_of_the_model() -> None:
    steps = pool_accesses(PARALLEL_FOR)
    steps = steps[steps.index("load word") :]
    assert [step for step in steps if step in MODELLED] == [*map(access, PUBLISH), "load sleepers"]
    assert steps[:4] == ["load word", "store word", "fence release", "store function"]


def test_the_code_of_a_worker_looks_and_joins_in_the_order_of_the_model() -> None:
    steps = pool_accesses("onnxc_worker")
    assert [step for step in steps if step in MODELLED] == [
        *LOOK, "load function", "load chunks", "exchange word", "add done", "load waiting", LOOK[0],
    ]  # fmt: skip
    assert steps[steps.index("load chunks") :][:3] == ["load chunks", "fence acquire", "exchange word"]


def test_the_code_stops_in_the_order_of_the_model() -> None:
    assert pool_accesses("onnxc_pool_stop")[-5:] == [
        "store stop", "add word", "load workers", "load pthread_join", "store workers",
    ]  # fmt: skip


MODELLED = {
    f"{verb} {field}"
    for verb in ("load", "store", "exchange", "add")
    for field in ("word", "function", "chunks", "done", "waiting", "sleepers", "stop")
}


def access(step: str) -> str:
    """The access of a step of the model: "open: exchange word" is "exchange word"."""
    return step.rsplit(": ", maxsplit=1)[-1]


def pool_accesses(name: str) -> list[str]:
    (function,) = (f for f in pool_functions(HOST) if f.name == name)
    return accesses(function, PoolState)
