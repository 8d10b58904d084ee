"""The report of code for a GPU: JSON that adds up, and what it says of transformers and of steps on the host."""

import json
from collections.abc import Mapping
from functools import cache
from io import StringIO

import pytest
from rich.console import Console

from onnxc.command_line.report import report_parts
from onnxc.compiler.planning.typical_sizes import TYPICAL_SIZE
from tests.codegen_gpu.test_transfers import LOOP, MIDDLE
from tests.models.builders import LAYERS, decoder, encoder, resnet
from tests.support.fake_gpu import compile_for_fake
from tests.support.models import model_from_text

MODELS = {
    "encoder": lambda: encoder("dynamo").model,
    "decoder": lambda: decoder("dynamo").model,
    "resnet": lambda: resnet("dynamo").model,
    "middle": lambda: model_from_text(MIDDLE),
    "loop": lambda: model_from_text(LOOP),
}


@cache
def report_of(name: str) -> Mapping[str, object]:
    report = compile_for_fake(MODELS[name]().SerializeToString()).executable.report()
    assert isinstance(report, dict)
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    return report


def text_of(name: str) -> str:
    console = Console(file=StringIO(), width=200, markup=False)
    for part in report_parts(report_of(name)):
        console.print(part)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("name", MODELS)
def test_totals_are_those_of_the_launches(name: str) -> None:
    report = report_of(name)
    totals, launches = report["totals"], report["launches"]
    assert isinstance(totals, dict)
    assert isinstance(launches, list)
    assert totals["launches"] == sum(launch["launches"] for launch in launches)
    assert totals["bytes"] == sum(launch["typical_bytes"] for launch in launches)
    assert totals["flops"] == sum(launch["typical_flops"] for launch in launches)
    assert totals["seconds"] == pytest.approx(sum(launch["seconds"] for launch in launches), rel=0.01)
    kernels = report["kernels"]
    assert isinstance(kernels, list)
    assert {step["kernel"] for launch in launches for step in launch["steps"]} == {kernel["key"] for kernel in kernels}


def test_bert_has_no_transfer_and_few_launches() -> None:
    report = report_of("encoder")
    totals = report["totals"]
    assert isinstance(totals, dict)
    assert report["transfers"] == []
    assert report["host_steps"] == []
    # bert_base has 12 layers and may make 160 launches.
    assert totals["launches"] <= 4 + 13 * LAYERS
    assert report["typical_sizes"] == {"batch": TYPICAL_SIZE, "sequence": TYPICAL_SIZE}
    assert "no transfer between host and device inside of a call" in text_of("encoder")


def test_the_tile_of_a_product_comes_with_a_reason() -> None:
    launches = report_of("encoder")["launches"]
    assert isinstance(launches, list)
    products = [launch for launch in launches if launch["kind"] == "contraction"]
    assert products
    assert all("the next is" in step["why"] for launch in products for step in launch["steps"][:1])
    assert "by the cost model" in text_of("encoder")


def test_convolutions_tell_their_tiles() -> None:
    launches = report_of("resnet")["launches"]
    assert isinstance(launches, list)
    convolutions = [launch for launch in launches if launch["kind"] == "convolution"]
    assert any("by the cost model" in launch["steps"][0].get("why", "") for launch in convolutions)


def test_a_step_on_the_host_is_listed_with_its_transfers() -> None:
    report = report_of("middle")
    steps, transfers = report["host_steps"], report["transfers"]
    assert isinstance(steps, list)
    assert isinstance(transfers, list)
    assert "strings_from_numbers" in [step["op"] for step in steps]
    assert transfers[0]["bytes"] == {"size": "4*N", "typical": 4 * TYPICAL_SIZE}
    assert "strings_from_numbers has values that are no arrays" in text_of("middle")


def test_launches_of_a_loop_are_marked() -> None:
    launches = report_of("loop")["launches"]
    assert isinstance(launches, list)
    assert [(launch["ops"], launch["in_loop"]) for launch in launches] == [
        # What bounds the rounds is found once.
        ("min", False),
        ("exp", True),
        ("reduce, less", True),
    ]
    assert "each iteration" in text_of("loop")


def test_a_report_of_another_form_is_printed_as_it_is() -> None:
    assert list(report_parts("plan")) == ["plan"]
    assert list(report_parts({"a": [1, 2]})) == ["a\n  1\n  2"]
