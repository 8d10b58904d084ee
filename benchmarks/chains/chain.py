"""A graph that grows by operators: its values with their shapes, its inputs and its constants."""

import random
from collections.abc import Sequence
from math import prod

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnxc.runtime.records import record

OPSET, IR_VERSION = 21, 10

FEWEST, MOST = 20_000, 600_000
"""The elements of an input: enough to be worth measuring, few enough for hundreds of chains in minutes."""

SYMBOLIC = 0.35
"""The part of chains whose sizes are symbols."""

KINDS = ("image", "image", "tokens", "tokens", "volume", "rows", "sound")

LAST = 0.75
"""How often an operator goes on with the last value, and not with any other."""


@record
class Tensor:
    """A value of f32 and its shape in the calls that are timed."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(self.shape)


class Chain:
    """The graph of a seed. `steps` add nodes to it; each is drawn with `random`, constants with `rng`."""

    def __init__(self, seed: int) -> None:
        self.random, self.rng = random.Random(seed), np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[Tensor] = []
        self.values: list[Tensor] = []
        self.is_symbolic = self.random.random() < SYMBOLIC
        self.kind = self.random.choice(KINDS)
        self._constants: list[onnx.TensorProto] = []
        self.new_input(_sized(_drawn_shape(self.kind, self.random)))

    # What steps are made of

    def new_input(self, shape: Sequence[int]) -> Tensor:
        """A further input of the graph."""
        self.inputs.append(Tensor(f"x{len(self.inputs)}", tuple(shape)))
        self.values.append(self.inputs[-1])
        return self.inputs[-1]

    def add(self, operator: str, inputs: Sequence[str | Tensor], shape: Sequence[int], **attributes: object) -> Tensor:
        """A node with one result of a known shape."""
        return self.add_several(operator, inputs, [shape], **attributes)[0]

    def add_several(
        self, operator: str, inputs: Sequence[str | Tensor], shapes: Sequence[Sequence[int]], **attributes: object
    ) -> list[Tensor]:
        """A node with several results."""
        made = [Tensor(f"v{len(self.nodes)}_{k}", tuple(shape)) for k, shape in enumerate(shapes)]
        names = [each if isinstance(each, str) else each.name for each in inputs]
        self.nodes.append(helper.make_node(operator, names, [each.name for each in made], **attributes))
        self.values += made
        return made

    def forget(self, tensor: Tensor) -> None:
        """Keeps later steps from a value that is not f32."""
        self.values.remove(tensor)

    def constant(self, array: np.ndarray | np.generic) -> str:
        self._constants.append(numpy_helper.from_array(np.asarray(array), f"c{len(self._constants)}"))
        return self._constants[-1].name

    def scalar(self, value: float) -> str:
        return self.constant(np.float32(value))

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def weights(self, *shape: int, terms: int = 1) -> str:
        """Normal numbers such that sums of so many products with them are as large as what they multiply."""
        return self.constant((self.rng.standard_normal(shape) / np.sqrt(terms)).astype(np.float32))

    def pick(self) -> Tensor:
        """The value that the next operator reads, one with axes: mostly the last."""
        values = [each for each in self.values if each.shape]
        return values[-1] if self.random.random() < LAST else self.random.choice(values)

    def others_of(self, tensor: Tensor) -> list[Tensor]:
        """Other values of the same shape."""
        return [each for each in self.values if each.shape == tensor.shape and each.name != tensor.name]

    # What comes of it

    def model(self) -> onnx.ModelProto | None:
        """The model, whose results are what nothing reads; None where nothing was added."""
        read = {name for node in self.nodes for name in node.input}
        made = {name for node in self.nodes for name in node.output}
        results = [each for each in self.values if each.name in made - read]
        if not results:
            return None
        graph = helper.make_graph(
            self.nodes,
            "chain",
            [helper.make_tensor_value_info(each.name, TensorProto.FLOAT, self._declared(each)) for each in self.inputs],
            [helper.make_tensor_value_info(each.name, TensorProto.FLOAT, [None] * len(each.shape)) for each in results],
            self._constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)

    def feeds(self) -> dict[str, np.ndarray]:
        """Normal numbers for the inputs."""
        return {each.name: self.rng.standard_normal(each.shape).astype(np.float32) for each in self.inputs}

    def _declared(self, tensor: Tensor) -> list[int | str]:
        """A shape as the model declares it: batch and positions are symbols where sizes are, channels never."""
        channels = {"image": 1, "volume": 1, "sound": 1, "tokens": 2, "rows": 1}[self.kind]
        return [f"d{axis}" if self.is_symbolic and axis != channels else n for axis, n in enumerate(tensor.shape)]


def _drawn_shape(kind: str, drawn: random.Random) -> list[int]:
    match kind:
        case "image":
            height = drawn.choice([7, 14, 16, 28, 32, 56, 64, 112])
            channels = drawn.choice([3, 8, 16, 24, 32, 48, 64, 96, 128, 256])
            return [drawn.choice([1, 1, 1, 2, 4, 8]), channels, height, drawn.choice([height, height, height + 3])]
        case "tokens":
            count = drawn.choice([1, 10, 16, 49, 64, 77, 128, 196, 197, 256, 384])
            return [drawn.choice([1, 1, 2, 4, 8]), count, drawn.choice([32, 64, 96, 128, 192, 256, 384, 512, 768])]
        case "volume":
            sizes = [drawn.choice(each) for each in ((4, 8, 16, 32), (4, 8, 16), (8, 14, 16, 28), (8, 16, 28))]
            return [drawn.choice([1, 2]), *sizes]
        case "sound":
            channels = drawn.choice([1, 16, 40, 64, 80, 128, 256])
            return [drawn.choice([1, 1, 2, 4]), channels, drawn.choice([100, 160, 400, 1000, 1600, 4000])]
        case _:
            return [drawn.choice([1, 16, 50, 100, 1000, 4096]), drawn.choice([4, 10, 30, 64, 100, 256, 1000])]


def _sized(shape: list[int]) -> list[int]:
    """A shape with some sizes doubled or halved, so that it is neither small nor large."""
    while prod(shape) < FEWEST:
        shape[int(np.argmin(shape))] *= 2
    while prod(shape) > MOST:
        shape[int(np.argmax(shape))] //= 2
    return shape
