"""docs/coverage.md is current, and tells of every operator version and type."""

from onnxc.compiler.frontend.schemas import all_schemas
from tests.support.coverage import PAGE, coverage_page, type_support


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == coverage_page(), "run python -m tests.support.coverage"


def test_every_operator_version_and_type_is_in_the_data() -> None:
    support = type_support()
    known = {schema.identity: schema for schema in all_schemas()}
    assert not set(support) - set(known)
    assert len(support) >= 0.99 * len(known)
    for name, ways in support.items():
        constraints = [*known[name].type_constraints.values()]
        allowed = {kind.removeprefix("tensor(").rstrip(")") for kind in (constraints[0] if constraints else ("",))}
        assert {kind.rstrip(")") for types in ways.values() for kind in types} == allowed, name
        assert set(ways) <= {"native", "native and host", "host", "known"} or known[name].deprecated, name
