"""Small models of the usual kinds, divided as usual: right, with exactly the exchanges and bytes that theory gives."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

import onnxc
from tests.sharding.annotated import CONFIG, annotate, graph_model
from tests.sharding.test_devices import exchanges, told, weight, whole
from tests.support.arrays import assert_close

LAYERS, WIDTH, HEADS, HEAD, PAST, VOCABULARY = 2, 32, 8, 4, 5, 12
BATCH = 3


class Graph:
    """Nodes of a model while they are written; values are named after what makes them."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: object) -> str:
        """The name of the only output of a new node."""
        made = name or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [made], **attributes))
        return made

    def constant(self, value: np.ndarray, name: str = "") -> str:
        made = name or f"c{len(self.constants)}"
        self.constants[made] = value
        return made

    def product(self, x: str, name: str, *shape: int) -> str:
        return self.add("MatMul", x, self.constant(weight(*shape) / 4, name))


def heads(g: Graph, x: str, count: int) -> str:
    """[B, 1, count * HEAD] to [B, count, 1, HEAD]"""
    split = g.add("Reshape", x, g.constant(np.array([0, 0, count, HEAD])))
    return g.add("Transpose", split, perm=[0, 2, 1, 3])


def rms_norm(g: Graph, x: str) -> str:
    two, last, tiny = (g.constant(np.array(v, t)) for v, t in ((2, np.float32), ([-1], np.int64), (1e-5, np.float32)))
    mean = g.add("ReduceMean", g.add("Pow", x, two), last, keepdims=1)
    root = g.add("Sqrt", g.add("Add", mean, tiny))
    return g.add("Mul", g.constant(weight(WIDTH)), g.add("Div", x, root))


def layer_norm(g: Graph, x: str) -> str:
    return g.add("LayerNormalization", x, g.constant(weight(WIDTH)), g.constant(weight(WIDTH)))


