"""GELU: every order of its factors, both approximations, and what is another function."""

from collections.abc import Callable
from math import pi, sqrt

import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F16, F32
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.recognize.recognize_gelu import recognize_gelu
from tests.passes.golden import N, f16, f32
from tests.passes.recognition import names, reasons, recognized

Spelling = Callable[[Builder, Value], Value]


def gate(b: Builder, x: Value) -> Value:
    return b.add(b.erf(b.div(x, sqrt(2))), 1)


def curve(b: Builder, x: Value) -> Value:
    cubic = b.mul(b.pow(x, 3.0), 0.044715)
    return b.add(b.tanh(b.mul(b.add(x, cubic), sqrt(2 / pi))), 1)


EXACT: dict[str, Spelling] = {
    "product_then_half": lambda b, x: b.mul(b.mul(x, gate(b, x)), 0.5),
    "half_first": lambda b, x: b.mul(b.mul(x, 0.5), gate(b, x)),
    "half_of_the_gate": lambda b, x: b.mul(x, b.mul(gate(b, x), 0.5)),
    "gate_first": lambda b, x: b.mul(b.mul(0.5, gate(b, x)), x),
    "divided": lambda b, x: b.div(b.mul(x, gate(b, x)), 2),
    "erf_of_product": lambda b, x: b.mul(b.mul(x, b.add(1, b.erf(b.mul(x, sqrt(0.5))))), 0.5),
    "rounded_constant": lambda b, x: b.mul(b.mul(x, b.add(b.erf(b.div(x, 1.4142135381698608)), 1)), 0.5),
    "half_spread": lambda b, x: b.mul(x, b.add(b.mul(b.erf(b.mul(x, sqrt(0.5))), 0.5), 0.5)),
}

BY_TANH: dict[str, Spelling] = {
    "half_first": lambda b, x: b.mul(b.mul(x, 0.5), curve(b, x)),
    "half_last": lambda b, x: b.mul(b.mul(x, curve(b, x)), 0.5),
    "cube_by_products": lambda b, x: b.mul(
        b.mul(x, 0.5),
        b.add(b.tanh(b.mul(b.add(x, b.mul(b.mul(b.mul(x, x), x), 0.044715)), 0.7978845834732056)), 1),
    ),
    "constant_inside": lambda b, x: b.mul(
        b.mul(x, 0.5),
        b.add(b.tanh(b.mul(b.add(x, b.mul(x, b.mul(b.mul(x, 0.044715), x))), sqrt(2 / pi))), 1),
    ),
    "x_in_front": lambda b, x: b.mul(
        b.mul(x, 0.5),
        b.add(1, b.tanh(b.mul(b.mul(x, sqrt(2 / pi)), b.add(b.mul(b.mul(x, x), 0.044715), 1)))),
    ),
}


@pytest.mark.parametrize("spelling", EXACT)
def test_exact_gelu(spelling: str) -> None:
    after = recognized(recognize_gelu, [f32(N, 3)], EXACT[spelling])
    assert names(after) == ["gelu"]
    assert after.main.body.ops[-1].text("approximate") == "none"


@pytest.mark.parametrize("spelling", BY_TANH)
def test_gelu_by_tanh(spelling: str) -> None:
    after = recognized(recognize_gelu, [f32(N, 3)], BY_TANH[spelling])
    assert names(after) == ["gelu"]
    assert after.main.body.ops[-1].text("approximate") == "tanh"


def test_gelu_of_a_scalar() -> None:
    assert names(recognized(recognize_gelu, [f32()], EXACT["half_first"])) == ["gelu"]


def test_casts_around_a_16_bit_gelu_are_taken_in() -> None:
    after = recognized(recognize_gelu, [f16(9)], lambda b, x: b.cast(EXACT["half_first"](b, b.cast(x, F32)), F16))
    assert names(after) == ["gelu"]


def test_constants_rounded_to_16_bits_are_good_enough_there() -> None:
    assert names(recognized(recognize_gelu, [f16(9)], BY_TANH["half_first"])) == ["gelu"]


OTHERS: dict[str, Spelling] = {
    "sigmoid": lambda b, x: b.mul(x, b.sigmoid(b.mul(x, 1.702))),
    "silu": lambda b, x: b.mul(x, b.sigmoid(x)),
    "no_half": lambda b, x: b.mul(x, gate(b, x)),
    "wrong_root": lambda b, x: b.mul(b.mul(x, b.add(b.erf(b.mul(x, 0.7)), 1)), 0.5),
    "wrong_summand": lambda b, x: b.mul(b.mul(x, b.add(b.erf(b.div(x, sqrt(2))), 2)), 0.5),
    "squared": lambda b, x: b.mul(b.mul(b.mul(x, x), gate(b, x)), 0.5),
    "wrong_cubic": lambda b, x: b.mul(
        b.mul(x, 0.5), b.add(b.tanh(b.mul(b.add(x, b.mul(b.pow(x, 3.0), 0.05)), sqrt(2 / pi))), 1)
    ),
    "fourth_power": lambda b, x: b.mul(
        b.mul(x, 0.5), b.add(b.tanh(b.mul(b.add(x, b.mul(b.pow(x, 4.0), 0.044715)), sqrt(2 / pi))), 1)
    ),
}


@pytest.mark.parametrize("spelling", OTHERS)
def test_other_functions_stay(spelling: str) -> None:
    assert "gelu" not in names(recognized(recognize_gelu, [f32(N, 3)], OTHERS[spelling]))


def test_the_gate_of_another_value_is_no_gelu() -> None:
    after = recognized(recognize_gelu, [f32(3), f32(3)], lambda b, x, y: b.mul(b.mul(x, 0.5), gate(b, y)))
    assert "gelu" not in names(after)


def test_a_gate_with_another_use_is_refused() -> None:
    def make(b: Builder, x: Value) -> tuple[Value, ...]:
        opened = gate(b, x)
        return b.mul(b.mul(x, 0.5), opened), opened

    assert reasons(recognize_gelu, [f32(3)], make) == ["the gate is used elsewhere, too"]
