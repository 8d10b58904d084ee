"""What instructions that compute the same each time have given already, as far as what follows can see it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from onnxc.compiler.codegen_host.llvm_values import Reg

__all__ = ["EntryCode", "ScopedValues"]


class ScopedValues:
    """Registers by the text of their instructions. What is added in a scope is forgotten at its end."""

    def __init__(self) -> None:
        self._values: dict[str, Reg] = {}
        self._added: list[str] = []

    def find(self, instruction: str) -> Reg | None:
        """The register that holds it."""
        return self._values.get(instruction)

    def add(self, instruction: str, register: Reg) -> None:
        """An instruction that was not there."""
        self._values[instruction] = register
        self._added.append(instruction)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A part of a function that does not always run before what follows it."""
        count = len(self._added)
        yield
        for instruction in self._added[count:]:
            del self._values[instruction]
        del self._added[count:]


@dataclass
class EntryCode:
    """Lines that come behind the first `end` lines of a function, and what they compute, which is known everywhere."""

    end: int = 0
    lines: list[str] = field(default_factory=list)
    known: ScopedValues = field(default_factory=ScopedValues)

    def inserted(self, lines: list[str]) -> list[str]:
        """The lines of a function with those of its entry."""
        return [*lines[: self.end], *self.lines, *lines[self.end :]]