def turned(g: Graph, x: str) -> str:
    """x by rotary positions: x * cos + rotate_half(x) * sin"""
    half = (g.constant(np.array([0])), g.constant(np.array([HEAD // 2])), g.constant(np.array([HEAD])))
    axis = g.constant(np.array([3]))
    low, high = g.add("Slice", x, half[0], half[1], axis), g.add("Slice", x, half[1], half[2], axis)
    rotated = g.add("Concat", g.add("Neg", high), low, axis=-1)
    cos, sin = (g.constant(f(np.tile(np.arange(2, dtype=np.float32) + 1, 2))) for f in (np.cos, np.sin))
    return g.add("Add", g.add("Mul", x, cos), g.add("Mul", rotated, sin))


def attend(g: Graph, x: str, layer: int, groups: int, *, rotary: bool) -> str:
    """Attention of one token to the past and itself, where heads share keys in groups."""
    q, k, v = (
        heads(g, g.product(x, f"w{name}{layer}", WIDTH, count * HEAD), count)
        for name, count in (("q", HEADS), ("k", groups), ("v", groups))
    )
    if rotary:
        q, k = turned(g, q), turned(g, k)
    keys = g.add("Concat", f"past_k{layer}", k, axis=2, name=f"k{layer}")
    values = g.add("Concat", f"past_v{layer}", v, axis=2, name=f"v{layer}_")
    if groups != HEADS:
        keys, values = repeated(g, keys, groups), repeated(g, values, groups)
    scores = g.add("MatMul", q, g.add("Transpose", keys, perm=[0, 1, 3, 2]))
    scaled = g.add("Mul", scores, g.constant(np.array(HEAD**-0.5, np.float32)))
    mixed = g.add("MatMul", g.add("Softmax", scaled, axis=-1), values)
    joined = g.add("Reshape", g.add("Transpose", mixed, perm=[0, 2, 1, 3]), g.constant(np.array([0, 0, HEADS * HEAD])))
    return g.product(joined, f"wo{layer}", HEADS * HEAD, WIDTH)


def repeated(g: Graph, x: str, groups: int) -> str:
    """The keys of groups for each head, as exporters write it."""
    each = HEADS // groups
    wide = g.add("Unsqueeze", x, g.constant(np.array([2])))
    wide = g.add("Expand", wide, g.constant(np.array([BATCH, groups, each, PAST + 1, HEAD])))
    return g.add("Reshape", wide, g.constant(np.array([BATCH, HEADS, PAST + 1, HEAD])))


def gpt2_layer(g: Graph, x: str, layer: int) -> str:
    x = g.add("Add", x, attend(g, layer_norm(g, x), layer, HEADS, rotary=False))
    hidden = g.add("Gelu", g.product(layer_norm(g, x), f"w1{layer}", WIDTH, 4 * WIDTH), approximate="tanh")
    return g.add("Add", x, g.product(hidden, f"w2{layer}", 4 * WIDTH, WIDTH))


def llama_layer(g: Graph, x: str, layer: int) -> str:
    x = g.add("Add", x, attend(g, rms_norm(g, x), layer, HEADS // 2, rotary=True))
    normed = rms_norm(g, x)
    gate, up = (g.product(normed, f"{name}{layer}", WIDTH, 2 * WIDTH) for name in ("w1", "wu"))
    gated = g.add("Mul", g.add("Mul", gate, g.add("Sigmoid", gate)), up)
    return g.add("Add", x, g.product(gated, f"w2{layer}", 2 * WIDTH, WIDTH))


DECODERS = {"gpt2": (gpt2_layer, HEADS), "llama": (llama_layer, HEADS // 2)}


def decoder(kind: str, devices: int) -> ModelProto:
    """One step of a decoder; columns of all that reads a normed value are divided, and rows of what follows."""
    layer, groups = DECODERS[kind]
    g = Graph()
    x = g.add("Gather", g.constant(weight(VOCABULARY, WIDTH)), "ids")
    for k in range(LAYERS):
        x = layer(g, x, k)
    g.add("MatMul", x, g.constant(weight(WIDTH, VOCABULARY)), name="logits")
    caches = [f"{part}{k}" for k in range(LAYERS) for part in ("k", "v")]
    inputs = {f"past_{name}": [BATCH, groups, PAST, HEAD] for name in caches}
    outputs = {f"{name}{'_' * (name[0] == 'v')}": [BATCH, groups, PAST + 1, HEAD] for name in caches}
    model = graph_model(g.nodes, inputs, {"logits": [BATCH, 1, VOCABULARY], **outputs}, g.constants, devices)
    model.graph.input.append(helper.make_tensor_value_info("ids", TensorProto.INT64, [BATCH, 1]))
    for each in model.graph.node:
        name = each.input[1] if each.op_type == "MatMul" else ""
        if name.startswith("w"):
            annotate(each, name, {int(name[1] not in "o2"): devices}, range(devices))
    return model


def decoder_feeds(kind: str) -> dict[str, np.ndarray]:
    """A token for each of the batch, and what the caches hold."""
    shape, random = (BATCH, DECODERS[kind][1], PAST, HEAD), np.random.default_rng(3)
    caches = [f"past_{part}{k}" for k in range(LAYERS) for part in "kv"]
    return {name: random.normal(size=shape).astype(np.float32) for name in caches} | {"ids": np.array([[1], [5], [11]])}


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("kind", DECODERS)
def test_a_decoder_reduces_twice_a_layer_and_caches_are_divided_by_heads(kind: str, devices: int) -> None:
    """Outputs are whole, so that each device brings its heads of the new caches to a gathering at the end."""
    model = decoder(kind, devices)
    feeds = decoder_feeds(kind)
    exe = onnxc.compile(model, config=CONFIG)
    made, expected = exe.run(feeds), whole(model).run(feeds)
    for name in expected:
        assert_close(np.asarray(made[name]), np.asarray(expected[name]), terms=256, magnitude=16.0)
    groups = DECODERS[kind][1]
    gathered = ("all_gather", BATCH * groups // devices * (PAST + 1) * HEAD * 4)
    reduced = ("all_reduce", BATCH * WIDTH * 4)
    assert sorted(map(str, exchanges(exe))) == sorted(map(str, [reduced] * 2 * LAYERS + [gathered] * 2 * LAYERS))
    shares = sum(array.nbytes for name, array in constants(model).items() if name.startswith("w"))
    # Folding makes tables of sines and cosines for the two halves of each head of q and k, which are divided, too.
    turning = 2 * BATCH * (HEADS + groups) * HEAD // 2 * 4 if kind == "llama" else 0
    assert told(exe)["share_bytes"] == [(shares + turning) // devices] * devices


def constants(model: ModelProto) -> Mapping[str, np.ndarray]:
    return {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}


# Experts


TOKENS, EXPERTS, SPACE = 8, 4, 2
FOUR = (0, 1, 2, 3)


def run_alike(model: ModelProto, inputs: Sequence[np.ndarray]) -> list[tuple[object, object]]:
    exe = onnxc.compile(model, config=CONFIG)
    assert_close(np.asarray(exe(*inputs)), np.asarray(whole(model)(*inputs)), terms=256, magnitude=16.0)
    return list(exchanges(exe))


def test_experts_that_all_see_all_tokens_are_one_sum() -> None:
    """Each device computes its expert for every token; the weighted sum over experts is one all_reduce."""
    g = Graph()
    gates = g.add("Softmax", g.product("x", "router", WIDTH, EXPERTS), axis=-1)
    hidden = g.add("Relu", g.product("x", "up", EXPERTS, WIDTH, 16))
    made = g.product(hidden, "down", EXPERTS, 16, WIDTH)
    weighed = g.add("Einsum", gates, made, equation="ne,end->nd", name="y")
    model = graph_model(g.nodes, {"x": [TOKENS, WIDTH]}, {weighed: [TOKENS, WIDTH]}, g.constants, 4)
    for each in model.graph.node:
        if each.input[-1] in ("up", "down"):
            annotate(each, each.input[-1], {0: 4}, FOUR)
    assert run_alike(model, [weight(TOKENS, WIDTH)]) == [("all_reduce", TOKENS * WIDTH * 4)]


def routed(devices: int) -> ModelProto:
    """Groups of tokens are divided, then experts, then groups again."""
    g, everyone = Graph(), range(devices)
    sent = g.add("Einsum", "to", "x", equation="gsec,gsd->egcd", name="sent")
    flat = g.add("Reshape", sent, g.constant(np.array([EXPERTS, -1, WIDTH])))
    made = g.product(g.add("Relu", g.product(flat, "up", EXPERTS, WIDTH, 16)), "down", EXPERTS, 16, WIDTH)
    back = g.add("Reshape", made, g.constant(np.array([EXPERTS, 4, SPACE, WIDTH])), name="back")
    g.add("Einsum", "to", back, equation="gsec,egcd->gsd", name="y")
    inputs = {"to": [4, TOKENS, EXPERTS, SPACE], "x": [4, TOKENS, WIDTH]}
    model = graph_model(g.nodes, inputs, {"y": [4, TOKENS, WIDTH]}, g.constants, devices)
    first, last = model.graph.node[0], model.graph.node[-1]
    annotate(first, "x", {0: devices}, everyone)
    annotate(first, "sent", {1: devices}, everyone)
    annotate(model.graph.node[1], "sent", {0: devices}, everyone)
    annotate(model.graph.node[-2], "back", {0: devices}, everyone)
    annotate(last, "back", {1: devices}, everyone)
    return model


def routes() -> np.ndarray:
    """To which experts and places each token of each group goes."""
    return np.random.default_rng(2).integers(0, 2, (4, TOKENS, EXPERTS, SPACE)).astype(np.float32)


def test_tokens_go_to_their_experts_and_back() -> None:
    """Two all_to_all, each of what a device has."""
    moved = ("all_to_all", EXPERTS * SPACE * WIDTH * 4)
    result = ("all_gather", TOKENS * WIDTH * 4)
    assert run_alike(routed(4), [routes(), weight(4, TOKENS, WIDTH)]) == [moved, moved, result]


# Images


def images(devices: int) -> ModelProto:
    """Two stages of a ResNet, divided by the batch."""
    g = Graph()

    def convolution(x: str, outputs: int, inputs: int, stride: int = 1) -> str:
        made = g.add("Conv", x, g.constant(weight(outputs, inputs, 3, 3) / 4), pads=[1] * 4, strides=[stride] * 2)
        scale, bias, mean, variance = (g.constant(np.abs(weight(outputs)) + 0.5) for _ in range(4))
        return g.add("BatchNormalization", made, scale, bias, mean, variance)

    stem = g.add("MaxPool", g.add("Relu", convolution("x", 8, 3)), kernel_shape=[2, 2], strides=[2, 2])
    block = g.add("Relu", g.add("Add", convolution(g.add("Relu", convolution(stem, 8, 8)), 8, 8), stem))
    down = g.add("Relu", convolution(block, 16, 8, stride=2))
    pooled = g.add("Flatten", g.add("GlobalAveragePool", down))
    g.add("Gemm", pooled, g.constant(weight(16, 10)), g.constant(weight(10)), name="y")
    model = graph_model(g.nodes, {"x": [8, 3, 16, 16]}, {"y": [8, 10]}, g.constants, devices)
    annotate(model.graph.node[0], "x", {0: devices}, range(devices))
    return model


def test_images_are_divided_by_the_batch_without_an_exchange_but_for_the_result() -> None:
    assert run_alike(images(4), [weight(8, 3, 16, 16)]) == [("all_gather", 2 * 10 * 4)]
