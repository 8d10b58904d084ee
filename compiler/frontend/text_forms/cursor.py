"""A position in a text, and what may stand there; every failure tells line and column. It knows no grammar."""

import re
from typing import NoReturn

from onnxc.compiler.diagnostics import error, model_error

__all__ = ["TextCursor", "fail_at"]

_SHOWN = 100
"""Characters of a line that a message shows."""

_SAID = 300
"""Characters of a message: protobuf's quote what they are about, whatever its length."""


def fail_at(code: str, message: str, text: str, offset: int, rule: str) -> NoReturn:
    """Raises a ModelError that shows the line at `offset` and tells its line and column, which count from 1."""
    start = text.rfind("\n", 0, offset) + 1
    line, column = text.count("\n", 0, start) + 1, offset - start + 1
    first = max(start, offset - _SHOWN // 2)
    shown = text[first : first + _SHOWN].split("\n", 1)[0]
    failure = error(
        code, f"line {line}, column {column}: {message[:_SAID]}", values=[shown] if shown.strip() else (), rule=rule
    )
    raise model_error([failure])


class TextCursor:
    """Reads a text from its start; each method takes what it names, or fails where something else stands.

    space: what may be between words and signs; code and rule: what failures carry.
    """

    def __init__(self, text: str, space: re.Pattern[str], code: str, rule: str) -> None:
        self.text, self.offset = text, 0
        self._space, self._code, self._rule = space, code, rule

    def fail(self, message: str, offset: int | None = None, code: str = "") -> NoReturn:
        """Raises a ModelError at `offset`, else where the next word or sign stands."""
        fail_at(code or self._code, message, self.text, self.start() if offset is None else offset, self._rule)

    def start(self) -> int:
        """The offset of the next word or sign."""
        match = self._space.match(self.text, self.offset)
        self.offset = self.offset if match is None else match.end()
        return self.offset

    def next(self) -> str:
        """The next character that is no space; empty at the end."""
        start = self.start()
        return self.text[start : start + 1]

    def sees(self, sign: str) -> bool:
        return self.text.startswith(sign, self.start())

    def takes(self, sign: str) -> bool:
        if not self.sees(sign):
            return False
        self.offset += len(sign)
        return True

    def expect(self, sign: str) -> None:
        if not self.takes(sign):
            self.fail(f"expected {sign!r}{self.instead()}")

    def instead(self) -> str:
        """What a message says of what stands there."""
        return f", got {self.next()!r}" if self.next() else ", got the end of the text"

    def peek(self, pattern: re.Pattern[str]) -> str:
        """What `pattern` matches next, which stays; empty where it does not."""
        match = pattern.match(self.text, self.start())
        return "" if match is None else match.group()

    def match(self, pattern: re.Pattern[str], what: str) -> str:
        matched = self.peek(pattern)
        if not matched:
            self.fail(f"expected {what}{self.instead()}")
        self.offset += len(matched)
        return matched
