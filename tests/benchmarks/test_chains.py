"""Chains of operators: the same for a seed everywhere, valid models, and shapes that are those of the values."""

import numpy as np
import onnx
import pytest

import onnxc
from benchmarks.chains.chain import FEWEST, MOST
from benchmarks.chains.draw import draw
from benchmarks.chains.measure import describe
from benchmarks.chains.steps import STEPS

SEEDS = range(200)


def test_a_seed_is_one_chain() -> None:
    first, second = (draw(7).model() for _ in range(2))
    assert first is not None
    assert first == second


def test_every_step_is_taken() -> None:
    """By the operators of many seeds, each of which a step adds."""
    operators = {node.op_type for seed in SEEDS for node in draw(seed).nodes}
    assert len(operators) > 60
    assert {"Conv", "ConvTranspose", "MatMul", "Softmax", "TopK", "Resize", "Split", "ArgMax"} <= operators
    assert len(set(STEPS)) == 31


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_values_have_the_shapes_that_the_steps_say(seed: int) -> None:
    chain = draw(seed)
    model = chain.model()
    assert model is not None
    onnx.checker.check_model(model)
    assert FEWEST <= chain.inputs[0].size <= MOST
    with np.errstate(all="ignore"):
        results = onnxc.compile(model, threads=1).run(chain.feeds())
    shapes = {value.name: value.shape for value in chain.values}
    assert {name: array.shape for name, array in results.items()} == {name: shapes[name] for name in results}


def test_a_row_says_what_a_chain_is() -> None:
    chain = draw(3)
    row = describe(chain)
    assert row["shape"] == list(chain.inputs[0].shape)
    assert row["symbolic"] == chain.is_symbolic
    assert str(row["nodes"]).split() == [node.op_type for node in chain.nodes]
