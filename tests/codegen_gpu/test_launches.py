"""How many launches a call of each family of models takes."""

from collections import Counter
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper

from onnxc.compiler.driver import run_stages
from onnxc.compiler.options import make_options
from onnxc.compiler.planning.kernel_plan import Kernel, KernelPlan, Segment
from tests.models.builders import LAYERS, Built, decoder, encoder, llama, unet, vision, windows
from tests.models.writer import Style
from tests.support.fake_gpu import compile_for_fake
from tests.support.models import model_from_text

Build = Callable[[Style], Built]

OF_A_LAYER = {
    "encoder": (encoder, 7, 4),
    "vision": (vision, 7, 4),
    "decoder": (decoder, 8, 3),
    "llama": (llama, 8, 3),
}
"""Launches of a layer, and of all that is beside layers: embeddings, masks, what is behind the last layer.

Of a layer: attention, four products (a gate is made with what it weighs), two normalisations, and one for a cache."""


@cache
def _kernels(build: Build) -> tuple[Kernel, ...]:
    return _kernels_of(build("dynamo").model)


def _kernels_of(model: ModelProto, precision: str = "bf16") -> tuple[Kernel, ...]:
    """The kernels of the launches of a call, in order."""
    options = make_options(target="cuda:sm_90", precision=precision)
    plan = next(noun for _, noun in run_stages(model, options) if isinstance(noun, KernelPlan))
    segments = [step for step in plan.body.steps if isinstance(step, Segment)]
    return tuple(plan.kernels[launch.general.kernel] for segment in segments for launch in segment.launches)


@pytest.mark.parametrize("name", OF_A_LAYER)
def test_launches_of_a_layer(name: str) -> None:
    build, of_a_layer, beside = OF_A_LAYER[name]
    assert len(_kernels(build)) == LAYERS * of_a_layer + beside


@pytest.mark.parametrize("build", [encoder, vision, decoder, llama, windows], ids=lambda build: build.__name__)
def test_no_launch_only_turns_axes(build: Build) -> None:
    moves = {"transpose", "reshape", "slice"}
    only_moving = [kernel for kernel in _kernels(build) if {op.name for op in kernel.block.ops} <= moves]
    assert only_moving == []


def test_launches_of_shifted_windows() -> None:
    kinds = [kernel.kind for kernel in _kernels(windows)]
    assert kinds == ["pointwise", "contraction", "attention", "pointwise"]


def test_launches_of_an_image() -> None:
    kinds = Counter(kernel.kind for kernel in _kernels(unet))
    # One cast of the input; for both axes of the one resize one for places and weights, and one for elements.
    assert kinds == {"convolution": 7, "window": 2, "concatenate": 2, "pointwise": 5}


JOINED = """
<ir_version: 10, opset_import: ["" : 21]>
joined (float[n, 64] x, float[n, 351] y) => (float[n, 32] z) {
  rows = Concat <axis = 1> (x, y)
  z = MatMul (rows, w)
}
"""


@pytest.mark.parametrize(("precision", "depth"), [("bf16", 416), ("fp16", 416), ("fp32", 415)])
def test_joined_rows_are_filled_up_by_the_kernel_that_joins_them(precision: str, depth: int) -> None:
    model = model_from_text(JOINED)
    w = np.random.default_rng(0).standard_normal((415, 32)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    _, product = _kernels_of(model, precision)
    assert product.kind == "contraction"
    assert [product.block.parameters[0].shape[1], product.block.parameters[1].shape] == [depth, (depth, 32)]
    run, random = compile_for_fake(model, precision=precision), np.random.default_rng(1)
    inputs = {name: random.standard_normal((3, size)).astype(np.float32) for name, size in (("x", 64), ("y", 351))}
    inputs["x"][1, 0] = np.inf
    actual, expected = run.executable.run(inputs)["z"], np.hstack([inputs["x"], inputs["y"]]) @ w
    run.driver.check()
    np.testing.assert_allclose(actual, expected, atol=0.5 if depth == 416 else 1e-4, rtol=1e-2)


NORMALISED = """
<ir_version: 10, opset_import: ["" : 21]>
normalised (float[n, 16, h, w] x, float[16, 16, 3, 3] k, float[16, 1, 1] s, float[16, 1, 1] b, float[16] t)
    => (float[n, 16, h, w] y)
    <float[4] one = {1, 1, 1, 1}, float[4] zero = {0, 0, 0, 0}, int64[3] rows = {0, 4, -1}>
{
  first = Conv <pads = [1, 1, 1, 1]> (x, k)
  shape = Shape (first)
  grouped = Reshape (first, rows)
  normal = InstanceNormalization (grouped, one, zero)
  image = Reshape (normal, shape)
  scaled = Mul (image, s)
  shifted = Add (scaled, b)
  gate = Sigmoid (shifted)
  active = Mul (shifted, gate)
  second = Conv <pads = [1, 1, 1, 1]> (active, k)
  by_group = GroupNormalization <num_groups = 2> (second, t, t)
  sum = Add (by_group, first)
  third = Conv <pads = [1, 1, 1, 1]> (sum, k)
  by_channel = InstanceNormalization (third, t, t)
  positive = Relu (by_channel)
  y = Conv <pads = [1, 1, 1, 1]> (positive, k)
}
"""


@pytest.mark.parametrize(("precision", "beside"), [("fp32", []), ("bf16", ["pointwise"])])
def test_normalised_groups_are_one_launch_between_convolutions(precision: str, beside: list[str]) -> None:
    model = model_from_text(NORMALISED)
    for name, shape in (("k", (16, 16, 3, 3)), ("s", (16, 1, 1)), ("b", (16, 1, 1)), ("t", (16,))):
        model.graph.initializer.append(numpy_helper.from_array(np.ones(shape, np.float32), name))
    kinds = [kernel.kind for kernel in _kernels_of(model, precision)]
    assert kinds == [
        *beside,
        "convolution",
        "reduction",
        "convolution",
        "reduction",
        "convolution",
        "reduction",
        "convolution",
    ]


def test_launches_of_regions() -> None:
    model = model_from_text("""
    <ir_version: 10, opset_import: ["" : 21]>
    regions (float[1, 256, h, w] x, float[r, 4] b, int64[r] i) => (float[r, 256, 7, 7] y) {
      y = RoiAlign <output_height = 7, output_width = 7, sampling_ratio = 2, spatial_scale = 0.25> (x, b, i)
    }
    """)
    kinds = Counter(kernel.kind for kernel in _kernels_of(model))
    # Of all that is computed for the samples of both axes in one shape, one.
    assert kinds == {"pointwise": 13, "reduction": 1}
