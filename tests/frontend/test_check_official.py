"""Every model of the official backend tests is accepted, without a finding."""

from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from onnx.backend.test.loader import load_model_tests

from onnxc.compiler.frontend.check import check_model, collect_findings
from onnxc.compiler.frontend.read import read_model

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def _sources(kind: str) -> Iterator[tuple[str, bytes | Path]]:
    for case in load_model_tests(kind=kind):
        if case.model is not None:
            yield case.name, case.model.SerializeToString()
        elif case.model_dir is not None:
            yield case.name, Path(case.model_dir) / "model.onnx"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "count"), [("node", 1884), ("simple", 23), ("pytorch-converted", 82), ("pytorch-operator", 35)]
)
def test_official_models_are_accepted(kind: str, count: int) -> None:
    sources = list(_sources(kind))
    assert len(sources) == count
    refused = {name: findings for name, source in sources if (findings := collect_findings(read_model(source)))}
    assert not refused
    for name, source in sources:
        model = check_model(read_model(source))
        assert model.graph.outputs, name
        assert not model.warnings, name


@pytest.mark.parametrize("path", sorted(LIGHT.glob("light_*.onnx")), ids=lambda path: path.stem)
def test_light_models_are_accepted(path: Path) -> None:
    model = check_model(read_model(path))
    assert not model.warnings
    assert len(model.graph.nodes) == len(onnx.load(path).graph.node)
