"""The registries are whole: every primitive answers every table, every operator version lowers or says why not."""

import pytest

import onnxc.compiler.ir  # noqa: F401  (fills the registry)
from onnxc.compiler.frontend.operator import OPERATORS
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.runtime.host import MEANINGS
from tests import operators_not_yet
from tests.ir.cases import CASES, STRUCTURAL, structural_ops

DECLARE_THEIR_TYPES = {"if", "while", "call", "host"}
KEYWORDS = ("and", "or", "not", "if", "while")
BUILT_BY_ANOTHER_NAME = {
    **{name: f"{name}_" for name in KEYWORDS},
    "bind_sizes": "read_sizes",
    "arg_reduce_window": "reduce_window",
}
MADE_BY_PASSES = {"call", "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute"}


# Primitives


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_primitive_has_a_type_rule_or_declares_its_types(name: str) -> None:
    assert (PRIMITIVES[name].type_rule is None) == (name in DECLARE_THEIR_TYPES)


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_primitive_has_an_axes_rule_and_a_case_that_proves_it(name: str) -> None:
    op = CASES[name][0].op() if name in CASES else structural_ops()[name]
    for link in PRIMITIVES[name].axes_rule(op):
        assert (len(link.operands), len(link.results)) == (len(op.operands), len(op.results))


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_primitive_has_a_meaning_or_is_run_by_the_interpreter(name: str) -> None:
    primitive = PRIMITIVES[name]
    assert (name in MEANINGS) != (primitive.structural or primitive.kind == "host")


@pytest.mark.parametrize("name", PRIMITIVES)
def test_composites_and_they_alone_have_a_decomposition(name: str) -> None:
    assert (PRIMITIVES[name].decompose is not None) == (PRIMITIVES[name].kind == "composite")


def test_every_meaning_is_of_a_primitive() -> None:
    assert MEANINGS.keys() - PRIMITIVES.keys() == set()


def test_every_case_is_of_a_primitive() -> None:
    assert CASES.keys() - PRIMITIVES.keys() == set()
    assert {*CASES, *structural_ops()} == {*PRIMITIVES}, STRUCTURAL


@pytest.mark.parametrize("name", [name for name in PRIMITIVES if name not in MADE_BY_PASSES])
def test_the_builder_makes_every_primitive(name: str) -> None:
    primitive = PRIMITIVES[name]
    by_name = primitive.kind == "pointwise" and name not in ("select", "cast", "bitcast")
    assert by_name or callable(getattr(Builder, BUILT_BY_ANOTHER_NAME.get(name, name)))


# Operators


def test_every_operator_version_lowers_or_is_listed() -> None:
    missing = set(operators_not_yet.known()) - operators_not_yet.lowered() - operators_not_yet.listed().keys()
    assert missing == set(), "write the lowering, or the reason into tests/operators_not_yet.txt"


def test_no_listed_operator_version_lowers() -> None:
    done = operators_not_yet.listed().keys() & operators_not_yet.lowered()
    assert done == set(), "these lower: their lines must go (python -m tests.operators_not_yet)"


def test_every_listed_version_is_one_of_the_standard() -> None:
    assert operators_not_yet.listed().keys() - set(operators_not_yet.known()) == set()


def test_every_lowering_is_of_a_version_of_the_standard() -> None:
    assert operators_not_yet.lowered() - set(operators_not_yet.known()) == set()
    assert len(operators_not_yet.known()) == 659
    assert all(callable(lowering) for lowering in OPERATORS.values())
