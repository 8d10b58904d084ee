"""Kernels: equal fusions are one kernel, whatever their values, names and sizes are called."""

from collections.abc import Callable

import numpy as np
import pytest

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.build_kernels import BoundProblem, build_kernel
from onnxc.compiler.planning.fuse_kernels import fuse_kernels
from onnxc.compiler.planning.fusion.fusion_rules import FusionRules, reads_any_view
from onnxc.compiler.planning.kernel_plan import KernelPlan, Segment
from onnxc.compiler.planning.layouts import Permuted
from tests.planning.plans import make, plan

N, M = Size.symbol("N"), Size.symbol("M")


def kernels(types: list[str], build: Callable[..., Value | list[Value]]) -> list[BoundProblem]:
    main = make(types, build).main.body
    return [build_kernel(group) for group in fuse_kernels(main.ops, main.results, FusionRules(reads_any_view))[0]]


def launches(made: KernelPlan) -> list[int]:
    return [launch.general.kernel for step in made.body.steps if isinstance(step, Segment) for launch in step.launches]


def test_a_size_that_data_decides_may_be_below_0_in_a_kernel_too() -> None:
    """Else what is 0 for such a size would be taken for the size itself."""
    limit = maximum(Size.symbol("?limit"), 0)
    (made,) = kernels(["f32[N, 1]"], lambda ir, x: ir.exp(ir.broadcast(x, (0, 1), (N, limit))))
    assert made.problem.block.results[0].shape == (Size.symbol("s0"), maximum(Size.symbol("?s1"), 0))


def test_layers_share_a_kernel() -> None:
    weights = [np.full((4, 4), index, np.float32) for index in range(3)]

    def build(ir: Builder, x: Value) -> Value:
        for weight in weights:
            x = ir.max(ir.dot(x, ir.constant(weight), "mk,kn->mn"), 0.0)
        return x

    made = plan(make(["f32[N, 4]"], build))
    assert launches(made) == [0, 0, 0]
    assert [weight.constant for weight in made.weights] == [0, 1, 2]


def test_symbols_are_named_by_their_place() -> None:
    made = plan(make(["f32[A, B]", "f32[B, A]"], lambda ir, x, y: [ir.exp(x), ir.exp(y)]))
    assert launches(made) == [0, 0]
    (segment,) = made.body.steps
    assert isinstance(segment, Segment)
    assert [launch.general.sizes for launch in segment.launches] == [
        (Size.symbol("A"), Size.symbol("B")),
        (Size.symbol("B"), Size.symbol("A")),
    ]


@pytest.mark.parametrize(
    "types",
    [["f32[N, N]", "f32[N, M]"], ["f32[N, 4]", "f32[N, M]"], ["f32[N]", "f64[N]"], ["f32[N]", "f32[N, 1]"]],
)
def test_different_sizes_and_types_are_different_kernels(types: list[str]) -> None:
    assert launches(plan(make(types, lambda ir, x, y: [ir.exp(x), ir.exp(y)]))) == [0, 1]


def test_attributes_count() -> None:
    made = plan(make(["f32[N, N]"], lambda ir, x: [ir.softmax(x, 0), ir.softmax(x, 1), ir.softmax(x, 0)]))
    assert launches(made) == [0, 1, 0]


def test_one_input_read_twice_is_one_parameter() -> None:
    (kernel,) = kernels(["f32[N]"], lambda ir, x: ir.mul(ir.add(x, x), x))
    assert [value.producer.name for value in kernel.inputs] == ["x0"]
    assert len(kernel.problem.block.parameters) == 1


def test_a_number_is_part_of_the_kernel_and_an_array_is_read() -> None:
    def build(ir: Builder, x: Value) -> Value:
        return ir.add(ir.mul(x, 3.0), ir.constant(np.ones(4, np.float32)))

    (kernel,) = kernels(["f32[N, 4]"], build)
    assert [value.shape for value in kernel.inputs] == [(N, 4), (4,)]
    assert [op.array().item() for op in kernel.problem.block.ops if op.name == "constant"] == [3.0]


def test_sizes_in_attributes_are_arguments() -> None:
    (kernel,) = kernels(["f32[N]", "bool[M]"], lambda ir, x, m: ir.pad(x, (M,), (0,), 1.0))
    assert kernel.symbols == {"s0": "N", "s1": "M"}
    assert [parameter.type for parameter in kernel.problem.block.parameters] == [TensorType(F32, (Size.symbol("s0"),))]


def test_a_kernel_writes_all_results_of_its_anchor() -> None:
    (kernel,) = kernels(["f32[N, 4]"], lambda ir, x: list(ir.top_k(x, 2, 1)))
    assert [value.shape for value in kernel.outputs] == [(N, 2), (N, 2)]
    assert kernel.problem.block.results == kernel.problem.block.ops[-1].results


def test_a_constant_in_two_layouts_is_two_weights() -> None:
    table = np.ones((4, 4), np.float32)

    def build(ir: Builder, x: Value, y: Value) -> list[Value]:
        constant = ir.constant(table)
        return [ir.dot(x, constant, "mk,kn->mn"), ir.softmax(ir.add(y, constant), 0)]

    made = plan(make(["f32[N, 4]", "f32[4, 4]"], build))
    assert {(weight.constant, weight.layout) for weight in made.weights} == {(0, None), (0, Permuted((1, 0), (4, 4)))}


def test_a_kernel_comes_from_the_node_that_may_fail() -> None:
    def build(ir: Builder, x: Value, i: Value) -> list[Value]:
        with ir.at(Location(index=1, name="pick")):
            picked = ir.gather(x, i, 0)
        with ir.at(Location(index=2, name="after")):
            return [ir.neg(picked), ir.softmax(x, 0)]

    picked, other = kernels(["f32[N]", "i64[K]"], build)
    assert picked.location is not None
    assert other.location is not None
    assert (picked.location.name, other.location.name) == ("pick", "after")
