"""Versions of operators between which nodes may move."""

from itertools import pairwise

import pytest

from onnxc.compiler.frontend.operators import registered_lowering
from onnxc.compiler.frontend.same_operator import keeps_meaning
from onnxc.compiler.frontend.schemas import all_schemas, schema, versions

PAIRS = [
    (domain, name, older, newer)
    for domain, name in sorted({(known.domain, known.name) for known in all_schemas()})
    for older, newer in pairwise(versions(domain, name))
]


def moves(name: str, older: int, newer: int, domain: str = "") -> bool:
    before, after = schema(domain, name, older), schema(domain, name, newer)
    assert before is not None
    assert after is not None
    return keeps_meaning(before, after)


@pytest.mark.parametrize(
    ("name", "older", "newer"),
    [
        ("Relu", 6, 28),  # wider types
        ("Cast", 9, 28),  # attributes with defaults
        ("MaxPool", 1, 22),  # a further output
        ("Pad", 11, 28),  # a further input
        ("Softmax", 1, 11),
        ("Softmax", 13, 28),
        ("Identity", 14, 28),
        ("Identity", 21, 21),
    ],
)
def test_where_an_operator_only_takes_more_nodes_may_move(name: str, older: int, newer: int) -> None:
    assert moves(name, older, newer)


@pytest.mark.parametrize(
    ("name", "older", "newer"),
    [
        ("Softmax", 11, 13),  # another default
        ("Add", 6, 7),  # attributes that went
        ("Squeeze", 11, 13),  # an attribute that became an input
        ("Dropout", 10, 12),
        ("Scatter", 9, 11),  # deprecated
        ("Identity", 28, 14),  # back
        ("Resize", 10, 11),
        *((name, since - 1, since) for name, since in (("PRelu", 7), ("OneHot", 11), ("RoiAlign", 16), ("Split", 18))),
        ("GroupNormalization", 18, 21),
        ("Range", 26, 27),
        ("Split", 13, 28),  # a change on the way
    ],
)
def test_where_it_computes_something_else_they_may_not(name: str, older: int, newer: int) -> None:
    assert not moves(name, older, newer)


def test_versions_between_which_nodes_may_move_have_one_lowering() -> None:
    moved = [pair for pair in PAIRS if moves(pair[1], pair[2], pair[3], pair[0])]
    assert len(moved) > 300
    other = [
        (domain, name, older, newer)
        for domain, name, older, newer in moved
        if registered_lowering((domain, name, older)) is not registered_lowering((domain, name, newer))
    ]
    assert not other
