"""What a model says of itself: in the executable, in its artifact, and in `onnxc inspect`."""

from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner
from onnx import ModelProto

import onnxc
from onnxc.command_line.main import main
from tests.support.models import model_from_text

NAMES = "{0: 'person', 1: '[red]car'}"
TEXT = """<ir_version: 11, opset_import: ["" : 21, "own" : 1], producer_name: "exporter", producer_version: "2.1",
 domain: "org.example", model_version: 3, doc_string: "detects", metadata_props: ["stride": "32", "other": "\x1b[2J"]>
g (float[2] x) => (float[2] y) { c = Constant <value = float[2] {1, 2}> () z = own.f (x) y = Add (z, c) }
<domain: "own", opset_import: ["" : 21]> f (h) => (r) { r = Neg (h) }"""


@pytest.fixture
def model() -> ModelProto:
    made = model_from_text(TEXT)
    made.metadata_props.add(key="names", value=NAMES)
    made.configuration.add(name="pair", num_devices=2)
    return made


def inspected(path: Path) -> str:
    return " ".join(CliRunner().invoke(main, ["inspect", str(path)]).output.split())


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_an_executable_has_the_metadata_of_its_model(target: str, model: ModelProto) -> None:
    exe = onnxc.compile(model, target=target)
    assert exe.metadata == {"stride": "32", "other": "\x1b[2J", "names": NAMES}
    assert "names" not in onnxc.compile(model_from_text(TEXT), target=target).metadata


def test_the_metadata_is_saved_with_the_artifact(model: ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "m.onnxc"
    onnxc.compile(model).save(path)
    assert onnxc.load(path).metadata["names"] == NAMES
    for said in (NAMES, "producer: exporter 2.1", "documentation: detects", "functions: own.f", "devices: pair: 2"):
        assert said in inspected(path)


def test_inspect_tells_what_a_model_says_of_itself(model: ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    text = inspected(path)
    for said in (
        f"metadata names {NAMES}",
        "metadata other \\x1b[2J",
        "producer exporter 2.1",
        "model version 3",
        "documentation detects",
        "functions own.f",
        "devices pair: 2",
        "parameters 2 in 1 tensors",
    ):
        assert said in text


def test_a_caller_may_change_what_it_got(model: ModelProto) -> None:
    exe = onnxc.compile(model, target="interpreter")
    taken = exe.metadata
    assert isinstance(taken, dict)
    taken.clear()
    assert exe.metadata["stride"] == "32"
