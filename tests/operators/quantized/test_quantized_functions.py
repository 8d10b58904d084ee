"""Functions of bytes between two roundings: looked up, with the bytes that the standard's arithmetic gives."""

import numpy as np
import pytest

import onnxc
from onnxc.compiler.driver import run_stages
from onnxc.compiler.options import make_options
from tests.support.models import model_from_text

FUNCTIONS = {
    "silu": "s = Sigmoid(f) sq = QuantizeLinear(s, sg, zg) sf = DequantizeLinear(sq, sg, zg) g = Mul(f, sf)",
    "sigmoid": "g = Sigmoid(f)",
    "gelu": "g = Gelu(f)",
    "elu": "g = Elu(f)",
    "hard swish": "g = HardSwish(f)",
}


def text(function: str, dtype: str, zero: int) -> str:
    return f"""
        <ir_version: 10, opset_import: ["": 22]>
        g ({dtype}[N, M] x) => ({dtype}[N, M] y)
        <float sx = {{0.07}}, {dtype} zx = {{{zero}}}, float sg = {{0.00390625}}, {dtype} zg = {{{zero - 128}}},
         float sy = {{0.05}}, {dtype} zy = {{{zero - 90}}}> {{
            f = DequantizeLinear(x, sx, zx) {function} y = QuantizeLinear(g, sy, zy)
        }}"""


@pytest.mark.parametrize(("dtype", "zero"), [("uint8", 131), ("int8", 3)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_byte_is_as_the_interpreter_has_it(name: str, dtype: str, zero: int) -> None:
    model = model_from_text(text(FUNCTIONS[name], dtype, zero))
    every = np.random.default_rng(0).permutation(np.arange(256, dtype=np.uint8)).view(dtype)
    executable = onnxc.compile(model)
    expected = onnxc.compile(model, target="interpreter").run({"x": every.reshape(2, 128)})["y"]
    for shape in ((2, 128), (128, 2), (1, 256)):
        found = executable.run({"x": every.reshape(shape)})["y"]
        assert (found.dtype, found.shape) == (every.dtype, shape)
        apart = np.abs(found.reshape(-1).astype(int) - expected.reshape(-1).astype(int))
        # What is not looked up is computed by kernels, whose last bits decide between two integers.
        assert apart.max() <= (1 if name == "hard swish" else 0)
    assert executable.run({"x": every[:0].reshape(0, 3)})["y"].shape == (0, 3)


@pytest.mark.parametrize(("name", "is_looked_up"), [("silu", True), ("sigmoid", True), ("hard swish", False)])
def test_what_is_costly_is_looked_up(name: str, is_looked_up: bool) -> None:
    stages = dict(run_stages(model_from_text(text(FUNCTIONS[name], "uint8", 131)), make_options(target="cpu")))
    assert ("gather" in str(stages["plan"])) == is_looked_up
