"""Running passes in order. Verifying and timing are observers of the pipeline; no pass knows of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns

from onnxc.compiler.ir.module import Module
from onnxc.compiler.ir.verifier import InvalidModule, verify_module
from onnxc.compiler.passes.notes import Note, collect_notes
from onnxc.runtime.records import record

Pass = Callable[[Module], Module]


@record
class Step:
    """One pass that has run: its name, the module before and after, how long it took, what it declined."""

    name: str
    before: Module
    after: Module
    elapsed_ns: int
    notes: tuple[Note, ...]


Observer = Callable[[Step], None]


def run_pipeline(module: Module, passes: Sequence[Pass], observers: Sequence[Observer] = ()) -> Module:
    """`module` after all `passes`; each observer sees every step that has run.

    A pass that has left a module as it is would do so again, and is not run until another has changed the module.
    """
    settled = set[Pass]()
    for transform in passes:
        if transform in settled:
            continue
        start = perf_counter_ns()
        with collect_notes() as notes:
            after = transform(module)
        step = Step(transform.__name__, module, after, perf_counter_ns() - start, tuple(notes))
        for observe in observers:
            observe(step)
        if after is module:
            settled.add(transform)
        else:
            settled.clear()
        module = after
    return module


def verify_step(step: Step) -> None:
    """An observer: raises InvalidModule, naming the pass, where its module breaks a rule of the IR."""
    try:
        verify_module(step.after)
    except InvalidModule as invalid:
        raise InvalidModule(f"{step.after.name} after {step.name}", invalid.findings) from invalid


@dataclass
class Log:
    """An observer that remembers what each step took and declined; passes that run twice are there twice."""

    timings: list[tuple[str, int]] = field(default_factory=list)
    notes: list[tuple[str, Note]] = field(default_factory=list)

    def __call__(self, step: Step) -> None:
        self.timings.append((step.name, step.elapsed_ns))
        self.notes += [(step.name, note) for note in step.notes]
