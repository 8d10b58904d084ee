"""A program of a number and a seed: a model, and calls of several sizes for one executable."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

from tests.differential.kinds import type_proto
from tests.whole_programs.pieces import MANNERS
from tests.whole_programs.scope import MOST_PIECES, Drawn, Scope, Whole, small_values

# The sizes of the calls in turn: none, one and more, larger before smaller and behind it.
SIZES = (3, 0, 1, 5, 1, 8)
OPSETS = (7, 8, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 17, 18, 19, 20, 21, 21, 22, 23, 24, 25, 26, 27, 28)


@dataclass(frozen=True)
class Program:
    """A model, what it is called with, and the names of its pieces."""

    number: int
    model: ModelProto
    calls: tuple[Mapping[str, np.ndarray], ...]
    pieces: tuple[str, ...]


def program(number: int, seed: int = 0) -> Program:
    """The program of this number; it is the same each time."""
    rng = np.random.default_rng([seed, number])
    manner = MANNERS[number % len(MANNERS)]
    whole = Whole(rng, int(rng.choice([opset for opset in OPSETS if opset >= least_opset(manner)])))
    scope = Scope(whole, None, manner)
    inputs = draw_inputs(scope)
    scope.fill(MOST_PIECES + 2)
    if any(tensor.kind == "tensor(string)" for tensor in scope.values):
        scope.fill(2)
    model = build_model(scope, inputs)
    return Program(number, model, draw_calls(inputs, rng), tuple(whole.pieces))


def least_opset(manner: object) -> int:
    """Special pieces are of late opsets alone: a program that could have none of them is nothing special."""
    return (7, 11, 7, 19, 13, 7, 7, 21, 17)[MANNERS.index(manner)]  # type: ignore[arg-type]


@dataclass(frozen=True)
class Input:
    """An input of the model: its shape with symbols, and the initializer that is its default, if any."""

    value: Drawn
    shape: tuple[str | int, ...]
    declared: ValueInfoProto
    default: TensorProto | None = None


def draw_inputs(scope: Scope) -> list[Input]:
    """A float and an integer vector, a matrix, and by chance a condition, texts and an input with a default."""
    given = [("x", "float", ("N",)), ("z", "int64", (scope.choose(["N", "M"]),))]
    if scope.flag(0.7):
        given.append(("m", scope.choose(["float", "int64"]), ("N", scope.choose(["K", 3]))))
    if scope.flag(0.3):
        given.append(("c", "bool", ()))
    if scope.flag(0.4):
        given.append(("k", scope.choose(["int64", "float"]), ()))
    if any(piece.name == "matched" for piece in scope.pieces):
        given.append(("s", "string", ("N",)))
    inputs = []
    for name, kind, shape in given:
        value = scope.add(name, kind, len(shape))
        default = None
        if shape == () and kind != "bool" and scope.flag(0.5):
            default = numpy_helper.from_array(small_values(scope.whole.rng, kind, ()), name)
        declared = list(shape) if scope.flag(0.8) else [None] * len(shape)
        info = helper.make_value_info(name, type_proto(value.kind, declared))
        inputs.append(Input(value, shape, info, default))
    return inputs


def draw_calls(inputs: list[Input], rng: np.random.Generator) -> tuple[Mapping[str, np.ndarray], ...]:
    """One call for each size; of inputs with a default every other one is left out."""
    calls = []
    for turn, size in enumerate(SIZES):
        sizes = {"N": size, "M": SIZES[turn - 2], "K": (turn + 1) % 4}
        feed = {}
        for given in inputs:
            if given.default is not None and turn % 2:
                continue
            shape = [sizes[axis] if isinstance(axis, str) else axis for axis in given.shape]
            feed[given.value.name] = small_values(rng, given.value.kind[7:-1], shape)
        calls.append(feed)
    return tuple(calls)


def build_model(scope: Scope, inputs: list[Input]) -> ModelProto:
    """The model whose outputs are some of the values: the last ones, and by chance an input or a constant."""
    made = [value for value in scope.values if value.name not in {given.value.name for given in inputs}]
    outputs = made[-4:]
    if scope.flag(0.15) or not outputs:
        outputs = [*outputs, inputs[0].value]
    if scope.flag(0.1):
        array = small_values(scope.whole.rng, "float", (2,))
        name = "fixed"
        scope.initializers.append(numpy_helper.from_array(array, name))
        outputs = [*outputs, Drawn(name, "tensor(float)", 1)]
    infos = [scope.declared(value) for value in {value.name: value for value in outputs}.values()]
    for given in inputs:
        if given.default is not None:
            scope.initializers.append(given.default)
    graph = helper.make_graph(scope.nodes, "main", [given.declared for given in inputs], infos, scope.initializers)
    opsets = [helper.make_opsetid("", scope.opset)]
    opsets += [helper.make_opsetid(domain, version) for domain, version in scope.whole.domains.items()]
    for opset in opsets:
        if opset.domain == "ai.onnx.ml":
            opset.version = 3 if scope.opset >= 15 else 1
    least = helper.find_min_ir_version_for([opsets[0]], ignore_unknown=True)
    if scope.whole.functions:
        least = max(least, 8)
    return helper.make_model(graph, opset_imports=opsets, ir_version=max(least, 4), functions=scope.whole.functions)
