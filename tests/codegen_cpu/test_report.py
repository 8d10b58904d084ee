"""The report of code for a CPU: JSON that adds up, the algorithm of each launch, and why it is a general one."""

import json
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import onnxc
from onnxc.command_line.report import report_parts
from onnxc.runtime.program import JsonValue
from tests.support.models import model_from_text

CHAIN = """<ir_version: 10, opset_import: ["" : 21]>
main (float[N, 64] x, float[64, 32] w) => (float[32, N] y, float[N, 1] top, int64[k, 2] places) {
    product = MatMul(x, w)
    active = Relu(product)
    y = Transpose<perm = [1, 0]>(active)
    axes = Constant<value_ints = [1]>()
    top = ReduceMax(active, axes)
    found = NonZero(active)
    places = Transpose<perm = [1, 0]>(found)
}"""

PRODUCT_OF_INTEGERS = """<ir_version: 10, opset_import: ["" : 21]>
main (int16[4, 8] a, int16[8, 4] b) => (int16[4, 4] y) { y = Einsum<equation = "mk,kn->mn">(a, b) }"""


def report_of(text: str) -> dict[str, JsonValue]:
    report = onnxc.compile(model_from_text(text)).report()
    assert isinstance(report, dict)
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    return report


def launches_of(report: dict[str, JsonValue]) -> list[dict[str, JsonValue]]:
    launches = report["launches"]
    assert isinstance(launches, list)
    return [launch for launch in launches if isinstance(launch, dict)]


def test_totals_are_those_of_the_launches() -> None:
    report = report_of(CHAIN)
    totals, launches = report["totals"], launches_of(report)
    assert isinstance(totals, dict)
    assert totals["launches"] == len(launches) > 2
    assert [step["op"] for step in report["host_steps"]] == ["non_zero"] * totals["host_steps"]
    for total, part in (("bytes", "typical_bytes"), ("flops", "typical_flops"), ("seconds", "seconds")):
        assert np.isclose(totals[total], sum(launch[part] for launch in launches), rtol=0.01)
    assert report["typical_sizes"] == {"N": 32, "nonzero": 32}


def test_a_product_has_its_algorithm_operations_and_bytes() -> None:
    product = next(launch for launch in launches_of(report_of(CHAIN)) if launch["kind"] == "contraction")
    assert product["algorithm"] == "panels"
    assert product["ops"] == "dot, broadcast, max"
    assert product["flops"] == {"size": "4128*N", "typical": 4128 * 32}
    assert product["read_bytes"] == {"size": "256*N + 8192", "typical": 256 * 32 + 8192}
    assert product["written_bytes"] == {"size": "128*N", "typical": 128 * 32}


def test_a_general_kernel_says_why() -> None:
    (product,) = launches_of(report_of(PRODUCT_OF_INTEGERS))
    assert product["algorithm"] == "general"
    steps = product["steps"]
    assert isinstance(steps, list)
    assert isinstance(steps[0], dict)
    assert "panels" in str(steps[0]["why"])


@pytest.mark.parametrize(
    ("operands", "operations"), [("float", None), ("double", 0.5), ("uint8", 4.0)], ids=["f32", "f64", "u8"]
)
def test_a_product_says_how_many_operations_an_instruction_makes(operands: str, operations: float | None) -> None:
    operator = "MatMulInteger" if operands == "uint8" else "MatMul"
    text = f'<ir_version: 10, opset_import: ["" : 21]> main ({operands}[N, 64] x, {operands}[64, 32] w) => (y) {{'
    launches = launches_of(report_of(f"{text} y = {operator}(x, w) }}"))
    (product,) = [launch for launch in launches if launch["kind"] == "contraction"]
    steps = product["steps"]
    assert isinstance(steps, list)
    assert [step.get("operations_of_a_lane") for step in steps if isinstance(step, dict)] == [operations] * len(steps)


def test_people_read_it_as_tables() -> None:
    console = Console(file=StringIO(), width=200, markup=False)
    for part in report_parts(report_of(CHAIN)):
        console.print(part)
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    assert all(word in text for word in ("algorithm", "contraction", "panels", "squares", "at N = 32"))
