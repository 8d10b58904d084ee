"""Sizes as signatures write them: the symbols in one, and its value.

A name alone, as most are, is read here; expressions are read by the compiler's parser, which only they load.
"""

import importlib
from collections.abc import Mapping
from types import ModuleType

__all__ = ["symbols_in", "value_of"]


def symbols_in(text: str) -> frozenset[str]:
    """The names of the symbols in a size."""
    if text.isidentifier():
        return frozenset({text})
    names: frozenset[str] = _sizes("dim_symbols").symbols_of(_sizes("dim_text").parse_dim(text))
    return names


def value_of(text: str, symbols: Mapping[str, int]) -> int:
    """The value of a size: its own, where `symbols` has the whole text; else with 1 for each symbol without one."""
    if text in symbols or text.isidentifier():
        return symbols.get(text, 1)
    values = {name: symbols.get(name, 1) for name in symbols_in(text)}
    value: int = _sizes("dim_symbols").evaluate(_sizes("dim_text").parse_dim(text), values)
    return value


def _sizes(module: str) -> ModuleType:
    return importlib.import_module(f"onnxc.compiler.ir.{module}")
