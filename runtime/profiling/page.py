"""The page of a profile: one file of HTML with its data, styles and code, which asks no network for anything."""

import json
from importlib.resources import files

from onnxc.runtime.program import JsonValue

__all__ = ["profile_page"]

# What could end the element that the data is in; all that is not ASCII is escaped by JSON.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def profile_page(profile: JsonValue) -> str:
    """The page that shows the JSON object of a profile; names of models and nodes may be any text."""
    template = (files("onnxc.runtime.profiling") / "page.html").read_text("utf8")
    data = json.dumps(profile).translate(_ESCAPES)
    return template.replace("/*DATA*/", data, 1)
