"""A position in a text of the IR, and the words and signs that may stand there; it knows no grammar."""

import json
import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from onnxc.compiler.ir.printer import PLAIN_WORD
from onnxc.runtime.errors import ModelError

Item = TypeVar("Item")

SPACE = re.compile(r"(?:\s|//[^\n]*)*")
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
INTEGER = re.compile(r"-?[0-9]+")


class IrSyntaxError(ModelError):
    """A text that is no program; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"{message} (line {line}, column {column})", code="ir-syntax")
        self.line, self.column = line, column


class TextCursor:
    """Reads a text from its start; each method takes what it names, or fails where something else stands."""

    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0

    def _fail(self, message: str, start: int | None = None) -> NoReturn:
        position = self._start() if start is None else start
        before = self.text[:position]
        raise IrSyntaxError(message, before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1)

    def _start(self) -> int:
        """Where the next word or sign stands; the position stays, as the comment before it may be a location."""
        return end_of(SPACE, self.text, self.position)

    def _sees(self, sign: str) -> bool:
        return self.text.startswith(sign, self._start())

    def _takes(self, sign: str) -> bool:
        start = self._start()
        sees = self.text.startswith(sign, start)
        if sees:
            self.position = start + len(sign)
        return sees

    def _takes_word(self, word: str) -> bool:
        match = PLAIN_WORD.match(self.text, self._start())
        if match is None or match.group() != word:
            return False
        self.position = match.end()
        return True

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            self._fail(f"expected {sign!r}")

    def _match(self, pattern: re.Pattern[str], what: str) -> str:
        match = pattern.match(self.text, self._start())
        if match is None:
            self._fail(f"expected {what}")
        self.position = match.end()
        return match.group()

    def _listed(self, opening: str, closing: str, read: Callable[[], Item]) -> list[Item]:
        """What stands between two brackets, separated by commas."""
        self._expect(opening)
        items: list[Item] = []
        while not self._takes(closing):
            if items:
                self._expect(",")
            items.append(read())
        return items

    def _name(self) -> str:
        return self._string() if self._sees('"') else self._match(PLAIN_WORD, "a name")

    def _string(self) -> str:
        start = self._start()
        return self._unquoted(self._match(STRING, "a quoted text"), start)

    def _unquoted(self, text: str, start: int) -> str:
        try:
            return str(json.loads(text))
        except ValueError as reason:
            self._fail(f"a quoted text is malformed: {reason}", start)

    def _integer(self) -> int:
        start = self._start()
        return self._to_int(self._match(INTEGER, "an integer"), start)

    def _to_int(self, text: str, start: int) -> int:
        try:
            return int(text)
        except ValueError:
            self._fail("the number is too long", start)

    def _chunk(self, stop: str = "") -> str:
        """The text of this line up to a `,`, `]`, `}` or unmatched `)` that is not within parentheses or backquotes."""
        start = end = self._start()
        depth = 0
        while end < len(self.text):
            sign = self.text[end]
            if sign == "`":
                end = self.text.find("`", end + 1) % (len(self.text) + 1)
            elif sign == "\n" or (depth == 0 and (sign in ",]})" or sign in stop)):
                break
            depth += (sign == "(") - (sign == ")")
            end += 1
        self.position = min(end, len(self.text))
        return self.text[start : self.position].strip()


def end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return position if match is None else match.end()
