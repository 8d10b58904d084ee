"""A small decoder as exporters for ONNX Runtime write it: GroupQueryAttention, and weights of 4 bits in MatMulNBits."""

from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
HEADS, GROUPS, DEPTH, WIDTH, INNER, VOCABULARY, LAYERS, LONGEST = 8, 2, 32, 256, 512, 1024, 2, 128
BLOCK = 32


@dataclass
class _Graph:
    rng: np.random.Generator
    nodes: list[NodeProto] = field(default_factory=list)
    weights: list[TensorProto] = field(default_factory=list)

    def weight(self, name: str, value: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def gain(self, name: str) -> str:
        return self.weight(name, self.rng.uniform(0.5, 1.5, WIDTH).astype(np.float32))

    def node(
        self,
        operator: str,
        inputs: list[str],
        outputs: list[str],
        domain: str = MICROSOFT,
        **attributes: object,
    ) -> str:
        self.nodes.append(helper.make_node(operator, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def product(self, x: str, name: str, k: int, n: int) -> str:
        """x times a matrix of 4 bits, in blocks of 32 along k with a scale each."""
        blocks = self.rng.integers(0, 256, (n, k // BLOCK, BLOCK // 2)).astype(np.uint8)
        scales = self.rng.uniform(0.2, 1.0, (n, k // BLOCK)).astype(np.float32) / (4 * np.float32(k) ** 0.5)
        inputs = [x, self.weight(f"{name}.blocks", blocks), self.weight(f"{name}.scales", scales)]
        return self.node("MatMulNBits", inputs, [f"{name}.y"], K=k, N=n, bits=4, block_size=BLOCK)

    def normal(self, x: str, skip: str, name: str) -> tuple[str, str]:
        """The normalised sum of both, and the sum."""
        outputs = [f"{name}.y", "", "", f"{name}.sum"]
        self.node("SkipSimplifiedLayerNormalization", [x, skip, self.gain(name)], outputs, epsilon=1e-5)
        return outputs[0], outputs[3]

    def layer(self, x: str, skip: str, index: int) -> tuple[str, str]:
        """The output of a block and what is added to it next, of its input and what is added to that."""
        name = f"layer{index}"
        h, total = self.normal(x, skip, f"{name}.norm")
        q = self.product(h, f"{name}.q", WIDTH, HEADS * DEPTH)
        k, v = (self.product(h, f"{name}.{part}", WIDTH, GROUPS * DEPTH) for part in "kv")
        inputs = [q, k, v, f"past.{index}.key", f"past.{index}.value", "ends", "total", "cos", "sin"]
        outputs = [f"{name}.attention", f"present.{index}.key", f"present.{index}.value"]
        mixed = self.node("GroupQueryAttention", inputs, outputs, num_heads=HEADS, kv_num_heads=GROUPS, do_rotary=1)
        o = self.product(mixed, f"{name}.o", HEADS * DEPTH, WIDTH)
        h, total = self.normal(o, total, f"{name}.norm2")
        gate, up = (self.product(h, f"{name}.{part}", WIDTH, INNER) for part in ("gate", "up"))
        sigmoid = self.node("Sigmoid", [gate], [f"{name}.sigmoid"], "")
        silu = self.node("Mul", [gate, sigmoid], [f"{name}.silu"], "")
        inner = self.node("Mul", [silu, up], [f"{name}.inner"], "")
        return self.product(inner, f"{name}.down", INNER, WIDTH), total


def small_llama() -> ModelProto:
    """ids [batch, sequence], the caches, ends [batch] and total -> logits and the caches after the step."""
    graph = _Graph(np.random.default_rng(0))
    phase = np.arange(LONGEST)[:, None] / 10000.0 ** (np.arange(DEPTH // 2) * 2 / DEPTH)
    graph.weight("cos", np.cos(phase).astype(np.float32))
    graph.weight("sin", np.sin(phase).astype(np.float32))
    table = graph.weight("table", graph.rng.standard_normal((VOCABULARY, WIDTH)).astype(np.float32))
    x = graph.node("Gather", [table, "ids"], ["embedded"], "")
    skip = graph.node("Sub", [x, x], ["zeros"], "")
    for index in range(LAYERS):
        x, skip = graph.layer(x, skip, index)
    h, _ = graph.normal(x, skip, "norm")
    logits = graph.product(h, "head", WIDTH, VOCABULARY)
    caches = [
        (f"{kind}.{index}.{part}", kind)
        for kind in ("past", "present")
        for index in range(LAYERS)
        for part in ("key", "value")
    ]
    infos = {name: _info(name, TensorProto.FLOAT, ["batch", GROUPS, kind, DEPTH]) for name, kind in caches}
    inputs = [
        _info("ids", TensorProto.INT64, ["batch", "sequence"]),
        *(info for name, info in infos.items() if name.startswith("past")),
        _info("ends", TensorProto.INT32, ["batch"]),
        _info("total", TensorProto.INT32, []),
    ]
    outputs = [_info(logits, TensorProto.FLOAT, ["batch", "sequence", VOCABULARY])]
    outputs += [info for name, info in infos.items() if name.startswith("present")]
    made = helper.make_graph(graph.nodes, "small_llama", inputs, outputs, graph.weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=10)


def _info(name: str, kind: int, shape: list[int | str]) -> helper.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def small_llama_feeds(batch: int, past: int) -> dict[str, np.ndarray]:
    """A step of one token behind `past` others, which may be none: then a prompt of eight."""
    rng = np.random.default_rng(1)
    length = 1 if past else 8
    caches = {
        f"past.{index}.{part}": rng.standard_normal((batch, GROUPS, past, DEPTH)).astype(np.float32)
        for index in range(LAYERS)
        for part in ("key", "value")
    }
    return {
        "ids": rng.integers(0, VOCABULARY, (batch, length)),
        **caches,
        "ends": np.full(batch, past + length - 1, np.int32),
        "total": np.array(past + length, np.int32),
    }
