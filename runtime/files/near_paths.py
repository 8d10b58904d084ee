"""What there is near a path that leads to no file: the next thing to try, for messages."""

import importlib
import os
from collections.abc import Callable, Sequence
from itertools import islice

__all__ = ["advice_for_folder", "advice_for_missing"]

_MODELS = (".onnx", ".onnxc", ".onnxtxt", ".textproto", ".json")
_MOST_ENTRIES = 10_000
"""Of a folder; a message must not wait for one with millions."""
_MOST_COMPARED = 500
"""Names that are compared with the one asked for: so many of 64 letters take 0.07 s."""
_MOST_NAMES = 4
"""In a message."""


def advice_for_missing(path: str) -> str:
    """What to say behind "there is no file": names like the one that was asked for, or models beside it."""
    folder, name = os.path.split(path)
    there = _entries(folder)
    if there is None:
        return f'; there is no folder "{folder}"' if folder else ""
    stems: dict[str, list[str]] = {}
    for entry in there[:_MOST_COMPARED]:
        stems.setdefault(_stem(entry), []).append(entry)
    get_close_matches: Callable[..., list[str]] = importlib.import_module("difflib").get_close_matches
    near = [entry for stem in get_close_matches(_stem(name), stems, _MOST_NAMES) for entry in stems[stem]]
    return f"; near it {_are(near)}" if near else _models_of(there, "beside it")


def _stem(name: str) -> str:
    """Without the extension, which most files of a folder share."""
    return os.path.splitext(name)[0].lower()


def advice_for_folder(path: str) -> str:
    """What to say behind "is a folder": the models in it."""
    return _models_of(_entries(path) or [], "in it")


def _entries(folder: str) -> list[str] | None:
    """Names of entries that others would see, in order; None where it cannot be read."""
    try:
        with os.scandir(folder or ".") as entries:
            return sorted(entry.name for entry in islice(entries, _MOST_ENTRIES) if not entry.name.startswith("."))
    except OSError:
        return None


def _models_of(names: Sequence[str], where: str) -> str:
    models = [name for name in names if name.lower().endswith(_MODELS)]
    return f"; {where} {_are(models)}" if models else ""


def _are(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    listed = ", ".join(f'"{name}"' for name in names[:_MOST_NAMES])
    return f"{'is' if len(names) == 1 else 'are'} {listed}{more}"
