"""Random graphs with random annotations: each device gives what the whole gives."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper

import onnxc
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.interpreter import interpret
from tests.sharding.annotated import CONFIG, annotate, graph_model, run_on_virtual_devices
from tests.support.arrays import assert_close

# Ranks and sizes that divide by 2, by 4, and by neither.
SIZES = (1, 2, 3, 4, 5, 8)
GRIDS = {2: ((2,),), 4: ((4,), (2, 2)), 6: ((2, 3),)}
GRAPHS = 60


@dataclass
class Draw:
    """A graph while it is drawn: values of known shapes, and nodes; small integers, so that sums are exact.

    inner: the shapes of values that later steps do not read, those in bodies among them.
    """

    random: np.random.Generator
    values: dict[str, tuple[int, ...]] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inner: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def value(self) -> str:
        """One of the values, the last ones more often."""
        names = list(self.values)
        return names[-1 - min(int(self.random.exponential(1.5)), len(names) - 1)]

    def constant(self, *shape: int) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = self.random.integers(-1, 2, shape).astype(np.float32)
        return name

    def add(self, operator: str, inputs: Sequence[str], shape: Sequence[int], **attributes: object) -> None:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        self.values[name] = tuple(shape)


def _unary(draw: Draw, x: str, shape: tuple[int, ...]) -> None:
    draw.add(str(draw.random.choice(["Relu", "Neg", "Abs", "Sign"])), [x], shape)


def _product(draw: Draw, x: str, shape: tuple[int, ...]) -> None:
    columns = int(draw.random.choice(SIZES))
    draw.add("MatMul", [x, draw.constant(shape[-1], columns)], (*shape[:-1], columns))
    # Signs, so that numbers stay small.
    draw.add("Sign", [list(draw.values)[-1]], (*shape[:-1], columns))


def _sum(draw: Draw, x: str, shape: tuple[int, ...]) -> None:
    others = [name for name, other in draw.values.items() if other == shape]
    draw.add(str(draw.random.choice(["Add", "Sub", "Max"])), [x, str(draw.random.choice(others))], shape)


def _bias(draw: Draw, x: str, shape: tuple[int, ...]) -> None:
    draw.add("Mul", [x, draw.constant(shape[-1])], shape)


def _transpose(draw: Draw, x: str, shape: tuple[int, ...]) -> None:
    order = [int(axis) for axis in draw.random.permutation(len(shape))]
    draw.add("Transpose", [x], [shape[axis] for axis in order], perm=order)


def _reduce(draw: Draw, x: str, shape: tuple[int, ...]) -> None:
    axis = int(draw.random.integers(len(shape)))
    draw.constants[f"a{len(draw.nodes)}"] = np.array([axis])
    operator = str(draw.random.choice(["ReduceSum", "ReduceMax", "ReduceMin"]))
    draw.add(operator, [x, f"a{len(draw.nodes)}"], (*shape[:axis], 1, *shape[axis + 1 :]), keepdims=1)


def _merge(draw: Draw, x: str, shape: tuple[int, ...]) -> None:
    merged = (shape[0] * shape[1], *shape[2:], 1)
    draw.constants[f"s{len(draw.nodes)}"] = np.array(merged)
    draw.add("Reshape", [x, f"s{len(draw.nodes)}"], merged)


def _split(draw: Draw, x: str, shape: tuple[int, ...]) -> None:
    factor = next(k for k in (4, 2, 3, 1) if shape[0] % k == 0)
    split = (factor, shape[0] // factor, *shape[1:])
    draw.constants[f"s{len(draw.nodes)}"] = np.array(split)
    draw.add("Reshape", [x, f"s{len(draw.nodes)}"], split)


def _concat(draw: Draw, x: str, shape: tuple[int, ...]) -> None:
    axis = int(draw.random.integers(len(shape)))
    draw.add("Concat", [x, x], (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]), axis=axis)


def _gather(draw: Draw, x: str, shape: tuple[int, ...]) -> None:
    axis = int(draw.random.integers(len(shape)))
    indices = draw.random.integers(0, shape[axis], int(draw.random.choice(SIZES)))
    draw.constants[f"i{len(draw.nodes)}"] = indices
    draw.add("Gather", [x, f"i{len(draw.nodes)}"], (*shape[:axis], len(indices), *shape[axis + 1 :]), axis=axis)


def _branch(draw: Draw, x: str, shape: tuple[int, ...]) -> None:
    name, square = f"b{len(draw.nodes)}", draw.constant(shape[-1], shape[-1])
    out = [helper.make_tensor_value_info(name, 1, shape)]
    product = [helper.make_node("MatMul", [x, square], [f"{name}m"]), helper.make_node("Sign", [f"{name}m"], [name])]
    parts = [helper.make_graph(nodes, "branch", [], out) for nodes in (product, [helper.make_node("Neg", [x], [name])])]
    draw.inner |= {name: shape, f"{name}m": shape}
    draw.constants[f"t{len(draw.nodes)}"] = np.array(bool(draw.random.integers(2)))
    taken = f"t{len(draw.nodes)}"
    if draw.random.random() < 0.5:
        # What decides is only known at the call: else one branch is all there is.
        draw.nodes.append(helper.make_node("ReduceSum", [x], [f"{name}s"], keepdims=0))
        draw.nodes.append(helper.make_node("Cast", [f"{name}s"], [f"{name}c"], to=9))
        draw.inner |= {f"{name}s": (), f"{name}c": ()}
        taken = f"{name}c"
    draw.add("If", [taken], shape, then_branch=parts[0], else_branch=parts[1])


def _loop(draw: Draw, x: str, shape: tuple[int, ...]) -> None:
    name, square = f"l{len(draw.nodes)}", draw.constant(shape[-1], shape[-1])
    inner = [f"{name}{part}" for part in "igponq"]
    types = [(7, ()), (9, ()), (1, shape), (9, ()), (1, shape), (1, shape)]
    i, go, p, on, m, q = (helper.make_tensor_value_info(each, *type) for each, type in zip(inner, types, strict=True))
    nodes = [
        helper.make_node("Identity", [go.name], [on.name]),
        helper.make_node("MatMul", [p.name, square], [m.name]),
        helper.make_node("Sign", [m.name], [q.name]),
    ]
    draw.inner |= {each: dims for each, (_, dims) in zip(inner, types, strict=True)}
    draw.constants[f"n{len(draw.nodes)}"] = np.array(int(draw.random.integers(3)))
    draw.add("Loop", [f"n{len(draw.nodes)}", "", x], shape, body=helper.make_graph(nodes, "body", [i, go, p], [on, q]))


STEPS: tuple[Callable[[Draw, str, tuple[int, ...]], None], ...] = (
    _unary, _product, _product, _sum, _bias, _transpose, _reduce, _merge, _split, _concat, _gather, _branch, _loop,
)  # fmt: skip
MOST_ELEMENTS = 400


def random_model(seed: int) -> ModelProto:
    """A model of up to ten steps, of which about half say how their tensors are divided."""
    draw = Draw(np.random.default_rng(seed))
    inputs = {f"x{k}": tuple(int(size) for size in draw.random.choice(SIZES, 2 + k)) for k in range(2)}
    draw.values.update(inputs)
    for _ in range(int(draw.random.integers(3, 11))):
        x = draw.value()
        shape = draw.values[x]
        if len(shape) >= 2 and np.prod(shape) <= MOST_ELEMENTS:
            STEPS[int(draw.random.integers(len(STEPS)))](draw, x, shape)
    if not draw.nodes:
        _unary(draw, "x0", inputs["x0"])
    last = [name for name in draw.values if name not in inputs][-2:]
    devices = int(draw.random.choice(list(GRIDS)))
    model = graph_model(draw.nodes, inputs, {name: draw.values[name] for name in last}, draw.constants, devices)
    grid = GRIDS[devices][int(draw.random.integers(len(GRIDS[devices])))]
    shapes = {**draw.values, **draw.inner, **{name: array.shape for name, array in draw.constants.items()}}
    for node in model.graph.node:
        _annotate(node, shapes, grid, draw.random)
    return model


def _annotate(
    node: onnx.NodeProto, shapes: dict[str, tuple[int, ...]], grid: tuple[int, ...], random: np.random.Generator
) -> None:
    for name in sorted({name for name in (*node.input, *node.output) if name}):
        if random.random() < 0.35:
            _say(node, name, len(shapes[name]), grid, random)
    for attribute in node.attribute:
        for inner in attribute.g.node:
            _annotate(inner, shapes, grid, random)


def _say(node: onnx.NodeProto, name: str, rank: int, grid: tuple[int, ...], random: np.random.Generator) -> None:
    """A division of a tensor along some axes of the grid, each by one or more of its own; the rest hold copies."""
    axes = [int(axis) for axis in random.permutation(len(grid))[: int(random.integers(len(grid) + 1))]]
    targets = {axis: int(random.integers(rank)) for axis in axes} if rank else {}
    divided: dict[int, list[int]] = {}
    for axis, target in targets.items():
        divided.setdefault(target, []).append(axis)
    order = [axis for target in sorted(divided) for axis in divided[target]]
    shape = tuple(grid[axis] for axis in order)
    holders: dict[int, list[int]] = {}
    for device, place in enumerate(itertools.product(*map(range, grid))):
        cell = int(np.ravel_multi_index([place[axis] for axis in order], shape)) if order else 0
        holders.setdefault(cell, []).append(device)
    division = {target: int(np.prod([grid[axis] for axis in divided[target]])) for target in sorted(divided)}
    cells = [holders[cell] for cell in range(len(holders))]
    if all(len(members) == 1 for members in cells):
        annotate(node, name, division, [members[0] for members in cells])
    else:
        keys = [-1 - index for index in range(len(cells))]
        annotate(node, name, division, keys, dict(zip(keys, cells, strict=True)))


def feeds(model: ModelProto) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    shapes = {info.name: [dim.dim_value for dim in info.type.tensor_type.shape.dim] for info in model.graph.input}
    return {name: random.integers(-2, 3, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_a_random_division_changes_no_result(seed: int) -> None:
    prove(seed)


def prove(seed: int) -> None:
    """All numbers are small integers, so that results are equal to the bit."""
    model = random_model(seed)
    inputs = feeds(model)
    expected = interpret(lower_model(check_model(read_model(model))), inputs)
    for made in run_on_virtual_devices(model, inputs):
        for actual, whole in zip(made, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(actual), np.asarray(whole), strict=True)


@pytest.mark.parametrize("seed", range(1000, 1005))
def test_native_code_gives_the_same(seed: int) -> None:
    model = random_model(seed)
    inputs = feeds(model)
    expected = interpret(lower_model(check_model(read_model(model))), inputs)
    made = onnxc.compile(model, config=CONFIG).run(inputs)
    for actual, whole in zip(made.values(), expected, strict=True):
        assert_close(np.asarray(actual), np.asarray(whole))


def test_most_of_the_models_exchange_something() -> None:
    """A generator whose annotations came to nothing would prove nothing."""
    named = [sum(bool(node.device_configurations) for node in random_model(seed).graph.node) for seed in range(GRAPHS)]
    assert sum(count > 0 for count in named) > GRAPHS // 2
