"""Sizes of signatures as texts: names, expressions of them, and expressions that have a value of their own."""

import pytest

from onnxc.command_line.texts.size_texts import symbols_in, value_of


@pytest.mark.parametrize(
    ("text", "symbols", "value"),
    [
        ("N", {"N": 3}, 3),
        ("N", {}, 1),
        ("2*N + M", {"N": 3}, 7),
        ("2*N", {"2*N": 5, "N": 3}, 5),
        ("`a b` + 1", {"a b": 4}, 5),
    ],
)
def test_a_size_has_a_value(text: str, symbols: dict[str, int], value: int) -> None:
    assert value_of(text, symbols) == value


@pytest.mark.parametrize(("text", "names"), [("max", {"max"}), ("max(N, 2*M)", {"N", "M"}), ("x.y", {"x.y"})])
def test_the_symbols_of_a_size(text: str, names: set[str]) -> None:
    assert symbols_in(text) == names
