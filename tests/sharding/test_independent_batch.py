"""Which models' rows are proved independent, and that of those which are not, none is."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from onnx import ModelProto

import onnxc
from onnxc.compiler.driver import run_stages
from onnxc.compiler.ir.module import Module
from onnxc.compiler.options import make_options
from onnxc.compiler.sharding.independent_batch import independent_batch
from tests.models.builders import Built, encoder, mlp, resnet
from tests.support.models import model_from_text

HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'
ONE = "g (float[N, 4, 6] x) => (float[N, 4, 6] y)"

INDEPENDENT = {
    "softmax of a row": f"{ONE} {{ y = Softmax<axis = 2>(x) }}",
    "heads taken apart and put together": f"""{ONE} <int64[4] apart = {{0, -1, 2, 3}}, int64[3] back = {{0, 4, 6}}>
        {{ h = Reshape(x, apart) t = Transpose<perm = [0, 2, 1, 3]>(h) u = Transpose<perm = [0, 2, 1, 3]>(t)
           y = Reshape(u, back) }}""",
    "a batch that is joined to another axis": f"""{ONE} <int64[2] rows = {{-1, 6}}, int64[3] back = {{-1, 4, 6}}>
        {{ r = Reshape(x, rows) s = Softmax(r) y = Reshape(s, back) }}""",
    "copies of one row": f"""{ONE} <float one = {{1}}>
        {{ s = Shape(x) ones = Expand(one, s) y = Add(x, ones) }}""",
}

DEPENDENT = {
    "softmax of the batch": f"{ONE} {{ y = Softmax<axis = 0>(x) }}",
    "a mean of the batch": f"""{ONE} {{ a = Constant<value_ints = [0]>() m = ReduceMean(x, a) y = Sub(x, m) }}""",
    "a running sum": f"{ONE} <int64 axis = {{0}}> {{ y = CumSum(x, axis) }}",
    "a range of the whole": f"{ONE} {{ q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z) }}",
    "rows that fold over the batch": f"""{ONE} {{ f = Flatten(x) t = Transpose(f) p = MatMul(t, f)
        m = ReduceMean<keepdims = 0>(p) y = Add(x, m) }}""",
    "the number of rows": f"""{ONE} {{ n = Shape<start = 0, end = 1>(x) f = Cast<to = 1>(n) y = Mul(x, f) }}""",
    "the ordinal of a row": f"""{ONE} <int64 zero = {{0}}, int64 one = {{1}}, int64[3] column = {{-1, 1, 1}}>
        {{ s = Shape<start = 0, end = 1>(x) n = Squeeze(s) r = Range(zero, n, one) f = Cast<to = 1>(r)
           c = Reshape(f, column) y = Add(x, c) }}""",
    "rows in another order": f"""{ONE}
        <int64[1] last = {{-1}}, int64[1] first = {{-9223372036854775807}}, int64[1] axis = {{0}}>
        {{ y = Slice(x, last, first, axis, last) }}""",
    "batch and columns exchanged": f"""{ONE} <int64[3] all = {{4, -1, 6}}>
        {{ r = Reshape(x, all) y = Transpose<perm = [1, 0, 2]>(r) }}""",
    "rows that data picks": "g (float[N, 4] x, int64[N] i) => (float[N, 4] y) { y = Gather(x, i) }",
    "attention of rows to each other": f"""{ONE}
        {{ f = Flatten(x) t = Transpose(f) a = MatMul(f, t) s = Softmax(a) v = MatMul(s, f) h = Shape(x)
           y = Reshape(v, h) }}""",
    "numbers that are drawn for all rows": f"{ONE} {{ r = RandomNormal<shape = [4, 6]>() y = Add(x, r) }}",
    "numbers that are drawn": f"{ONE} {{ r = RandomNormalLike(x) y = Add(x, r) }}",
    "an output that is no batch": """g (float[N, 4] x) => (float[4] y)
        { a = Constant<value_ints = [0]>() y = ReduceSum<keepdims = 0>(x, a) }""",
    "an input that is no batch": "g (float[N, 4] x, float[4] w) => (float[N, 4] y) { y = Mul(x, w) }",
    "two names of the batch": """g (float[N, 4] x, float[M, 4] w) => (float[N, 4] y)
        { s = ReduceSum<keepdims = 0>(w) y = Mul(x, s) }""",
}  # fmt: skip


def symbol_of(model: ModelProto) -> str:
    """What is proved of the model as it is planned."""
    stages = dict(itertools.takewhile(lambda stage: stage[0] != "plan", run_stages(model, make_options("cpu"))))
    module = stages["optimize"]
    assert isinstance(module, Module)
    return independent_batch(module.main)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_rows_are_independent(name: str) -> None:
    assert symbol_of(model_from_text(HEAD + INDEPENDENT[name])) == "N"


@pytest.mark.parametrize("name", DEPENDENT)
def test_rows_that_know_of_each_other_are_not(name: str) -> None:
    assert symbol_of(model_from_text(HEAD + DEPENDENT[name])) == ""


@pytest.mark.parametrize("build", [mlp, resnet, encoder])
def test_networks_that_exporters_write_are_proved(build: Callable[[str], Built]) -> None:
    assert symbol_of(build("dynamo").model) == "batch"


def test_what_is_proved_holds() -> None:
    exe = onnxc.compile(model_from_text(HEAD + INDEPENDENT["a batch that is joined to another axis"]), threads=1)
    x = np.random.default_rng(0).standard_normal((5, 4, 6)).astype(np.float32)
    parts = [exe(x[start:stop]) for start, stop in ((0, 1), (1, 3), (3, 5))]
    np.testing.assert_allclose(np.concatenate(parts), exe(x), rtol=1e-6)
