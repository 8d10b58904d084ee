"""One case: a model of one operator and values for its inputs, made from (operator, version, number, seed)."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper
from onnx.defs import OpSchema, get_all_schemas_with_history
from onnx.shape_inference import InferenceError, infer_shapes

from tests.differential.draw import Constant, Draw, Parameter, Parts
from tests.differential.kinds import kind_of, type_proto
from tests.differential.recipes import RECIPES

Pair = tuple[str, str, int]

NEWEST = {"": 28, "ai.onnx.ml": 5, "ai.onnx.preview": 1, "ai.onnx.preview.training": 1}
IR_VERSION = 10
# Operators of which onnx infers wrong shapes for some attributes.
MISTAKEN = frozenset(("MaxPool", "AveragePool", "LpPool", "ConvTranspose", "Squeeze"))


@dataclass(frozen=True)
class Case:
    """A model, the values fed to it by name, and how its outputs are to be compared."""

    pair: Pair
    number: int
    seed: int
    model: ModelProto
    feeds: Mapping[str, object]
    parts: Parts
    types: Mapping[str, str]

    @property
    def name(self) -> str:
        return case_name(self.pair, self.number, self.seed)

    def describe(self) -> str:
        """The case in a line."""
        inputs = [describe(getattr(value, "value", value)) for value in self.parts.inputs]
        attributes = {
            name: value if isinstance(value, (int, float, str, list)) else type(value).__name__
            for name, value in self.parts.attributes.items()
        }
        opset = self.model.opset_import[0].version
        return (
            f"{self.name} opset {opset} {self.parts.outputs} {', '.join(inputs)} {attributes} feeds {list(self.feeds)}"
        )


def case_name(pair: Pair, number: int, seed: int) -> str:
    domain, operator, since = pair
    return f"{domain or 'ai.onnx'}.{operator}-{since}#{number}@{seed}"


def describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, list):
        return f"[{', '.join(map(describe, value))}]"
    return str(value)[:60]


@cache
def schemas() -> dict[Pair, OpSchema]:
    """Every version of every operator, in a fixed order."""
    found = {(s.domain, s.name, s.since_version): s for s in get_all_schemas_with_history()}
    return {pair: found[pair] for pair in sorted(found)}


@cache
def last_opset(pair: Pair) -> int:
    """The newest opset in which this version of the operator holds."""
    domain, name, since = pair
    later = [other for d, n, other in schemas() if (d, n) == (domain, name) and other > since]
    return min(later) - 1 if later else NEWEST[domain]


def drawable() -> tuple[Pair, ...]:
    """The pairs that have a recipe."""
    return tuple(pair for pair in schemas() if pair[:2] in RECIPES)


def make_case(pair: Pair, number: int, seed: int) -> Case:
    """The case of this number; consecutive numbers take each type of the first constraint in turn."""
    schema = schemas()[pair]
    rng = np.random.default_rng([zlib.crc32(repr(pair).encode()), number, seed])
    types = draw_types(schema, pair, number, seed, rng)
    opset = (
        schema.since_version if rng.random() < 0.6 else int(rng.integers(schema.since_version, last_opset(pair) + 1))
    )
    draw = Draw(rng, schema, opset, types)
    parts = RECIPES[pair[:2]](draw)
    model, feeds = build_model(draw, parts)
    return Case(pair, number, seed, model, feeds, parts, types)


def draw_types(schema: OpSchema, pair: Pair, number: int, seed: int, rng: np.random.Generator) -> dict[str, str]:
    types = {}
    for ordinal, constraint in enumerate(schema.type_constraints):
        options = sorted(constraint.allowed_type_strs)
        drawn = first_type(pair, number, seed) if ordinal == 0 else options[int(rng.integers(len(options)))]
        types[constraint.type_param_str] = drawn
    return types


def first_type(pair: Pair, number: int, seed: int) -> str:
    """The type of the first constraint in the case of this number: each has its turn."""
    options = sorted(schemas()[pair].type_constraints[0].allowed_type_strs)
    turns = np.random.default_rng([zlib.crc32(repr(pair).encode()), seed]).permutation(len(options))
    return options[int(turns[number % len(options)])]


def build_model(draw: Draw, parts: Parts) -> tuple[ModelProto, dict[str, object]]:
    """The model, and what is fed to it; some inputs become initializers, some sizes symbols."""
    schema = draw.schema
    names, feeds, infos, initializers = [], {}, [], []
    is_symbolic = draw.flag(0.4)
    opsets = [helper.make_opsetid(schema.domain, draw.opset)]
    if schema.domain:
        opsets.append(helper.make_opsetid("", 18))
    least = min(helper.find_min_ir_version_for(opsets, ignore_unknown=True), 14)
    ir_version = least if draw.flag() else max(least, IR_VERSION)
    for place, given in enumerate(parts.inputs):
        name = f"in{place}" if given is not None else ""
        names.append(name)
        if given is None:
            continue
        value = given.value if isinstance(given, (Parameter, Constant)) else given
        value = np.asarray(value) if isinstance(value, np.generic) else value
        chance = {Parameter: 0.6, Constant: 1.0}.get(type(given), 0.12)
        is_tensor = isinstance(value, np.ndarray)
        kind = parts.input_kinds.get(place) or kind_of(value)
        shape = (
            [f"{name}_{i}" if is_symbolic and draw.flag(0.8) else n for i, n in enumerate(np.shape(value))]
            if is_tensor
            else None
        )
        is_constant = is_tensor and draw.flag(chance) and kind.startswith("tensor(")
        if is_constant:
            initializers.append(numpy_helper.from_array(value, name))
            shape = list(value.shape)
        else:
            feeds[name] = value
        if not is_constant or ir_version < 4:
            infos.append(helper.make_value_info(name, type_proto(kind, shape if kind.startswith("tensor(") else None)))
    for name, value in parts.captured.items():
        infos.append(helper.make_value_info(name, type_proto(kind_of(value), list(value.shape))))
        feeds[name] = value
    results = output_names(parts)
    node = helper.make_node(schema.name, names, results, "node", domain=schema.domain)
    node.attribute.extend(
        helper.make_attribute(name, value, attr_type=int(schema.attributes[name].type.value))
        for name, value in sorted(parts.attributes.items())
    )
    kinds = output_kinds(draw, parts, len(results))
    outputs = [
        helper.make_value_info(name, type_proto(kind)) for name, kind in zip(results, kinds, strict=True) if name
    ]
    graph = helper.make_graph([node], "main", infos, outputs, initializers)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
    return with_declared_shapes(model) if schema.name not in MISTAKEN and draw.flag(0.3) else model, feeds


def with_declared_shapes(model: ModelProto) -> ModelProto:
    """The model with the shapes of its outputs declared, as far as onnx infers them."""
    try:
        return infer_shapes(model)
    except InferenceError:
        return model


def output_names(parts: Parts) -> list[str]:
    if isinstance(parts.outputs, int):
        return [f"out{i}" for i in range(parts.outputs)]
    return list(parts.outputs)


def output_kinds(draw: Draw, parts: Parts, count: int) -> list[str]:
    """The types of the outputs, as the schema binds them."""
    formals = draw.schema.outputs
    kinds = []
    for place in range(count):
        formal = formals[min(place, len(formals) - 1)]
        kinds.append(parts.kinds.get(place) or draw.types.get(formal.type_str) or formal.type_str)
    return kinds


assert onnx.defs.onnx_opset_version() >= NEWEST[""]
