"""Indices that are data, as the model gives them."""

from compiler.ir.module import Value


def given_indices(indices: Value) -> Value:
    """The indices before negative ones were counted from the end, as a message should show them."""
    op = indices.op
    if op is None or op.name != "select":
        return indices
    _, wrapped, given = op.operands
    return given if wrapped.op is not None and wrapped.op.name == "add" and given in wrapped.op.operands else indices
