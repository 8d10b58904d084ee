"""Notes: what passes declined to do and why, for whoever asks; a pass stays a function from module to module.

A note goes to the innermost `collect_notes` that is open, else nowhere.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.rewriter import Refusal, Rule
from onnxc.runtime.records import record


@record
class Note:
    """An optimisation that was declined: the pass or rule, why, and where."""

    subject: str
    reason: str
    location: Location | None = None

    def __str__(self) -> str:
        where = "" if self.location is None else f" at {self.location}"
        return f"{self.subject}: {self.reason}{where}"


# Each note once, in the order in which they came.
Notes = dict[Note, None]

_COLLECTED: ContextVar[Notes | None] = ContextVar("notes", default=None)


@contextmanager
def collect_notes() -> Iterator[Notes]:
    """What notes go to while this is open."""
    notes: Notes = {}
    token = _COLLECTED.set(notes)
    try:
        yield notes
    finally:
        _COLLECTED.reset(token)


def note(subject: str, reason: str, location: Location | None = None) -> None:
    """Adds a note, once."""
    notes = _COLLECTED.get()
    if notes is not None:
        notes[Note(subject, reason, location)] = None


def note_refusal(rule: Rule, op: Op, refusal: Refusal) -> None:
    """The note of a rule that refused an op."""
    note(rule.name, refusal.reason, op.location)
