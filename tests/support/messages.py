"""Messages that people see, recorded in a text file by name, for tests that show them in full."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path


@cache
def read_messages(path: Path) -> Mapping[str, str]:
    """The messages by name."""
    blocks = path.read_text().split("== ")[1:] if path.exists() else []
    return {name: text.rstrip("\n") for name, _, text in (block.partition("\n") for block in blocks)}


def write_messages(path: Path, messages: Mapping[str, str]) -> None:
    """Records the messages."""
    path.write_text("\n".join(f"== {name}\n{message}\n" for name, message in messages.items()))
