"""Graphs as both torch exporters write them: compiled once for all sizes, and equal to ONNX Runtime at each."""

import os

import numpy as np
import pytest

import onnxc
from benchmarks.inputs import make_inputs
from tests.models.builders import BUILDERS
from tests.models.writer import STYLES, Style
from tests.support.arrays import assert_near
from tests.support.models import run_ort


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", BUILDERS)
def test_one_compilation_serves_every_size(name: str, style: Style) -> None:
    built = BUILDERS[name](style)
    executable = onnxc.compile(built.model)
    compilations = executable.stats.compilations
    for sizes in built.sizes.values():
        inputs = make_inputs(built.inputs, sizes)
        actual, expected = executable.run(inputs), run_ort(built.model, inputs)
        assert list(actual) == [output.name for output in built.model.graph.output]
        for output, value in actual.items():
            assert_near(value, expected[output])
    assert executable.stats.compilations == compilations


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", ["resnet", "decoder"])
def test_threads_do_not_change_a_bit(name: str, style: Style) -> None:
    built = BUILDERS[name](style)
    inputs = make_inputs(built.inputs, built.sizes["prime"])
    one, two = (onnxc.compile(built.model, threads=threads).run(inputs) for threads in (1, 2))
    for output, value in one.items():
        np.testing.assert_array_equal(value, two[output])


def test_with_more_threads_than_processors_calls_repeat_bit_for_bit() -> None:
    built = BUILDERS["encoder"]("dynamo")
    # Eight of its kernels are loops of the pool at this size, of several lengths.
    inputs = make_inputs(built.inputs, built.sizes["large"])
    executable = onnxc.compile(built.model, threads=(os.cpu_count() or 1) + 6)
    first = executable.run(inputs)
    for _ in range(300):
        for output, value in executable.run(inputs).items():
            np.testing.assert_array_equal(value, first[output])


@pytest.mark.parametrize("name", ["mlp", "unet"])
def test_fixed_sizes_give_what_symbolic_ones_do(name: str) -> None:
    built = BUILDERS[name]("dynamo")
    sizes = built.sizes["prime"]
    inputs = make_inputs(built.inputs, sizes)
    expected = run_ort(built.model, inputs)
    for output, value in onnxc.compile(built.model, dims=dict(sizes)).run(inputs).items():
        assert_near(value, expected[output])
