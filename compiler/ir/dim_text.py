"""The text of sizes: a parser of all that `str` of a size writes, and of what models and people write besides."""

import re

from onnxc.compiler.ir.dim_functions import FUNCTIONS
from onnxc.compiler.ir.dims import Dim, Size, floordiv, mod, terms_of


class DimSyntaxError(ValueError):
    """A text that is not a size expression."""


_TOKEN = re.compile(
    r"\s*(?:(\d+)|([A-Za-z_?][A-Za-z0-9_.?$:/]*?(?=//|[^A-Za-z0-9_.?$:/]|$))|`((?:[^`]|``)*)`|(//|[-+*%(),]))"
)


def parse_dim(text: str) -> Dim:
    """The size that `text` says: integers, symbols, `+ - * // %`, and floordiv, mod, min, max (Min, Max), bcast.

    Raises DimSyntaxError where the text is none.
    """
    parser = _Parser(_tokens(text), text)
    dim = parser.sum(0)
    if parser.peek() is not None:
        raise DimSyntaxError(f"unexpected {parser.peek()!r} in {text!r}")
    return dim


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, position = [], 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise DimSyntaxError(f"unexpected {text[position:].strip()[0]!r} in {text!r}")
        digits, name, quoted, sign = match.groups()
        if digits is not None:
            tokens.append(("number", digits))
        elif sign is not None:
            tokens.append(("sign", sign))
        else:
            tokens.append(("name", name) if quoted is None else ("quoted", quoted.replace("``", "`")))
        position = match.end()
    return tokens


class _Parser:
    """Precedence climbing over the tokens of one size; nesting is bounded so that no text exhausts the stack."""

    LIMIT = 100
    LARGEST_PRODUCT = 4096
    LONGEST_INTEGER = 100

    def __init__(self, tokens: list[tuple[str, str]], text: str) -> None:
        self.tokens, self.position, self.text = tokens, 0, text

    def peek(self) -> str | None:
        return self.tokens[self.position][1] if self.position < len(self.tokens) else None

    def take(self) -> tuple[str, str]:
        if self.position >= len(self.tokens):
            raise DimSyntaxError(f"{self.text!r} ends too early")
        self.position += 1
        return self.tokens[self.position - 1]

    def takes(self, *signs: str) -> str | None:
        if self.position < len(self.tokens) and self.tokens[self.position] in [("sign", sign) for sign in signs]:
            return self.take()[1]
        return None

    def expect(self, sign: str) -> None:
        if self.takes(sign) is None:
            raise DimSyntaxError(f"expected {sign!r} in {self.text!r}")

    def sum(self, depth: int) -> Dim:
        if depth > self.LIMIT:
            raise DimSyntaxError("the size is nested too deeply")
        total = self.product(depth)
        while sign := self.takes("+", "-"):
            right = self.product(depth)
            total = total + right if sign == "+" else total - right
        return total

    def product(self, depth: int) -> Dim:
        total = self.factor(depth)
        while sign := self.takes("*", "//", "%"):
            right = self.factor(depth)
            if len(terms_of(total)) * len(terms_of(right)) > self.LARGEST_PRODUCT:
                raise DimSyntaxError("the size has too many terms")
            total = total * right if sign == "*" else (floordiv if sign == "//" else mod)(total, right)
        return total

    def factor(self, depth: int) -> Dim:
        if self.takes("-"):
            return -self.factor(depth + 1) if depth <= self.LIMIT else self.sum(depth + 1)
        if self.takes("("):
            inner = self.sum(depth + 1)
            self.expect(")")
            return inner
        kind, token = self.take()
        if kind == "number":
            if len(token) > self.LONGEST_INTEGER:
                raise DimSyntaxError("a number of the size is too long")
            return int(token)
        if kind == "sign":
            raise DimSyntaxError(f"unexpected {token!r} in {self.text!r}")
        function = FUNCTIONS.get(token.lower()) if kind == "name" else None
        if function is None or self.takes("(") is None:
            return Size.symbol(token)
        arguments = [self.sum(depth + 1)]
        while self.takes(","):
            arguments.append(self.sum(depth + 1))
        self.expect(")")
        if token.lower() in ("floordiv", "mod") and len(arguments) != 2:
            raise DimSyntaxError(f"{token} takes two sizes, in {self.text!r}")
        return function(*arguments)
