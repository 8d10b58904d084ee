"""The thread pool as a state machine, and every order in which its threads can take their steps.

A step is one access to the shared memory of compiler/codegen_host/threads/pool.py, named as what it does there. A
caller runs some loops and stops the pool; workers join the loops. Memory is sequentially consistent: the fences of the
code have an argument of their own. Left out are the lock, since there is one caller; nested loops, which do not touch
the pool; spinning and second looks, since a wait that ends after some looks is one that looks later. `function` stands
for context, count and grain too.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from tests.support.interleavings import Fault, Findings, explore

__all__ = ["LOOK", "PUBLISH", "Model", "explore_pool"]

# How a caller publishes a loop.
PUBLISH = (
    "close: load word", "close: store word", "store function", "store chunks", "store done", "store waiting",
    "open: exchange word",
)  # fmt: skip

# How a worker begins each round.
LOOK = ("load word", "load stop")


class Word(NamedTuple):
    generation: int = 0
    helpers: int = 0
    from_last: int = 0
    from_first: int = 0

    def claimed(self, chunks: int, *, is_worker: bool) -> int:
        """The chunk of a claim that finds the word so; -1 where none is left."""
        if self.from_first + self.from_last >= chunks:
            return -1
        return chunks - 1 - self.from_last if is_worker else self.from_first


class Memory(NamedTuple):
    """What threads share. `runs`, which the pool lacks, counts how often each chunk of the current loop has begun."""

    word: Word = Word()
    function: int = -1
    chunks: int = 0
    done: int = 0
    waiting: int = 0
    sleepers: int = 0
    stop: int = 0
    runs: tuple[int, ...] = ()


class Thread(NamedTuple):
    """The next step, and what the thread keeps in registers; `function` is the ordinal of the loop it works for."""

    step: str
    word: Word = Word()
    function: int = -1
    chunks: int = 0
    chunk: int = 0
    finished: int = 0
    done: int = 0


class State(NamedTuple):
    """Workers are alike, so their order is that of their states."""

    memory: Memory
    caller: Thread
    workers: tuple[Thread, ...]


class Turn(NamedTuple):
    """What a step leaves behind, and how many sleepers on the word, and on `done`, it wakes."""

    memory: Memory
    thread: Thread
    wakes_workers: int = 0
    wakes_caller: bool = False


@dataclass(frozen=True)
class Model:
    """The loops, as (chunks, helpers that may join), the number of workers, and the order of the steps."""

    loops: tuple[tuple[int, int], ...]
    workers: int
    publish: tuple[str, ...] = PUBLISH
    look: tuple[str, ...] = LOOK

    def start(self) -> State:
        first = Thread(self.look[0])
        return State(self._begin(Memory(), 0), Thread(self.publish[0], function=0), (first,) * self.workers)

    def after(self, step: str) -> str:
        """The step that follows one of `publish` or `look`."""
        order = self.publish if step in self.publish else self.look
        position = order.index(step) + 1
        return order[position] if position < len(order) else _AFTERWARDS[step in self.publish]

    def end_loop(self, memory: Memory, me: Thread, workers: tuple[Thread, ...]) -> tuple[Memory, Thread]:
        """The caller returns, which it may when everything is done, and goes to its next loop or stops the pool."""
        if set(memory.runs) != {1}:
            raise Fault(f"the caller returns when its chunks have begun {memory.runs} times")
        if any(worker.step in _AT_WORK for worker in workers):
            raise Fault("the caller returns while a helper is at work")
        following = me.function + 1
        if following == len(self.loops):
            return memory._replace(runs=()), Thread("stop: store stop")
        return self._begin(memory, following), Thread(self.publish[0], function=following)

    def _begin(self, memory: Memory, loop: int) -> Memory:
        return memory._replace(runs=(0,) * self.loops[loop][0])


_AFTERWARDS = {True: "open: load sleepers", False: "load function"}
_AT_WORK = ("drain: run chunk", "drain: claim chunk", "report")

Step = Callable[[Model, Memory, Thread], Turn]


# Publishing


def _load_word(model: Model, memory: Memory, me: Thread) -> Turn:
    return Turn(memory, me._replace(step=model.after(me.step), word=memory.word))


def _close(model: Model, memory: Memory, me: Thread) -> Turn:
    return Turn(memory._replace(word=Word(me.word.generation)), me._replace(step=model.after(me.step)))


def _store_function(model: Model, memory: Memory, me: Thread) -> Turn:
    return Turn(memory._replace(function=me.function), me._replace(step=model.after(me.step)))


def _store_chunks(model: Model, memory: Memory, me: Thread) -> Turn:
    return Turn(memory._replace(chunks=model.loops[me.function][0]), me._replace(step=model.after(me.step)))


def _store_done(model: Model, memory: Memory, me: Thread) -> Turn:
    return Turn(memory._replace(done=0), me._replace(step=model.after(me.step)))


def _store_waiting(model: Model, memory: Memory, me: Thread) -> Turn:
    return Turn(memory._replace(waiting=0), me._replace(step=model.after(me.step)))


def _open(model: Model, memory: Memory, me: Thread) -> Turn:
    chunks, helpers = model.loops[me.function]
    word = Word(me.word.generation + 1, helpers, from_first=1)
    caller = Thread(model.after(me.step), function=me.function, chunks=chunks)
    return Turn(memory._replace(word=word), caller)


def _load_sleepers(_model: Model, memory: Memory, me: Thread) -> Turn:
    return Turn(memory, me._replace(step="open: wake" if memory.sleepers else "drain: run chunk"))


def _wake_helpers(model: Model, memory: Memory, me: Thread) -> Turn:
    return Turn(memory, me._replace(step="drain: run chunk"), wakes_workers=model.loops[me.function][1])


# Draining, the caller and workers


def _run_chunk(model: Model, memory: Memory, me: Thread) -> Turn:
    if me.chunks != model.loops[me.function][0]:
        raise Fault(f"a thread has the fields of two loops: loop {me.function} and {me.chunks} chunks")
    if me.function != memory.function:
        raise Fault(f"chunk {me.chunk} of loop {me.function} runs while loop {memory.function} does")
    runs = tuple(count + (chunk == me.chunk) for chunk, count in enumerate(memory.runs))
    if max(runs) > 1:
        raise Fault(f"chunk {me.chunk} of loop {me.function} runs twice")
    return Turn(memory._replace(runs=runs), me._replace(step="drain: claim chunk", finished=me.finished + 1))


def _claim_chunk(_model: Model, memory: Memory, me: Thread) -> Turn:
    is_worker, word = me.word.helpers > 0, memory.word
    chunk = word.claimed(me.chunks, is_worker=is_worker)
    claims = {"from_last": word.from_last + 1} if is_worker else {"from_first": word.from_first + 1}
    after = memory._replace(word=word._replace(**claims))
    if chunk >= 0:
        return Turn(after, me._replace(step="drain: run chunk", chunk=chunk))
    return Turn(after, me._replace(step="report" if is_worker else "wait: look", chunk=0))


# Waiting for helpers; `explore` takes "return"


def _wait_look(_model: Model, memory: Memory, me: Thread) -> Turn:
    return Turn(memory, me._replace(step="return" if _is_finished(memory, me) else "wait: announce"))


def _announce(_model: Model, memory: Memory, me: Thread) -> Turn:
    return Turn(memory._replace(waiting=1), me._replace(step="wait: load done"))


def _wait_load_done(_model: Model, memory: Memory, me: Thread) -> Turn:
    if _is_finished(memory, me):
        return Turn(memory, me._replace(step="return"))
    return Turn(memory, me._replace(step="wait: sleep", done=memory.done))


def _wait_sleep(_model: Model, memory: Memory, me: Thread) -> Turn:
    return Turn(memory, me._replace(step="asleep" if memory.done == me.done else "wait: load done", done=0))


def _is_finished(memory: Memory, me: Thread) -> bool:
    return memory.done == me.chunks - me.finished


# Stopping


def _store_stop(_model: Model, memory: Memory, me: Thread) -> Turn:
    return Turn(memory._replace(stop=1), me._replace(step="stop: add generation"))


def _add_generation(_model: Model, memory: Memory, me: Thread) -> Turn:
    word = memory.word._replace(generation=memory.word.generation + 1)
    return Turn(memory._replace(word=word), me._replace(step="stop: wake"))


def _wake_to_stop(model: Model, memory: Memory, me: Thread) -> Turn:
    return Turn(memory, me._replace(step="stop: join"), wakes_workers=model.workers)


# A worker looks, joins and reports


def _load_stop(model: Model, memory: Memory, me: Thread) -> Turn:
    return Turn(memory, Thread("ended") if memory.stop else me._replace(step=model.after(me.step)))


def _load_function(_model: Model, memory: Memory, me: Thread) -> Turn:
    if me.word.helpers == 0:
        return Turn(memory, Thread("sleep: add sleeper", word=Word(me.word.generation)))
    return Turn(memory, me._replace(step="load chunks", function=memory.function))


def _load_chunks(_model: Model, memory: Memory, me: Thread) -> Turn:
    if me.word.claimed(memory.chunks, is_worker=True) < 0:
        return Turn(memory, Thread("sleep: add sleeper", word=Word(me.word.generation)))
    return Turn(memory, me._replace(step="join: exchange word", chunks=memory.chunks))


def _join(model: Model, memory: Memory, me: Thread) -> Turn:
    if memory.word != me.word:
        return Turn(memory, Thread(model.look[0]))
    chunk = me.word.claimed(me.chunks, is_worker=True)
    joined = me._replace(step="drain: run chunk", word=Word(helpers=1), chunk=chunk)
    word = me.word._replace(helpers=me.word.helpers - 1, from_last=me.word.from_last + 1)
    return Turn(memory._replace(word=word), joined)


def _report(_model: Model, memory: Memory, me: Thread) -> Turn:
    return Turn(memory._replace(done=memory.done + me.finished), Thread("load waiting"))


def _load_waiting(model: Model, memory: Memory, _me: Thread) -> Turn:
    return Turn(memory, Thread("wake caller" if memory.waiting else model.look[0]))


def _wake_caller(model: Model, memory: Memory, _me: Thread) -> Turn:
    return Turn(memory, Thread(model.look[0]), wakes_caller=True)


# A worker sleeps


def _add_sleeper(_model: Model, memory: Memory, me: Thread) -> Turn:
    return Turn(memory._replace(sleepers=memory.sleepers + 1), me._replace(step="sleep: look"))


def _sleep_look(_model: Model, memory: Memory, me: Thread) -> Turn:
    has_news = memory.word.generation != me.word.generation
    return Turn(memory, Thread("sleep: subtract sleeper") if has_news else me._replace(step="sleep: sleep"))


def _sleep(_model: Model, memory: Memory, me: Thread) -> Turn:
    has_news = memory.word.generation != me.word.generation
    return Turn(memory, Thread("sleep: subtract sleeper" if has_news else "asleep"))


def _subtract_sleeper(model: Model, memory: Memory, _me: Thread) -> Turn:
    return Turn(memory._replace(sleepers=memory.sleepers - 1), Thread(model.look[0]))


# "asleep", "stop: join" and "ended" are no steps: such a thread waits for another, or for nothing.
STEPS: Mapping[str, Step] = {
    "close: load word": _load_word,
    "close: store word": _close,
    "store function": _store_function,
    "store chunks": _store_chunks,
    "store done": _store_done,
    "store waiting": _store_waiting,
    "open: exchange word": _open,
    "open: load sleepers": _load_sleepers,
    "open: wake": _wake_helpers,
    "drain: run chunk": _run_chunk,
    "drain: claim chunk": _claim_chunk,
    "wait: look": _wait_look,
    "wait: announce": _announce,
    "wait: load done": _wait_load_done,
    "wait: sleep": _wait_sleep,
    "stop: store stop": _store_stop,
    "stop: add generation": _add_generation,
    "stop: wake": _wake_to_stop,
    "load word": _load_word,
    "load stop": _load_stop,
    "load function": _load_function,
    "load chunks": _load_chunks,
    "join: exchange word": _join,
    "report": _report,
    "load waiting": _load_waiting,
    "wake caller": _wake_caller,
    "sleep: add sleeper": _add_sleeper,
    "sleep: look": _sleep_look,
    "sleep: sleep": _sleep,
    "sleep: subtract sleeper": _subtract_sleeper,
}


def explore_pool(model: Model) -> Findings:
    """What can happen to the pool, in whatever order its threads take their steps."""
    return explore(model.start(), lambda state: successors(model, state), is_the_end)


def successors(model: Model, state: State) -> Iterator[tuple[str, State]]:
    memory, caller, workers = state
    if caller.step == "return":
        yield "caller: return", State(*model.end_loop(memory, caller, workers), workers)
    elif caller.step in STEPS:
        turn = STEPS[caller.step](model, memory, caller)
        for after in _woken(workers, turn.wakes_workers) if turn.wakes_workers else (workers,):
            yield f"caller: {caller.step}", State(turn.memory, turn.thread, after)
    for index, worker in enumerate(workers):
        if worker.step in STEPS and worker not in workers[:index]:
            turn = STEPS[worker.step](model, memory, worker)
            after = tuple(sorted((*workers[:index], turn.thread, *workers[index + 1 :])))
            woken = turn.wakes_caller and caller.step == "asleep"
            yield f"worker: {worker.step}", State(turn.memory, _awake(caller) if woken else caller, after)


def _awake(caller: Thread) -> Thread:
    return caller._replace(step="wait: load done")


def _woken(workers: tuple[Thread, ...], count: int) -> Iterator[tuple[Thread, ...]]:
    """The workers with up to `count` of the sleepers woken, whichever the system takes."""
    asleep = [index for index, worker in enumerate(workers) if worker.step == "asleep"]
    for chosen in combinations(asleep, min(count, len(asleep))):
        awake = Thread("sleep: subtract sleeper")
        yield tuple(sorted(awake if index in chosen else worker for index, worker in enumerate(workers)))


def is_the_end(state: State) -> bool:
    return state.caller.step == "stop: join" and all(worker.step == "ended" for worker in state.workers)
