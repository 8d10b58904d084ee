"""Tables for people: arrays, models, artifacts."""

from collections.abc import Mapping

import numpy as np
from rich.table import Table

EDGE = 3


def arrays_table(arrays: Mapping[str, object]) -> Table:
    """Name, type, range and first elements of each array."""
    table = Table("output", "type", "from", "to", "elements", box=None, pad_edge=False)
    for name, value in arrays.items():
        table.add_row(name, *(array_cells(value) if isinstance(value, np.ndarray) else (type(value).__name__, "", "", "")))
    return table


def array_cells(array: np.ndarray) -> tuple[str, str, str, str]:
    kind = f"{array.dtype}{list(array.shape)}"
    first = ", ".join(number(element) for element in array.reshape(-1)[: 2 * EDGE])
    elements = first + (", ..." if array.size > 2 * EDGE else "")
    if array.size == 0 or array.dtype.kind not in "biuf":
        return kind, "", "", elements
    return kind, number(array.min()), number(array.max()), elements


def number(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, (float, np.floating)) else str(value)
