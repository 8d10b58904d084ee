"""Limits: what may be asked for, and that every stage keeps to them."""

from collections.abc import Mapping
from dataclasses import fields

import numpy as np
import pytest

import onnxc
from onnxc.compiler.limits import DEFAULT_LIMITS, Limits, limited_to, limits_in_force, make_limits
from onnxc.compiler.passes.notes import collect_notes
from onnxc.compiler.passes.simplify.fold_constants import fold_constants
from onnxc.runtime.errors import InputError, ModelError
from tests.frontend.model_texts import IF, model
from tests.passes.golden import built, text_of
from tests.support.models import model_from_text


def test_the_defaults_hold_where_nothing_is_said() -> None:
    assert make_limits(None) is DEFAULT_LIMITS
    assert make_limits({}) == DEFAULT_LIMITS == make_limits(Limits())


def test_what_is_named_is_changed() -> None:
    assert make_limits({"functions": 3}) == Limits(functions=3)
    assert make_limits(Limits(functions=3)) == Limits(functions=3)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"speed": 1}, "unknown-limit"),
        ({"functions": 0}, "limit-range"),
        ({"functions": -1}, "limit-range"),
        ({"nesting_depth": 101}, "limit-range"),
        ({"tensor_rank": 65}, "limit-range"),
        ({"functions": 1.5}, "option-type"),
        ({"functions": True}, "option-type"),
        ({"functions": None}, "option-type"),
        ([("functions", 1)], "option-type"),
        (Limits(type_depth=1000), "limit-range"),
    ],
)
def test_what_cannot_be_is_refused(given: Mapping[str, int], code: str) -> None:
    with pytest.raises(InputError) as caught:
        make_limits(given)
    assert caught.value.code == code


@pytest.mark.parametrize("field", [field.name for field in fields(Limits)])
def test_every_limit_is_explained(field: str) -> None:
    assert f"    {field}: " in (Limits.__doc__ or "")


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_compiling_keeps_to_limits(target: str) -> None:
    assert onnxc.compile(model(IF), target, limits={"nesting_depth": 2}).outputs
    with pytest.raises(ModelError) as caught:
        onnxc.compile(model(IF), target, limits={"nesting_depth": 1})
    assert caught.value.code == "nesting-too-deep"


def test_checking_keeps_to_limits() -> None:
    assert onnxc.check(model(IF)) == ()
    assert {finding.code for finding in onnxc.check(model(IF), {"nesting_depth": 1})} == {"nesting-too-deep"}


def test_so_many_findings_of_a_kind_are_told_apart() -> None:
    nodes = "".join(f"a{i} = Rleu(x) " for i in range(9))
    broken = model(f"g (float[N] x) => (float[N] x) {{ {nodes} }}")
    found = onnxc.check(broken, {"findings_per_code": 2})
    assert [finding.code for finding in found] == ["unknown-operator"] * 3
    assert found[-1].message == "7 more findings of this kind are not listed"


@pytest.mark.parametrize(
    ("limits", "name"), [(Limits(folding_work=1999), "folding_work"), (Limits(folding_bytes=7999), "folding_bytes")]
)
def test_folding_stops_at_its_limits_and_says_so(limits: Limits, name: str) -> None:
    module = built((), lambda build: build.exp(build.constant(np.ones(2000, np.float32))))
    with limited_to(limits), collect_notes() as notes:
        assert limits_in_force() is limits
        stopped = fold_constants(module)
    assert text_of(stopped) == text_of(module) != text_of(fold_constants(module))
    assert [note.subject for note in notes] == ["folding-limit"]
    assert name in str(next(iter(notes)))
    assert limits_in_force() is DEFAULT_LIMITS


ROUNDS = """<ir_version: 8, opset_import: ["": 17]> m (int64 n, bool go, int64 x) => (int64 y) {
  y = Loop (n, go, x) <body = b (int64 i, bool c, int64 v) => (bool d, int64 w) { d = Identity (c) w = Add (v, v) }>
}"""


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_a_loop_runs_as_many_rounds_as_its_limit_and_no_more(target: str) -> None:
    exe = onnxc.compile(model_from_text(ROUNDS), target, limits={"loop_rounds": 7})
    one, yes = np.array(1), np.array(True)
    for rounds in (-1, 0, 1, 7):
        assert exe(np.array(rounds), yes, one) == 2 ** max(rounds, 0)
    for rounds in (8, 2**63 - 1):
        with pytest.raises(InputError, match=r"the loop goes on after 7 rounds.*loop_rounds(.|\n)*node 0"):
            exe(np.array(rounds), yes, one)
    assert exe(np.array(9), np.array(False), one) == 1


def test_a_loop_that_never_starts_has_no_rounds_to_bound() -> None:
    never = ROUNDS.replace("bool go, ", "").replace("{\n", "{ go = Constant <value = bool {0}> ()\n", 1)
    exe = onnxc.compile(model_from_text(never), limits={"loop_rounds": 7})
    assert exe(np.array(9), np.array(5)) == 5
