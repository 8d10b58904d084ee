"""Propagation: what a stated sharding says of the values around it."""

import pytest

from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.ir.sharding import Mesh
from onnxc.compiler.sharding.propagate import Propagation, propagate

GRID = Mesh((("d0", 2), ("d1", 2)))

STATED = '{mesh = "d0=2, d1=2", sharding = "%s"}'


def propagated(text: str, *stated: str) -> tuple[Propagation, list[str]]:
    """What was found, and the sharding of each parameter and of each op in order."""
    for sharding in stated:
        text = text.replace("STATED", STATED % sharding, 1)
    body = parse_module(f'module "m" {{\nfunction {text}\n}}').main.body
    found = propagate(body, GRID)
    values = (*body.parameters, *(op.result for op in body.ops))
    return found, [str(found.sharding(value)) for value in values]


MLP = """main(%x: f32[8, 4], %w: f32[4, 8], %v: f32[8, 4]) -> ("y") {
  %0 = reshard %w STATED : f32[4, 8]
  %1 = dot %x, %0 {dtype = f32, equation = "mk,kn->mn"} : f32[8, 8]
  %2 = tanh %1 : f32[8, 8]
  %3 = dot %2, %v {dtype = f32, equation = "mk,kn->mn"} : f32[8, 4]
  return %3
}"""


def test_columns_go_forward_and_make_rows_of_the_next_weight() -> None:
    found, shardings = propagated(MLP, "[{}, {d0}]")
    assert shardings == [
        "[{}, {}]", "[{}, {d0}]", "[{d0}, {}]", "[{}, {d0}]", "[{}, {d0}]", "[{}, {d0}]", "[{}, {}]",
    ]  # fmt: skip
    assert "the model says so" in found.why.values()


def test_a_divided_inner_axis_leaves_the_result_whole() -> None:
    _, shardings = propagated(MLP, "[{d1}, {}]")
    assert shardings[0] == "[{}, {d1}]"
    assert shardings[4:] == ["[{}, {}]", "[{}, {}]", "[{}, {}]"]


BACK = """main(%x: f32[8, 4]) -> ("y") {
  %0 = tanh %x : f32[8, 4]
  %1 = transpose %0 {permutation = [1, 0]} : f32[4, 8]
  %2 = reshard %1 STATED : f32[4, 8]
  return %2
}"""


def test_what_is_stated_of_a_result_goes_backward() -> None:
    _, shardings = propagated(BACK, "[{}, {d0, d1}]")
    assert shardings == ["[{d0, d1}, {}]", "[{d0, d1}, {}]", "[{}, {d0, d1}]", "[{}, {d0, d1}]"]


PAIR = """main(%x: f32[8, 4], %z: f32[8, 4]) -> ("y") {
  %0 = reshard %x STATED : f32[8, 4]
  %1 = reshard %z STATED : f32[8, 4]
  %2 = add %0, %1 : f32[8, 4]
  return %2
}"""


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        ("[{d0}, {}]", "[{}, {}]", "[{d0}, {}]"),
        ("[{}, {}]", "[{d0}, {}]", "[{d0}, {}]"),
        ("[{d0}, {}]", "[{}, {d1}]", "[{d0}, {d1}]"),
        ("[{d0}, {}]", "[{}, {d0}]", "[{d0}, {}]"),
        ("[{}, {d0}]", "[{d0}, {}]", "[{d0}, {}]"),
        ("[{d0}, {}]", "[{d1}, {}]", "[{d0}, {}]"),
    ],
)
def test_operands_that_differ_are_told_apart_in_order(first: str, second: str, result: str) -> None:
    _, shardings = propagated(PAIR, first, second)
    assert shardings[2:] == [first, second, result]


HEADS = """main(%x: f32[2, 16]) -> ("y") {
  %0 = reshard %x STATED : f32[2, 16]
  %1 = reshape %0 {shape = [2, SPLIT]} : f32[2, SPLIT]
  return %1
}"""


@pytest.mark.parametrize(
    ("split", "result"),
    [("4, 4", "[{}, {d1}, {}]"), ("1, 16", "[{}, {}, {d1}]"), ("2, 8", "[{}, {d1}, {}]"), ("16, 1", "[{}, {d1}, {}]")],
)
def test_a_reshape_passes_on_its_slowest_axis(split: str, result: str) -> None:
    _, shardings = propagated(HEADS.replace("SPLIT", split), "[{}, {d1}]")
    assert shardings[-1] == result


def test_a_reshape_into_blocks_that_are_not_full_passes_on_nothing() -> None:
    text = HEADS.replace("16", "15").replace("SPLIT", "3, 5")
    _, shardings = propagated(text, "[{}, {d1}]")
    assert shardings[-1] == "[{}, {}, {}]"
