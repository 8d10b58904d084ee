"""How many launches a call of each family of models takes."""

from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest

from onnxc.compiler.driver import run_stages
from onnxc.compiler.options import make_options
from onnxc.compiler.planning.kernel_plan import Kernel, KernelPlan, Segment
from tests.models.builders import LAYERS, Built, decoder, encoder, llama, unet, vision, windows
from tests.models.writer import Style

Build = Callable[[Style], Built]

OF_A_LAYER = {
    "encoder": (encoder, 7, 4),
    "vision": (vision, 7, 5),
    "decoder": (decoder, 8, 5),
    "llama": (llama, 9, 6),
}
"""Launches of a layer, and of all that is beside layers: embeddings, masks, what is behind the last layer.

Of a layer: attention, four products (five with a gate), two normalisations, and one where there is a cache."""


@cache
def _kernels(build: Build) -> tuple[Kernel, ...]:
    """The kernels of the launches of a call, in order."""
    options = make_options(target="cuda:sm_90", precision="bf16")
    plan = next(noun for _, noun in run_stages(build("dynamo").model, options) if isinstance(noun, KernelPlan))
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
    # One cast of the input; for both axes of the one resize three for places and weights, and one for elements.
    assert kinds == {"convolution": 7, "window": 2, "concatenate": 2, "pointwise": 9}
