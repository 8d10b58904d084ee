"""The rules of the ONNX IR once more, one model for each way to break one, with the whole text that people see."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from onnxc.compiler.frontend.check import check_model, collect_findings
from onnxc.compiler.frontend.read import read_model
from onnxc.runtime.errors import ModelError
from tests.frontend.invalid import devices, training
from tests.frontend.invalid.case import Case
from tests.frontend.invalid.tables import ALL, FAMILIES
from tests.frontend.model_texts import ADD, Edit, errors, model
from tests.support.messages import read_messages, write_messages

MESSAGES = Path(__file__).parent / "invalid" / "messages.txt"
COMMAND = "python -m tests.frontend.test_invalid_models"


@pytest.mark.parametrize("case", ALL.values(), ids=ALL)
def test_a_model_that_breaks_a_rule_is_refused_for_that(case: Case) -> None:
    with pytest.raises(ModelError) as caught:
        check_model(read_model(case.build()), limits=case.limits)
    assert {finding.code for finding in caught.value.diagnostics} == {case.code}  # type: ignore[attr-defined]
    assert all(finding.severity == "error" for finding in caught.value.diagnostics)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ALL)
def test_the_message_is_as_recorded(name: str) -> None:
    assert message(ALL[name]) == read_messages(MESSAGES).get(name), f"look at the change, then run `{COMMAND}`"


def test_nothing_is_recorded_that_is_not_tested() -> None:
    assert list(read_messages(MESSAGES)) == list(ALL)


@pytest.mark.parametrize("name", FAMILIES["limits"])
def test_what_a_limit_refuses_is_legal_without(name: str) -> None:
    assert errors(FAMILIES["limits"][name].build()) == set()


@pytest.mark.parametrize("edit", training.LEGAL.values(), ids=training.LEGAL)
def test_legal_training_information_is_accepted(edit: Edit) -> None:
    assert errors(model(ADD, edit)) == set()


@pytest.mark.parametrize("edit", devices.LEGAL.values(), ids=devices.LEGAL)
def test_legal_shardings_are_accepted_without_a_finding(edit: Edit) -> None:
    assert collect_findings(read_model(model(devices.MATRIX, edit, devices.NEWER))) == ()


def test_axes_in_another_order_are_merely_odd() -> None:
    edit = devices.sharded((1, [(None, 2)]), (0, [(None, 2)]), device=(0, 1, 2, 3))
    (finding,) = collect_findings(read_model(model(devices.MATRIX, edit, devices.NEWER)))
    assert (finding.severity, finding.code) == ("warning", "sharding-order")


def test_all_shards_of_all_findings_are_told_at_once() -> None:
    edit = devices.sharded((5, [(None, 0)]), device=(9,), tensor="q", configuration="pp", stage=-1)
    found = Counter(
        finding.code for finding in collect_findings(read_model(model(devices.MATRIX, edit, devices.NEWER)))
    )
    assert found == Counter(["unknown-device-configuration", "pipeline-stage", "sharding-tensor", "sharding-shards"])


def message(case: Case) -> str:
    """What people see."""
    try:
        check_model(read_model(case.build()), limits=case.limits)
    except ModelError as refused:
        return str(refused)
    return ""


if __name__ == "__main__":
    write_messages(MESSAGES, {name: message(case) for name, case in ALL.items()})
    sys.stdout.write(f"{len(ALL)} messages, {len({case.code for case in ALL.values()})} codes\n")
