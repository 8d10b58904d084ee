"""Names that nothing has yet, made of a text that tells where they come from."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property

__all__ = ["FreshNames"]


class FreshNames:
    """Hands out names; those that `known` gives are taken, and are only asked for with the first name."""

    def __init__(self, known: Callable[[], Iterable[str]]) -> None:
        self._known = known
        self._counts: Counter[str] = Counter()

    @cached_property
    def _taken(self) -> set[str]:
        return set(self._known())

    def __call__(self, text: str) -> str:
        """A name like `text` that nothing has, and that nothing else gets."""
        name = text
        while name in self._taken:
            self._counts[text] += 1
            name = f"{text}_{self._counts[text]}"
        self._taken.add(name)
        return name
