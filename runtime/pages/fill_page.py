"""Pages: one file of HTML with its data, styles and code, which asks no network for anything."""

import json
import math
from collections.abc import Mapping
from importlib.resources import files

from onnxc.runtime.program import JsonValue

__all__ = ["fill_page"]

# What could end the element that the data is in; all that is not ASCII is escaped by JSON.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})

_SHARED = {
    "/*STYLE*/": "style.css",
    "/*RESULTS*/": "results.css",
    "/*ELEMENTS*/": "elements.js",
    "/*TABLES*/": "tables.js",
    "/*RANGE*/": "range.js",
    "/*TIMELINE*/": "timeline.js",
    "/*GRAPH*/": "graph.js",
}

# Controls, and marks that let what comes behind them run to the left or to the right: shown, they do nothing.
_CONTROLS = (*range(9), *range(11, 32), *range(127, 160))
_DIRECTIONS = (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_VISIBLE = {code: f"\\u{code:04x}" for code in (*_CONTROLS, *_DIRECTIONS)}


def fill_page(template: str, data: JsonValue) -> str:
    """The template with shared style and code in the place of their marks, and in that of /*DATA*/ the data as JSON.

    Nothing in the data can end the element that it is in, or change in which direction a line of text runs.
    """
    for mark, name in _SHARED.items():
        template = template.replace(mark, (files("onnxc.runtime.pages") / name).read_text("utf8").rstrip(), 1)
    # The data comes last, so that a name in it that looks like a mark is none.
    return template.replace("/*DATA*/", json.dumps(_visible(data)).translate(_ESCAPES), 1)


def _visible(value: JsonValue) -> JsonValue:
    """The same, with controls and marks of direction in its texts spelled out; JSON has no infinity and no NaN."""
    if isinstance(value, str):
        return value.translate(_VISIBLE)
    if isinstance(value, Mapping):
        return {key.translate(_VISIBLE): _visible(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_visible(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
