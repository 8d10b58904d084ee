"""What long work shows of itself: a moving line on a terminal, lines for logs with --verbose, elsewhere nothing."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import click
from rich.console import Console
from rich.text import Text

__all__ = ["Say", "progress"]

LEAST_SECONDS = 1.0
"""Between two lines of a log that differ only in a count: more would say no more."""


class Say(Protocol):
    """Tells what is being done, and of how many things how many are done; total 0 where nobody knows."""

    def __call__(self, text: str, done: int = 0, total: int = 0) -> None: ...


@contextmanager
def progress(text: str) -> Iterator[Say]:
    """Shows what is being done while something lasts, with the time that it takes; what is given changes the text."""
    stage = _Stage(text)
    if _is_verbose():
        yield _log_of(stage)
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text, done=0, total=0: None
        return
    # The line is made anew whenever it is drawn, so that its time moves.
    with console.status(stage):
        yield stage.tell


class _Stage:
    """What is being done, since when all of it and this stage of it."""

    def __init__(self, text: str) -> None:
        self.began = self.stage_began = time.monotonic()
        self.text, self.done, self.total = text, 0, 0

    def tell(self, text: str, done: int = 0, total: int = 0) -> None:
        if text != self.text:
            self.stage_began = time.monotonic()
        self.text, self.done, self.total = text, done, total

    def __str__(self) -> str:
        return _line(self.text, self.done, self.total, self.elapsed(), time.monotonic() - self.stage_began)

    def __rich__(self) -> Text:
        return Text(str(self))

    def elapsed(self) -> float:
        return time.monotonic() - self.began


def _line(text: str, done: int, total: int, elapsed: float, in_stage: float) -> str:
    """As "compiling kernels: 37 of 112, 12 s, about 24 s left"; what is left as if all things took as long."""
    parts = [f"{text}: {done} of {total}" if total else text, f"{elapsed:.0f} s"]
    if 0 < done < total:
        parts.append(f"about {in_stage * (total - done) / done:.0f} s left")
    return ", ".join(parts)


def _log_of(stage: _Stage) -> Say:
    """A line for each stage as it begins, and for its counts now and then."""
    last = time.monotonic()
    click.echo(str(stage), err=True)

    def tell(text: str, done: int = 0, total: int = 0) -> None:
        nonlocal last
        is_new = text != stage.text
        stage.tell(text, done, total)
        if is_new or done == total > 0 or time.monotonic() - last >= LEAST_SECONDS:
            last = time.monotonic()
            click.echo(str(stage), err=True)

    return tell


def _is_verbose() -> bool:
    """Whether `onnxc --verbose` runs."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.find_root().params.get("verbose"))
