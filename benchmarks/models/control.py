"""Models whose calls are loops, branches and sizes from data: recurrent layers, decoders, scans, detectors, trees.

`write_models(DIR)` writes them with seeded weights, and a manifest.json; they need no exporter.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper, parser

OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
Sizes = Mapping[str, Mapping[str, int]]
Input = tuple[str, str, Sequence[int | str], int]
"""The name, the element type, the shape, and for integers the number that they are below."""


@dataclass(frozen=True)
class Case:
    """A model and how it is called; `sizes` name the values of its symbols."""

    graph: GraphProto
    inputs: Sequence[Input]
    sizes: Sizes


def write_models(folder: Path) -> None:
    """The models of this suite, and their manifest."""
    manifest = {}
    for name, make in CASES.items():
        case = make(np.random.default_rng(len(name)))
        (folder / f"{name}.onnx").write_bytes(_model(case.graph).SerializeToString())
        inputs = [
            {"name": n, "dtype": t, "shape": list(shape), "fill": "integers" if high else "normal", "high": high}
            for n, t, shape, high in case.inputs
        ]
        outputs = [output.name for output in case.graph.output]
        manifest[name] = {"files": {"own": f"{name}.onnx"}, "inputs": inputs, "outputs": outputs, "sizes": case.sizes}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def _model(graph: GraphProto) -> ModelProto:
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=9)


def _graph(
    nodes: Sequence[NodeProto], inputs: Sequence[Input], outputs: Sequence[str], **weights: np.ndarray
) -> GraphProto:
    given = [_info(name, dtype, shape) for name, dtype, shape, _ in inputs]
    made = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    return helper.make_graph(nodes, "g", given, [_info(name, "float32", None) for name in outputs], made)


def _info(name: str, dtype: str, shape: Sequence[int | str] | None) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def _weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)


# Recurrent layers

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _recurrent(
    kind: str, width: int, hidden: int, directions: int = 1, lengths: bool = False, batch: int = 1
) -> Callable[[np.random.Generator], Case]:
    def make(rng: np.random.Generator) -> Case:
        gates = GATES[kind]
        weights = {
            "W": _weights(rng, directions, gates * hidden, width),
            "R": _weights(rng, directions, gates * hidden, hidden),
            "B": _weights(rng, directions, 2 * gates * hidden),
        }
        inputs: list[Input] = [("x", "float32", ("steps", batch, width), 0)]
        names = ["x", *weights]
        if lengths:
            inputs.append(("lengths", "int32", (batch,), 20))
            names.append("lengths")
        direction = {"direction": "bidirectional"} if directions == 2 else {}
        node = helper.make_node(kind, names, ["y"], hidden_size=hidden, **direction)
        sizes = {"one": {"steps": 1}, "prime": {"steps": 23}, "large": {"steps": 200}}
        graph = _graph([node], inputs, ["y"], **weights)
        return Case(graph, inputs, {k: v for k, v in sizes.items() if k != "one" or not lengths})

    return make


# Graphs as text

PLAIN: Sizes = {"one": {}}


def _text(
    text: str, inputs: Sequence[Input], sizes: Sizes = PLAIN, **weights: tuple[int, ...]
) -> Callable[[np.random.Generator], Case]:
    def make(rng: np.random.Generator) -> Case:
        graph = parser.parse_graph(text)
        graph.initializer.extend(numpy_helper.from_array(_weights(rng, *s), name) for name, s in weights.items())
        return Case(graph, inputs, sizes)

    return make


COUNTING = """g (float x) => (float y) <int64 n = {1000}, bool going = {1}, float one = {1.0}> {
    y = Loop (n, going, x) <body = b (int64 i, bool c, float v) => (bool again, float after) {
        again = Identity(c)  after = Add(v, one)
    }>
}"""

ELMAN = """g (float[steps, 32] x) => (float[1, 32] last, float[rows, 1, 32] all) <bool going = {1}> {
    shape = Shape <start = 0, end = 1> (x)
    n = Squeeze(shape)
    last, all = Loop (n, going, start) <body = b (int64 i, bool c, float[1, 32] h)
            => (bool again, float[1, 32] after, float[1, 32] out) {
        again = Identity(c)
        row = Gather(x, i)
        fed = MatMul(row, W)
        kept = MatMul(h, U)
        sum = Add(fed, kept)
        after = Tanh(sum)
        out = Identity(after)
    }>
}"""

STATE_SPACE = """g (float[steps, 16] u) => (float[64] last, float[steps, 16] y) {
    last, y = Scan <num_scan_inputs = 1, body = b (float[64] s, float[16] v) => (float[64] after, float[16] out) {
        fed = MatMul(v, B)
        kept = Mul(s, A)
        after = Add(fed, kept)
        out = MatMul(after, C)
    }> (start, u)
}"""

GREEDY = """g (int64 first) => (int64 last, int64[k] words) <int64 n = {50}, bool going = {1}, int64 stop = {0}> {
    last, words = Loop (n, going, first) <body = b (int64 i, bool c, int64 word)
            => (bool again, int64 after, int64 out) {
        row = Gather(embedding, word)
        inner = MatMul(row, W)
        active = Relu(inner)
        logits = MatMul(active, V)
        after = ArgMax <axis = 0, keepdims = 0> (logits)
        ended = Equal(after, stop)
        again = Not(ended)
        out = Identity(after)
    }>
}"""

BEAM = """g (float[4, 64] states) => (float[4] best, int64[k, 4] words) <
    int64 n = {20}, bool going = {1}, float[4] start = {0.0, 0.0, 0.0, 0.0},
    int64[1] four = {4}, int64[1] flat = {-1}, int64 size = {500}
