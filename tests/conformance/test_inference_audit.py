"""Sizes that inference leaves open although the sizes of the inputs tell them: none, of the operators that could.

Every official case has a symbol for each size of its inputs; small inputs that are shapes, axes or scales are
constants, so that what is left open is open for a reason, which a table names.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper

from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.graph import CheckedModel, Graph
from onnxc.compiler.frontend.infer import InferredTypes, TypedValue, infer_types
from onnxc.compiler.frontend.joining.joined_types import is_rankless
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.types import OptionalType, SequenceType, TensorType, Type
from tests.conformance.test_inference import cases, feed, symbolic
from tests.frontend.test_infer_shapes import model_of
from tests.support.probes import disagreements

REASONS: Mapping[str, str] = {
    "an input": "an input is a sequence, whose elements may be of any shape",
    "ConstantOfShape": "the shape is an input of the graph",
    "GatherND": "the length of the indices is the number of axes that they name",
    "If": "the branches give sequences of different elements",
    "ImageDecoder": "the file tells",
    "Loop": "the number of iterations is data, or elements of a sequence differ",
    "MelWeightMatrix": "the number of bands is an input of the graph",
    "NonMaxSuppression": "scores tell",
    "NonZero": "data tells",
    "Range": "the limits are inputs of 16 bits, which are not made constants here",
    "Resize": "a size times a scale is rounded in f32, a proportion in f64",
    "Scan": "the initial state and what an iteration makes of it have sizes with names of their own",
    "SequenceConstruct": "the elements differ",
    "SequenceEmpty": "there are no elements",
    "SequenceInsert": "the elements differ",
    "Slice": "within a loop the number of the iteration decides",
    "SplitToSequence": "the elements differ",
    "StringNormalizer": "texts tell",
    "StringSplit": "texts tell",
    "Unique": "data tells",
    "a value of a body": "a loop carries what changes its size",
}
"""What leaves a size or a rank to data, and why."""

SHARDS = 4
SMALL = 16


def with_constants(model: ModelProto, inputs: Mapping[str, object]) -> ModelProto:
    """The model with its small inputs of rank 0 and 1 as initializers, save the first."""
    changed = ModelProto()
    changed.CopyFrom(model)
    for info in model.graph.input[1 if len(model.graph.input) > 1 else 0 :] if model.ir_version >= 4 else ():
        value = inputs.get(info.name)
        is_small = isinstance(value, np.ndarray) and value.ndim <= 1 and value.size <= SMALL
        if is_small and value.dtype.name in ("float32", "float64", "int32", "int64", "bool"):
            changed.graph.initializer.append(numpy_helper.from_array(value, info.name))
            changed.graph.input.remove(info)
    return changed


def is_open(type: Type, bound: frozenset[str]) -> bool:
    if isinstance(type, SequenceType | OptionalType):
        return is_open(type.element, bound)
    if not isinstance(type, TensorType):
        return False
    return is_rankless(type) or any(not symbols_of(dim) <= bound for dim in type.known_shape)


def sources(graph: Graph) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """For each value of a graph and those in it: its name, what makes it, and of what."""
    for info in graph.inputs:
        yield info.name, "an input" if graph.path == "main" else "a value of a body", ()
    for node in graph.nodes:
        yield from ((name, node.operator, node.inputs) for name in node.outputs)
        for inner in node.subgraphs():
            yield from sources(inner)


def left_open(model: ModelProto) -> tuple[int, list[tuple[str, TypedValue]]]:
    """How many values there are, and those that are the first on their way to be left open, with what makes them."""
    checked: CheckedModel = check_model(read_model(model))
    types: InferredTypes = infer_types(checked)
    made = {name: (operator, inputs) for name, operator, inputs in sources(checked.graph)}
    opened = {value.name for value in types.values if is_open(value.type, types.bound)}
    first = []
    for value in types.values:
        operator, inputs = made.get(value.name, ("a constant", ()))
        if value.name in opened and opened.isdisjoint(inputs):
            first.append((operator, value))
    return len(types.values), first


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_what_is_left_open_has_a_reason(shard: int) -> None:
    total, found, wrong = 0, Counter[str](), {}
    for case in cases()[shard::SHARDS]:
        model, inputs = feed(case)
        count, first = left_open(symbolic(with_constants(model, inputs)))
        total += count
        found.update(operator for operator, _ in first)
        unexplained = [f"{operator}: {value}" for operator, value in first if operator not in REASONS]
        if unexplained:
            wrong[case.name] = unexplained
    assert not wrong
    assert total > 1000
    assert found.total() < total / 40


FOLLOWED: Mapping[str, tuple[str, str]] = {
    "scaled in floats": (
        """(float[N, L] x) => (y) { s = Shape <start = 1> (x) f = Cast <to = 1> (s) k = Constant <value_float = 0.5> ()
           g = Mul (f, k) h = Floor (g) i = Cast <to = 7> (h) y = ConstantOfShape (i) }""",
        "floordiv(L, 2)",
    ),
    "divided and rounded up": (
        """(float[N, L] x) => (y) { s = Shape <start = 1> (x) f = Cast <to = 1> (s) k = Constant <value_float = 4.0> ()
           g = Div (f, k) h = Ceil (g) i = Cast <to = 7> (h) y = ConstantOfShape (i) }""",
        "floordiv(L + 3, 4)",
    ),
    "a range in floats": (
        """(float[N, L] x) => (y) { s = Shape <start = 1> (x) z = Constant <value = float {0}> ()
           o = Constant <value = float {1}> () q = Squeeze (s) f = Cast <to = 1> (q) y = Range (z, f, o) }""",
        "L",
    ),
    "the less of two": (
        """(float[N, L] x) => (y) { s = Shape <start = 1> (x) k = Constant <value_ints = [512]> () c = Less (s, k)
           w = Where (c, s, k) y = ConstantOfShape (w) }""",
        "min(512, L)",
    ),
    "one more where it is long": (
        """(float[N, L] x) => (y) { s = Shape <start = 1> (x) k = Constant <value_ints = [512]> () c = Greater (s, k)
           i = Cast <to = 7> (c) w = Add (s, i) y = ConstantOfShape (w) }""",
        "L + min(1, max(0, L - 512))",
    ),
    "a shape written to": (
        """(float[N, L] x) => (y) { s = Shape (x) i = Constant <value = int64[1, 1] {0}> ()
           u = Constant <value_ints = [1]> () t = ScatterND (s, i, u) p = ReduceProd (t) q = Reshape (p, u)
           y = ConstantOfShape (q) }""",
        "L",
    ),
    "running sums": (
        """(float[N, L] x) => (y) { s = Shape (x) z = Constant <value = int64 {0}> () c = CumSum (s, z)
           o = Constant <value_ints = [1]> () g = Gather (c, o) y = ConstantOfShape (g) }""",
        "L + N",
    ),
    "a power": (
        """(float[N, L] x) => (y) { s = Shape <start = 1> (x) k = Constant <value = int64 {2}> () p = Pow (s, k)
           y = ConstantOfShape (p) }""",
        "L*L",
    ),
    "a shape from either branch": (
        """(float[N, L] x, bool c) => (y) { s = Shape <start = 1> (x) t = If (c) <
             then_branch = t () => (a) { a = Identity (s) },
             else_branch = e () => (b) { o = Constant <value_ints = [1]> () b = Mul (s, o) }>
           y = ConstantOfShape (t) }""",
        "L",
    ),
    "a branch that a size chooses": (
        """(float[N, L] x) => (y) { s = Shape <start = 0, end = 1> (x) o = Constant <value_ints = [1]> ()
           c = Equal (s, o) d = Squeeze (c) y = If (d) <
             then_branch = t () => (a) { m = Constant <value_ints = [0]> () a = ReduceSum (x, m) },
             else_branch = e () => (b) { b = Concat <axis = 0> (x, x) }> }""",
        "2*N*min(1, max(-N + 1, N - 1)) + max(-max(-N + 1, N - 1) + 1, 0)",
    ),
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_size_is_followed(name: str) -> None:
    body, expected = FOLLOWED[name]
    count, first = left_open(model_of(body))
    assert count > 3
    assert not first
    types = infer_types(check_model(read_model(model_of(body))))
    type = types.find("y")
    assert isinstance(type, TensorType)
    assert str(type.known_shape[0]) == expected
    for shape in ((1, 3), (4, 600)):
        inputs = {"x": np.ones(shape, np.float32), "c": np.array(False)}
        assert not disagreements(model_of(body), {info.name: inputs[info.name] for info in model_of(body).graph.input})
