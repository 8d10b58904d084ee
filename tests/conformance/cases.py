"""The cases of the installed onnx package: a model, and pairs of inputs and expected outputs.

Single-operator cases are generated in memory; those of the other kinds lie as files in the wheel.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, OptionalProto, SequenceProto, TensorProto, TypeProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

KINDS = ("node", "node-expanded", "simple", "pytorch-converted", "pytorch-operator", "real")
FILE_KINDS = ("simple", "pytorch-converted", "pytorch-operator")
LIGHT_FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
RANDOM_OPERATORS = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)

# An array, a sequence of values, or None for an empty optional.
Data = Sequence[tuple[Sequence[object], Sequence[object]]]


@dataclass(frozen=True)
class Case:
    """One case; `load` gives its model and data, and is the expensive part."""

    name: str
    kind: str
    rtol: float
    atol: float
    load: Callable[[], tuple[ModelProto, Data]]


def all_cases() -> tuple[Case, ...]:
    """Every official case, in a fixed order."""
    with warnings.catch_warnings():
        # The generators of the package overflow and divide by zero on purpose.
        warnings.simplefilter("ignore")
        found = list(load_model_tests(kind="node"))
    cases = [make_case(test, "node-expanded" if "_expanded" in test.name else "node", from_memory) for test in found]
    for kind in FILE_KINDS:
        cases += [make_case(test, kind, from_folder) for test in load_model_tests(kind=kind)]
    cases += [make_case(test, "real", from_light_file) for test in load_model_tests(kind="real")]
    return tuple(sorted(cases, key=lambda case: (KINDS.index(case.kind), case.name)))


def make_case(test: TestCase, kind: str, load: Callable[[TestCase], tuple[ModelProto, Data]]) -> Case:
    return Case(test.name, kind, test.rtol, test.atol, partial(load, test))


def from_memory(test: TestCase) -> tuple[ModelProto, Data]:
    assert test.model is not None, test.name
    assert test.data_sets is not None, test.name
    return test.model, [
        ([as_value(x) for x in inputs], [as_value(y) for y in outputs]) for inputs, outputs in test.data_sets
    ]


def from_folder(test: TestCase) -> tuple[ModelProto, Data]:
    assert test.model_dir is not None, test.name
    folder = Path(test.model_dir)
    model = onnx.load(folder / "model.onnx")
    data = [
        (
            [read_value(path, model.graph.input[i].type) for i, path in numbered(sets, "input")],
            [read_value(path, model.graph.output[i].type) for i, path in numbered(sets, "output")],
        )
        for sets in sorted(folder.glob("test_data_set_*"))
    ]
    return model, data


def from_light_file(test: TestCase) -> tuple[ModelProto, Data]:
    """Inputs count from 0 towards 1, as the official runner makes them; the expected outputs lie beside the model."""
    model = onnx.load(LIGHT_FOLDER / f"light_{test.model_name}.onnx")
    known = {tensor.name for tensor in model.graph.initializer}
    shapes = [[d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input if i.name not in known]
    inputs = [(np.arange(np.prod(s)).reshape(s) / np.prod(s)).astype(np.float32) for s in shapes]
    expected = LIGHT_FOLDER / f"light_{test.model_name}_output_0.pb"
    return model, [(inputs, [read_value(expected, model.graph.output[0].type)])]


def numbered(folder: Path, prefix: str) -> Iterator[tuple[int, Path]]:
    """prefix_0.pb, prefix_1.pb, ... as far as they go."""
    count = len(list(folder.glob(f"{prefix}_*.pb")))
    return ((i, folder / f"{prefix}_{i}.pb") for i in range(count))


def read_value(path: Path, kind: TypeProto) -> object:
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(SequenceProto.FromString(path.read_bytes()))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(OptionalProto.FromString(path.read_bytes()))
    return numpy_helper.to_array(TensorProto.FromString(path.read_bytes()))


def as_value(value: object) -> object:
    """An array, a list of arrays, or None: the cases also hold NumPy scalars and TensorProtos."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, (list, tuple)):
        return [as_value(element) for element in value]
    return None if value is None else np.asarray(value)


def draws_numbers(graph: GraphProto) -> bool:
    """Whether the graph, or one nested in it, holds an operator whose draw the standard leaves open."""
    nested = (a.g for node in graph.node for a in node.attribute if a.HasField("g"))
    return any(node.op_type in RANDOM_OPERATORS for node in graph.node) or any(map(draws_numbers, nested))
