"""What the pipeline makes of graphs as both torch exporters write them: composites found, and the same meaning."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest

from benchmarks.inputs import make_inputs
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Module, walk
from onnxc.compiler.ir.printer import print_module
from onnxc.compiler.passes.pipeline import run_pipeline, verify_step
from onnxc.compiler.passes.pipelines import OPTIMIZE
from tests.models.builders import BUILDERS
from tests.models.writer import STYLES, Style
from tests.support.arrays import assert_near

COMPOSITES = ("attention", "softmax", "layer_norm", "rms_norm", "gelu", "rotary")

FOUND: Mapping[str, Mapping[str, int]] = {
    "mlp": {},
    "resnet": {},
    "mobile": {},
    "unet": {},
    "convnext": {"layer_norm": 2, "gelu": 2},
    "encoder": {"attention": 2, "layer_norm": 5, "gelu": 2},
    "vision": {"attention": 2, "layer_norm": 5, "gelu": 2},
    "windows": {"attention": 1},
    "decoder": {"attention": 2, "layer_norm": 5, "gelu": 2},
    "llama": {"attention": 2, "rms_norm": 5, "rotary": 4},
}

CASES = [pytest.param(name, style, id=f"{name}-{style}") for name in FOUND for style in STYLES]


def lowered(name: str, style: Style) -> Module:
    loaded = read_model(BUILDERS[name](style).model)
    return lower_model(check_model(loaded.proto, loaded.folder))


@pytest.mark.parametrize(("name", "style"), CASES)
def test_every_composite_is_found(name: str, style: Style) -> None:
    after = run_pipeline(lowered(name, style), OPTIMIZE, [verify_step])
    counts = Counter(op.name for op in walk(after.main.body))
    assert {composite: counts[composite] for composite in COMPOSITES if counts[composite]} == FOUND[name]
    assert not counts["erf"]
    assert not counts["guard"] or name not in ("convnext", "vision", "windows")


@pytest.mark.parametrize(("name", "style"), CASES)
def test_the_optimised_graph_means_the_same(name: str, style: Style) -> None:
    built, before = BUILDERS[name](style), lowered(name, style)
    after = run_pipeline(before, OPTIMIZE)
    inputs = make_inputs(built.inputs, built.sizes["prime"])
    for actual, expected in zip(interpret(after, inputs), interpret(before, inputs), strict=True):
        assert_near(np.asarray(actual), np.asarray(expected), bound=1e-5)


@pytest.mark.parametrize("name", ["encoder", "llama"])
def test_both_exporters_lead_to_the_same_ops(name: str) -> None:
    first, second = (run_pipeline(lowered(name, style), OPTIMIZE) for style in STYLES)
    counts = [Counter(op.name for op in walk(module.main.body)) for module in (first, second)]
    assert counts[0] == counts[1]


def test_the_same_model_gives_the_same_text() -> None:
    first, second = (print_module(run_pipeline(lowered("decoder", "legacy"), OPTIMIZE)) for _ in range(2))
    assert first == second
