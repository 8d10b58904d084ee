"""Every rule of `canonicalize` fires where it should and refuses where it must."""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence

import pytest

import tests.passes.pairs as pairs
from onnxc.compiler.ir.rewriter import Rule, rewrite
from onnxc.compiler.passes.simplify.rules import RULES
from tests.passes.golden import Pair, check_pair

TABLES = [importlib.import_module(f"{pairs.__name__}.{module.name}") for module in pkgutil.iter_modules(pairs.__path__)]
FIRES: Mapping[Rule, Sequence[Pair]] = {rule: listed for table in TABLES for rule, listed in table.FIRES.items()}
REFUSES: Mapping[Rule, Sequence[Pair]] = {rule: listed for table in TABLES for rule, listed in table.REFUSES.items()}


def _cases(table: Mapping[Rule, Sequence[Pair]]) -> list[object]:
    return [
        pytest.param(rule, pair, id=f"{rule.name}-{place}")
        for rule, listed in table.items()
        for place, pair in enumerate(listed)
    ]


@pytest.mark.parametrize(("rule", "pair"), _cases(FIRES))
def test_rule_fires(rule: Rule, pair: Pair) -> None:
    assert pair.after is not None
    check_pair(lambda module: rewrite(module, [rule]), pair)


@pytest.mark.parametrize(("rule", "pair"), _cases(REFUSES))
def test_rule_refuses(rule: Rule, pair: Pair) -> None:
    assert pair.after is None
    check_pair(lambda module: rewrite(module, [rule]), pair)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule_has_pairs_and_an_equation(rule: Rule) -> None:
    assert FIRES.get(rule)
    assert REFUSES.get(rule)
    assert rule.apply.__doc__


def test_names_of_rules_are_unique() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
