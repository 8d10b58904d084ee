"""protobuf's text format, read and written by protobuf, within bounds and with errors of ours."""

import re

from google.protobuf import text_format

from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.text_forms.cursor import fail_at

__all__ = ["nesting_beyond", "parse_message", "print_message"]

_RULE = "protobuf, the text format"

_NESTED_MESSAGES = 100
"""Levels of messages that protobuf reads."""

_BRACKETS = re.compile(r"""#[^\n]*+|"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+'|(?P<open>[{<])|(?P<close>[}>])""")

_ESCAPE = r"""\\(?:[abfnrtvuUx\\'"]|[0-3][0-7]{2}|[0-7]{1,2}(?![0-7]))"""

_STRINGS = re.compile(
    rf"""#[^\n]*+|"(?:[^"\\\n]|{_ESCAPE})*+(?:"|(?P<double>\\.))|'(?:[^'\\\n]|{_ESCAPE})*+(?:'|(?P<single>\\.))"""
)
"""Strings, up to an escape that is none: protobuf reads it in C++ as an error, in Python as two characters."""


def print_message(model: ModelProto) -> str:
    """The model in protobuf's text format."""
    return text_format.MessageToString(model)


def parse_message(text: str) -> ModelProto:
    """The model that the text is; ModelError tells line and column of what is wrong."""
    beyond = nesting_beyond(text)
    if beyond is not None:
        fail_at("nesting-too-deep", f"messages are nested more than {_NESTED_MESSAGES} deep", text, beyond, _RULE)
    for match in _STRINGS.finditer(text):
        wrong = match["double"] or match["single"]
        if wrong:
            fail_at("textproto-syntax", f"{wrong} is no escape of a string", text, match.end() - len(wrong), _RULE)
    try:
        return text_format.Parse(text, ModelProto())
    except text_format.ParseError as problem:
        line, column = problem.GetLine() or 1, problem.GetColumn() or 1
        starts = [0, *(match.end() for match in re.finditer("\n", text))]
        message = str(problem).removeprefix(f"{line}:{column} : ")
        fail_at("textproto-syntax", message, text, starts[min(line, len(starts)) - 1] + column - 1, _RULE)


def nesting_beyond(text: str) -> int | None:
    """The offset of the first message that is nested too deep; protobuf reads them by recursion, without a bound."""
    depth = 0
    for match in _BRACKETS.finditer(text):
        depth += (match["open"] is not None) - (match["close"] is not None)
        if depth > _NESTED_MESSAGES:
            return match.start()
    return None
