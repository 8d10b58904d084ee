"""A Llama decoder without its weights: a model whose external data is in a file that nobody has, for `onnxc simulate`.

    python -m benchmarks.models.llama_outline llama70b.onnx
    onnxc simulate llama70b.onnx --tp 8 --pp 8 --dp 16 --target cuda:sm_90 --network alpha=5e-6,beta=2e-11 \
        --dim batch=64 --dim sequence=2048
"""

import sys
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

from onnx import ModelProto, NodeProto, TensorProto, helper

__all__ = ["LLAMA_70B", "Llama", "llama_outline"]

BF16_BYTES = 2


@dataclass(frozen=True)
class Llama:
    """The sizes of a decoder; `groups` heads of keys and values are for `heads` of queries."""

    layers: int
    width: int
    heads: int
    groups: int
    inner: int
    vocabulary: int

    @property
    def weights(self) -> int:
        """How many there are."""
        head = self.width // self.heads
        layer = 2 * self.width * (self.width + self.groups * head) + 3 * self.width * self.inner + 2 * self.width
        return self.layers * layer + 2 * self.vocabulary * self.width + self.width


LLAMA_70B = Llama(80, 8192, 64, 8, 28672, 128256)


@dataclass
class _Graph:
    nodes: list[NodeProto] = field(default_factory=list)
    tensors: list[TensorProto] = field(default_factory=list)
    end: int = 0

    def weight(self, *shape: int) -> str:
        """The name of a matrix or a vector of bf16."""
        tensor = TensorProto(name=f"w{len(self.tensors)}", data_type=TensorProto.BFLOAT16, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        length = BF16_BYTES * prod(shape)
        for key, value in (("location", "weights.bin"), ("offset", self.end), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        self.end += length
        self.tensors.append(tensor)
        return tensor.name

    def node(self, operator: str, *inputs: str, name: str = "", **attributes: int) -> str:
        """The name of the only output of a node."""
        made = name or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [made], **attributes))
        return made

    def product(self, x: str, rows: int, columns: int, name: str = "") -> str:
        return self.node("MatMul", x, self.weight(rows, columns), name=name)

    def normal(self, x: str, width: int) -> str:
        return self.node("RMSNormalization", x, self.weight(width), axis=-1)

    def layer(self, x: str, sizes: Llama) -> str:
        """A block: attention and an MLP, each added to what it reads."""
        width, keys = sizes.width, sizes.groups * sizes.width // sizes.heads
        h = self.normal(x, width)
        q, k, v = (self.product(h, width, columns) for columns in (width, keys, keys))
        mixed = self.node("Attention", q, k, v, q_num_heads=sizes.heads, kv_num_heads=sizes.groups, is_causal=1)
        x = self.node("Add", x, self.product(mixed, width, width))
        h = self.normal(x, width)
        gate, up = self.product(h, width, sizes.inner), self.product(h, width, sizes.inner)
        silu = self.node("Mul", gate, self.node("Sigmoid", gate))
        return self.node("Add", x, self.product(self.node("Mul", silu, up), sizes.inner, width))


def llama_outline(sizes: Llama) -> ModelProto:
    """ids [batch, sequence] -> logits [batch, sequence, vocabulary]; without rotary embeddings and caches."""
    graph = _Graph()
    x = graph.node("Gather", graph.weight(sizes.vocabulary, sizes.width), "ids")
    for _ in range(sizes.layers):
        x = graph.layer(x, sizes)
    graph.product(graph.normal(x, sizes.width), sizes.width, sizes.vocabulary, name="logits")
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "sequence"])
    logits = helper.make_tensor_value_info("logits", TensorProto.BFLOAT16, ["batch", "sequence", sizes.vocabulary])
    made = helper.make_graph(graph.nodes, "llama", [ids], [logits], graph.tensors)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(llama_outline(LLAMA_70B).SerializeToString())