> {
    h, best, words = Loop (n, going, states, start) <body = b (int64 i, bool c, float[4, 64] s, float[4] scores)
            => (bool again, float[4, 64] after, float[4] kept, int64[4] word) {
        again = Identity(c)
        inner = MatMul(s, U)
        active = Tanh(inner)
        logits = MatMul(active, V)
        logs = LogSoftmax <axis = 1> (logits)
        axis = Constant <value_ints = [1]> ()
        column = Unsqueeze(scores, axis)
        total = Add(logs, column)
        all = Reshape(total, flat)
        kept, chosen = TopK(all, four)
        beam = Div(chosen, size)
        word = Mod(chosen, size)
        after = Gather(active, beam)
    }>
}"""

GROWING = """g (float[1, 16] x) => (float[rows, 16] y) <int64 n = {60}, bool going = {1}, int64[1] first = {0}> {
    y = Loop (n, going, x) <body = b (int64 i, bool c, float[r, 16] v) => (bool again, float[q, 16] after) {
        again = Identity(c)
        last = ReduceMean <keepdims = 1> (v, first)
        turned = MatMul(last, W)
        after = Concat <axis = 0> (v, turned)
    }>
}"""

NEWTON = """g (float[64] a) => (float[64] x) <
    int64 n = {100}, bool going = {1}, float half = {0.5}, float near = {0.0001}
> {
    positive = Abs(a)
    one = Exp(positive)
    x = Loop (n, going, one) <body = b (int64 i, bool c, float[64] v) => (bool again, float[64] after) {
        quotient = Div(one, v)
        sum = Add(v, quotient)
        after = Mul(sum, half)
        change = Sub(after, v)
        size = Abs(change)
        largest = ReduceMax <keepdims = 0> (size)
        again = Greater(largest, near)
    }>
}"""

NESTED = """g (float[8] x) => (float[8] y) <int64 n = {20}, int64 m = {10}, bool going = {1}, float rate = {0.9}> {
    y = Loop (n, going, x) <body = b (int64 i, bool c, float[8] v) => (bool again, float[8] after) {
        again = Identity(c)
        inner = Loop (m, c, v) <body = d (int64 j, bool e, float[8] w) => (bool on, float[8] next) {
            on = Identity(e)
            shrunk = Mul(w, rate)
            next = Cos(shrunk)
        }>
        total = ReduceSum <keepdims = 0> (inner)
        zero = Constant <value_float = 0.0> ()
        positive = Greater(total, zero)
        after = If (positive) <then_branch = t () => (float[8] a) { a = Neg(inner) },
            else_branch = f () => (float[8] b) { b = Abs(inner) }>
    }>
}"""

GATED = """g (float[1, frames, 64] x) => (float y) <float limit = {0.0}> {
    energy = ReduceMean <keepdims = 0> (x)
    speaks = Greater(energy, limit)
    y = If (speaks) <
        then_branch = t () => (float a) { h = MatMul(x, W)  k = Tanh(h)  a = ReduceMean <keepdims = 0> (k) },
        else_branch = f () => (float b) { b = ReduceMax <keepdims = 0> (x) }>
}"""

SUPPRESSED = """g (float[1, n, 4] boxes, float[1, CLASSES, n] scores) => (int64[k, 3] y) <
    int64 most = {100}, float overlap = {0.5}, float least = {LEAST}
