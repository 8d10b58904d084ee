"""Wrong kernels, planted in the code generator: the part of a model that `bisect` ends at shows them, and is small."""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

import onnxc
from onnxc.comparing.bisect import Bisection, bisect
from onnxc.comparing.compare import compare_sides, differs
from onnxc.comparing.comparison import Comparison
from onnxc.comparing.diff import drawn_feed, parse_sides
from onnxc.compiler.codegen_cpu import evaluate, scalars
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Op
from onnxc.runtime.errors import InputError
from tests.support.models import model_from_text

HEAD = '<ir_version: 10, opset_import: ["": 21]>\n'

# By a name: the primitive whose kernel is wrong, the weights, the model, and the node that uses the primitive first.
MODELS: Mapping[str, tuple[str, Mapping[str, tuple[int, ...]], str, str]] = {
    "mlp": (
        "tanh",
        {"w": (16, 32), "v": (32, 8)},
        """m (float[N, 16] x) => (float[N, 8] y) {
            a = MatMul (x, w)
            b = Relu (a)
            c = MatMul (b, v)
            y = Tanh (c)
        }""",
        "Tanh",
    ),
    "convolutions": (
        "max",
        {"w": (8, 3, 3, 3), "v": (4, 8, 3, 3)},
        """m (float[N, 3, 8, 8] x) => (float[N, 4, 2, 2] y) {
            a = Conv <pads = [1, 1, 1, 1]> (x, w)
            b = Relu (a)
            c = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (b)
            d = Conv (c, v)
            y = Sigmoid (d)
        }""",
        "Relu",
    ),
    "attention": (
        "sqrt",
        {"q": (16, 16), "k": (16, 16), "s": (16,)},
        """m (float[B, S, 16] x) => (float[B, S, 16] y) {
            a = LayerNormalization (x, s)
            b = MatMul (a, q)
            c = MatMul (a, k)
            t = Transpose <perm = [0, 2, 1]> (c)
            d = MatMul (b, t)
            e = Softmax (d)
            f = MatMul (e, a)
            y = Add (f, x)
        }""",
        "LayerNormalization",
    ),
    "normalisation": (
        "div",
        {},
        """m (float[N, 12] x) => (float[N, 12] y) {
            a = ReduceMean (x)
            b = Sub (x, a)
            c = Abs (b)
            d = ReduceMax (c)
            y = Div (b, d)
        }""",
        "ReduceMean",
    ),
    "gates": (
        "exp",
        {"w": (8, 8)},
        """m (float[N, 8] x) => (float[N, 8] y) {
            a = MatMul (x, w)
            b = Exp (a)
            c = Neg (a)
            d = Exp (c)
            y = Sub (b, d)
        }""",
        "Exp",
    ),
    "two outputs": (
        "erf",
        {"w": (8, 8)},
        """m (float[N, 8] x) => (float[N, 8] y, float[N, 8] z) {
            a = MatMul (x, w)
            y = Relu (a)
            b = Erf (a)
            z = Cos (b)
        }""",
        "Erf",
    ),
    "movements": (
        "sin",
        {},
        """m (float[N, 4, 6] x) => (float[N, 24] y) {
            a = Transpose <perm = [0, 2, 1]> (x)
            b = Sin (a)
            c = Flatten (b)
            d = Concat <axis = 1> (c, c)
            s = Constant <value_ints = [24, 24]> ()
            y, e = Split <axis = 1> (d, s)
        }""",
        "Sin",
    ),
    "branches": (
        "floor",
        {},
        """m (float[N, 8] x, bool p) => (float[N, 8] y) {
            a = Abs (x)
            b = If (p) <then_branch = t () => (float[N, 8] u) { u = Floor (a) },
                        else_branch = e () => (float[N, 8] v) { v = Floor (x) }>
            y = Neg (b)
        }""",
        "If",
    ),
    "function": (
        "log",
        {},
        """m (float[N, 8] x) => (float[N, 8] y) {
            a = Abs (x)
            b = Softplus (a)
            c = Mul (b, a)
            y = Tanh (c)
        }""",
        "Softplus",
    ),
}


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> "Plant":
    return Plant(monkeypatch)


