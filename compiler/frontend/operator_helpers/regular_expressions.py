"""Regular expressions from the syntax of RE2 into that of Python.

Most of it is the same. What differs: classes by name, `\\z`, `\\Q...\\E`, `\\C`, `$` only at the very end, flags that
hold for the rest of a group, letters and digits that are ASCII. What only Python has is refused.

Source: https://github.com/google/re2/wiki/Syntax
"""

import re
import sys
import unicodedata
from functools import cache
from typing import NoReturn

NAMED_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ", "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
LAST = r"\U0010ffff"
PERL_CLASSES = {
    "d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r ",
    "D": rf"\x00-/:-{LAST}", "W": rf"\x00-/:-@\[-\^`{{-{LAST}", "S": rf"\x00-\x08\x0b\x0e-\x1f!-{LAST}",
}  # fmt: skip
ESCAPES = {"z": r"\Z", "A": r"\A", "b": r"(?a:\b)", "B": r"(?a:\B)", "C": r"(?s:.)"}
FLAGS = re.compile(r"\(\?([imsU]*)(-[imsU]+)?([:)])")
GROUP_NAME = re.compile(r"\(\?P?<([A-Za-z_]\w*)>")
CATEGORY = re.compile(r"\\([pP])(?:([A-Z])|\{(\^?)([A-Za-z_]+)\})")
PLAIN_ESCAPE = re.compile(r"\\(x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|[0-7]{2,3}|0|[aftnrv]|[^A-Za-z0-9])")


class UnknownSyntax(ValueError):
    """A pattern that RE2 does not take."""


class NotInPython(ValueError):
    """A pattern of RE2 that cannot be said in Python."""


def python_pattern(pattern: str) -> str:
    """The same expression for Python's `re`, which finds what else is malformed. Raises UnknownSyntax, NotInPython."""
    return _Translation(pattern).run()


@cache
def letters_of(category: str, *, is_negated: bool) -> str:
    """The members of a general category of Unicode, such as L or Lu, as the ranges of a class."""
    one = f"(?!{category})[A-Z]." if is_negated else f"(?=[A-Z]){category}{'.' * (2 - len(category))}"
    runs = re.finditer(f"(?:{one})+", _categories())
    return "".join(f"\\U{run.start() // 2:08x}-\\U{run.end() // 2 - 1:08x}" for run in runs)


@cache
def _categories() -> str:
    """The general categories of all characters in their order, each a capital and a small letter."""
    return "".join(map(unicodedata.category, map(chr, range(sys.maxunicode + 1))))


class _Translation:
    """One walk over a pattern; `flags_of` holds, for each open group, the flag groups that are to be closed with it."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.position = pattern, 0
        self.flags_of: list[list[str]] = [[]]
        self.is_multiline = [False]

    def run(self) -> str:
        parts = []
        while self.position < len(self.pattern):
            parts.append(self.next_part())
        return "".join(parts) + ")" * len(self.flags_of[0])

    def next_part(self) -> str:
        letter = self.pattern[self.position]
        match letter:
            case "\\":
                return self.escape(in_class=False)
            case "[":
                return self.character_class()
            case "(":
                return self.group()
            case ")":
                self.position += 1
                return self.close_group()
            case "$":
                self.position += 1
                return "$" if self.is_multiline[-1] else r"\Z"
            case "|":
                self.position += 1
                # A flag holds to the end of its group, over all alternatives.
                flags = self.flags_of[-1]
                return ")" * len(flags) + "|" + "".join(flags)
        self.position += 1
        return letter

    def refuse(self, what: str) -> NoReturn:
        raise UnknownSyntax(f"{what} at position {self.position}")

    def escape(self, *, in_class: bool) -> str:
        rest = self.pattern[self.position :]
        letter = rest[1:2]
        if rest.startswith("\\Q"):
            quoted, _, _ = rest[2:].partition("\\E")
            self.position += 2 + len(quoted) + 2 * ("\\E" in rest)
            return re.escape(quoted)
        if letter in PERL_CLASSES:
            self.position += 2
            return PERL_CLASSES[letter] if in_class else f"[{PERL_CLASSES[letter]}]"
        category = CATEGORY.match(rest)
        if category is not None:
            return self.category(category, in_class=in_class)
        if letter in ESCAPES and not in_class:
            self.position += 2
            return ESCAPES[letter]
        plain = PLAIN_ESCAPE.match(rest)
        if plain is None:
            self.refuse(f"\\{letter} is not known")
        self.position += plain.end()
        code = plain[1]
        if code.startswith("x{"):
            return re.escape(chr(int(code[2:-1], 16)))
        return f"\\{code.zfill(3)}" if code.isdecimal() else plain[0]

    def category(self, parts: re.Match[str], *, in_class: bool) -> str:
        name = parts[2] or parts[4]
        if len(name) > 2:
            raise NotInPython(f"\\p{{{name}}} names a script of Unicode")
        if not letters_of(name, is_negated=False):
            self.refuse(f"\\p{{{name}}} is no general category of Unicode")
        members = letters_of(name, is_negated=(parts[1] == "P") != bool(parts[3]))
        self.position += parts.end()
        return members if in_class else f"[{members}]"

    def character_class(self) -> str:
        self.position += 1
        parts = ["["]
        if self.pattern.startswith("^", self.position):
            parts.append("^")
            self.position += 1
        is_first = True
        while is_first or not self.pattern.startswith("]", self.position):
            if self.position >= len(self.pattern):
                self.refuse("a class is not closed")
            parts.append(self.class_member())
            is_first = False
        self.position += 1
        return "".join((*parts, "]"))

    def class_member(self) -> str:
        named = re.compile(r"\[:(\^?)(\w+):\]").match(self.pattern, self.position)
        if named is not None:
            if named[1] or named[2] not in NAMED_CLASSES:
                self.refuse(f"class {named[0]} is not known")
            self.position = named.end()
            return NAMED_CLASSES[named[2]]
        letter = self.pattern[self.position]
        if letter == "\\":
            return self.escape(in_class=True)
        self.position += 1
        return "\\" + letter if letter in "[&~|" else letter

    def group(self) -> str:
        rest = self.pattern[self.position :]
        named, flags = GROUP_NAME.match(rest), FLAGS.match(rest)
        if named is not None:
            self.position += named.end()
            self.open_group()
            return f"(?P<{named[1]}>"
        if flags is not None:
            return self.flags(flags)
        if rest.startswith("(?"):
            self.refuse(f"{rest[:4]} is no group of RE2")
        self.position += 1
        self.open_group()
        return "("

    def open_group(self) -> None:
        self.flags_of.append([])
        self.is_multiline.append(self.is_multiline[-1])

    def close_group(self) -> str:
        if len(self.flags_of) == 1:
            self.refuse("unexpected )")
        self.is_multiline.pop()
        return ")" * (len(self.flags_of.pop()) + 1)

    def flags(self, parts: re.Match[str]) -> str:
        on, off, end = parts[1], (parts[2] or "-")[1:], parts[3]
        if "U" in on + off:
            raise NotInPython("flag U makes repetitions lazy")
        self.position += parts.end()
        text = f"(?{on}{'-' + off if off else ''}:"
        if end == ":":
            self.open_group()
        else:
            self.flags_of[-1].append(text)
        self.is_multiline[-1] = ("m" in on or self.is_multiline[-1]) and "m" not in off
        return text