> {
    chances = Sigmoid(scores)
    y = NonMaxSuppression(boxes, chances, most, overlap, least)
}"""

PICKED = """g (float[n, 32] x) => (float[k, 32] y) <float limit = {0.0}, int64[1] second = {1}> {
    first = ReduceSum <keepdims = 0> (x, second)
    wanted = Greater(first, limit)
    y = Compress <axis = 0> (x, wanted)
}"""

CLASSES = (
    """g (float[n, 32] x) => (int64[2, k] y) <float limit = {1.0}> { large = Greater(x, limit)  y = NonZero(large) }"""
)

DISTINCT = """g (int64[n] x) => (int64[k] y, int64[k] counts) { y, first, inverse, counts = Unique(x) }"""


def _nms(classes: int, least: float) -> str:
    return SUPPRESSED.replace("CLASSES", str(classes)).replace("LEAST", str(least))


# Trees


def _forest(trees: int, depth: int, features: int) -> Callable[[np.random.Generator], Case]:
    """Whole binary trees of this depth."""

    def make(rng: np.random.Generator) -> Case:
        inner, nodes = 2**depth - 1, 2 ** (depth + 1) - 1
        tree, node = (each.ravel() for each in np.mgrid[0:trees, 0:nodes])
        leaf = node >= inner
        attributes = {
            "nodes_treeids": tree.tolist(),
            "nodes_nodeids": node.tolist(),
            "nodes_featureids": rng.integers(0, features, len(node)).tolist(),
            "nodes_values": rng.standard_normal(len(node)).tolist(),
            "nodes_modes": ["LEAF" if each else "BRANCH_LEQ" for each in leaf],
            "nodes_truenodeids": np.where(leaf, 0, 2 * node + 1).tolist(),
            "nodes_falsenodeids": np.where(leaf, 0, 2 * node + 2).tolist(),
            "target_treeids": tree[leaf].tolist(),
            "target_nodeids": node[leaf].tolist(),
            "target_ids": [0] * int(leaf.sum()),
            "target_weights": rng.standard_normal(int(leaf.sum())).tolist(),
        }
        made = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, **attributes)
        inputs: list[Input] = [("x", "float32", ("rows", features), 0)]
        sizes = {"one": {"rows": 1}, "prime": {"rows": 97}, "large": {"rows": 2000}}
        return Case(_graph([made], inputs, ["y"]), inputs, sizes)

    return make


ROWS: Sizes = {"one": {"n": 1}, "prime": {"n": 97}, "large": {"n": 3000}}
STEPS: Sizes = {"one": {"steps": 1}, "prime": {"steps": 23}, "large": {"steps": 500}}


def _boxes(classes: int) -> list[Input]:
    return [("boxes", "float32", (1, "n", 4), 0), ("scores", "float32", (1, classes, "n"), 0)]


CASES: Mapping[str, Callable[[np.random.Generator], Case]] = {
    "lstm_small": _recurrent("LSTM", 32, 32),
    "lstm": _recurrent("LSTM", 64, 128),
    "lstm_both_ways": _recurrent("LSTM", 64, 128, directions=2),
    "lstm_of_8": _recurrent("LSTM", 64, 128, batch=8),
    "lstm_of_lengths": _recurrent("LSTM", 32, 64, lengths=True, batch=4),
    "gru": _recurrent("GRU", 64, 128),
    "gru_both_ways": _recurrent("GRU", 32, 64, directions=2),
    "rnn": _recurrent("RNN", 64, 64),
    "counting": _text(COUNTING, [("x", "float32", (), 0)]),
    "elman": _text(ELMAN, [("x", "float32", ("steps", 32), 0)], STEPS, W=(32, 32), U=(32, 32), start=(1, 32)),
    "state_space": _text(
        STATE_SPACE, [("u", "float32", ("steps", 16), 0)], STEPS, A=(64,), B=(16, 64), C=(64, 16), start=(64,)
    ),
    "greedy": _text(GREEDY, [("first", "int64", (), 200)], embedding=(200, 64), W=(64, 64), V=(64, 200)),
    "beam": _text(BEAM, [("states", "float32", (4, 64), 0)], U=(64, 64), V=(64, 500)),
    "growing": _text(GROWING, [("x", "float32", (1, 16), 0)], W=(16, 16)),
    "newton": _text(NEWTON, [("a", "float32", (64,), 0)]),
    "nested": _text(NESTED, [("x", "float32", (8,), 0)]),
    "gated": _text(
        GATED, [("x", "float32", (1, "frames", 64), 0)], {"one": {"frames": 1}, "prime": {"frames": 97}}, W=(64, 64)
    ),
    "boxes_of_one_class": _text(_nms(1, 0.05), _boxes(1), ROWS),
    "boxes_of_20_classes": _text(_nms(20, 0.5), _boxes(20), ROWS),
    "boxes_of_80_classes": _text(_nms(80, 0.9), _boxes(80), {"large": {"n": 8400}}),
    "compress": _text(PICKED, [("x", "float32", ("n", 32), 0)], ROWS),
    "non_zero": _text(CLASSES, [("x", "float32", ("n", 32), 0)], ROWS),
    "unique": _text(DISTINCT, [("x", "int64", ("n",), 100)], ROWS),
    "forest": _forest(100, 6, 20),
    "boosted": _forest(300, 3, 30),
}
"""The suite: the name of each model, and what makes it."""