class Plant:
    """Makes kernels of the CPU wrong by one part in fifty."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch

    def everywhere(self, primitive: str) -> None:
        right = scalars.FLOATS[primitive]

        def wrong(f: FunctionBuilder, dtype: DType, *operands: Reg) -> Reg:
            return f.fmul(right(f, dtype, *operands), 1.02)

        self.monkeypatch.setitem(scalars.FLOATS, primitive, wrong)

    def behind(self, primitive: str, before: str) -> None:
        """Wrong only where one kernel computes both, which no node shows alone."""
        right = evaluate.emit_pointwise

        def wrong(op: Op, operands: list[Reg], f: FunctionBuilder) -> Reg:
            result = right(op, operands, f)
            producer = op.operands[0].op
            is_wrong = op.name == primitive and producer is not None and producer.name == before
            return f.fmul(result, 1.02) if is_wrong else result

        self.monkeypatch.setattr(evaluate, "emit_pointwise", wrong)


def found(folder: Path, text: str, weights: Mapping[str, tuple[int, ...]]) -> tuple[Comparison, Bisection]:
    """What differs between the CPU and the interpreter, and its smallest part."""
    model = model_from_text(HEAD + text)
    rng = np.random.default_rng(7)
    for name, shape in weights.items():
        values = (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    sides = parse_sides(f"{path}@cpu", "@interpreter")
    sizes = {name: size for name, size in {"N": 3, "B": 2, "S": 5}.items() if re.search(rf"\b{name}\b", text)}
    feed = drawn_feed(sides[0], {"p": True} if "bool p" in text else {}, {}, sizes, 0)
    compared = compare_sides(*sides, feed)
    assert not compared.is_same
    small = bisect(*sides, feed, compared)
    assert differs(*sides, small.model, small.feed)
    return compared, small


@pytest.mark.parametrize("name", MODELS)
def test_a_wrong_kernel_ends_at_the_node_that_has_it(name: str, plant: Plant, tmp_path: Path) -> None:
    primitive, weights, text, operator = MODELS[name]
    plant.everywhere(primitive)
    compared, small = found(tmp_path, text, weights)
    assert compared.first is not None
    assert f"({operator})" in compared.first.node
    assert [node.op_type for node in small.model.graph.node] == [operator]
    assert max(np.asarray(value).size for value in small.feed.values()) <= 64


def test_what_is_wrong_only_within_one_kernel_ends_at_its_nodes(plant: Plant, tmp_path: Path) -> None:
    plant.behind("tanh", before="add")
    text = """m (float[N, 16] x) => (float[N, 16] y) {
        a = Abs (x)
        b = MatMul (a, w)
        c = Add (b, x)
        d = Tanh (c)
        e = Sin (d)
        y = Neg (e)
    }"""
    _, small = found(tmp_path, text, {"w": (16, 16)})
    assert [node.op_type for node in small.model.graph.node] == ["Add", "Tanh"]


def test_what_cannot_be_bisected_says_why(tmp_path: Path) -> None:
    text = HEAD + "m (float[N] x) => (float[N] y) { y = Abs (x) }"
    paths = [tmp_path / f"{name}.onnx" for name in "ab"]
    for path in paths:
        path.write_bytes(model_from_text(text).SerializeToString())
    sides = parse_sides(str(paths[0]), "@interpreter")
    feed = drawn_feed(sides[0], {}, {}, {}, 0)
    compared = compare_sides(*sides, feed)
    with pytest.raises(InputError) as same:
        bisect(*sides, feed, compared)
    with pytest.raises(InputError) as models:
        bisect(*parse_sides(*map(str, paths)), feed, compared)
    assert (same.value.code, models.value.code) == ("bisect-same", "bisect-models")


def test_without_the_plant_the_models_agree(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model_from_text(HEAD + MODELS["normalisation"][2]).SerializeToString())
    compared = onnxc.diff(f"{path}@cpu", "@interpreter", dims={"N": 4})
    assert compared.is_same
    assert compared.first is None
    assert [each.name for each in compared.inner] == ["a", "b", "c", "d"]
