"""Types of the official cases with symbolic inputs, against the values at run time and against ONNX's own inference."""

import re
import warnings
from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np
import pytest
from onnx import GraphProto, ModelProto, TensorShapeProto, TypeProto, shape_inference

from onnxc.compiler.ir.dim_symbols import evaluate, symbols_of
from onnxc.compiler.ir.dim_text import parse_dim
from onnxc.runtime.errors import UnsupportedError
from tests.conformance.cases import Case, all_cases
from tests.support.probes import declared, disagreements

pytestmark = pytest.mark.slow

SHARDS = 6

EXCEPTIONS: Mapping[str, str] = {
    r"test_attention_.*(3d|qk_matmul|rank4_mask).*": "ONNX writes 0 where a product of symbolic sizes is unknown to it",
    r"test_affine_grid_.*_expanded": "in the branch not taken ONNX cuts 5 sizes into pieces of 2, 2, 2 and -1",
    r"test_dft(_axis|_inverse)?": "which axis is transformed is data: any size may change",
    r"test_sequence_map.*_expanded": "sizes of the elements of a sequence differ: a name in its type is no size",
    r"test_loop(13_seq|16_seq_none)": "the elements have ranks 0 and 1, the type that is declared of them is wrong",
    r"test_loop11": "the number of iterations is data; the body runs on what it gave before, of a size of its own",
    r"test_scan_sum|test_scan9_.*|test_linear_attention_.*_expanded": "the body alone tells the state",
}
"""Where ONNX tells a size that differs from ours, or that ours leaves to the run, and why that is right."""


@cache
def cases() -> tuple[Case, ...]:
    found = [case for case in all_cases() if case.kind != "real" and "gradient" not in case.name]
    assert len(found) > 2000
    return tuple(found)


def symbolic(model: ModelProto) -> ModelProto:
    """The model with a name for each size of each input, and with nothing told of its other values."""
    changed = ModelProto()
    changed.CopyFrom(model)
    del changed.graph.value_info[:]
    known = {tensor.name for tensor in model.graph.initializer}
    for info in changed.graph.input:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if info.name not in known:
                dim.dim_param = re.sub(r"\W", "_", f"s_{info.name}_{axis}", flags=re.ASCII)
    for info in changed.graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    return changed


def typed(model: ModelProto) -> tuple[ModelProto, ModelProto]:
    """A model, and the same with types; the sizes of inputs are symbols where the model can then be lowered at all."""
    changed = symbolic(model)
    try:
        return changed, declared(changed)
    except UnsupportedError as reason:
        if "only known at run time" not in str(reason):
            raise
        return model, declared(model)


def feed(case: Case) -> tuple[ModelProto, dict[str, object]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, data = case.load()
    known = {tensor.name for tensor in model.graph.initializer}
    names = [info.name for info in model.graph.input if info.name not in known]
    return model, dict(zip(names, data[0][0], strict=False))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_types_are_those_of_the_values(shard: int) -> None:
    wrong = {}
    for case in cases()[shard::SHARDS]:
        model, inputs = feed(case)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = disagreements(typed(model)[0], inputs)
        if found:
            wrong[case.name] = found
    assert not wrong


@pytest.mark.parametrize("shard", range(SHARDS))
def test_nothing_is_told_less_exactly_than_by_onnx(shard: int) -> None:
    wrong = {}
    for case in cases()[shard::SHARDS]:
        model, inputs = feed(case)
        model, ours = typed(model)
        try:
            theirs = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        except shape_inference.InferenceError:
            continue
        found = [*complaints(dict(types(theirs.graph)), dict(types(ours.graph)), sizes_of(model, inputs))]
        if found and not any(re.fullmatch(pattern, case.name) for pattern in EXCEPTIONS):
            wrong[case.name] = found
    assert not wrong


def types(graph: GraphProto, path: str = "") -> Iterator[tuple[str, TypeProto]]:
    for info in (*graph.value_info, *graph.output):
        yield path + info.name, info.type
    for index, node in enumerate(graph.node):
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from types(attribute.g, f"{path}{index}.{attribute.name}/")


def sizes_of(model: ModelProto, inputs: Mapping[str, object]) -> dict[str, int]:
    """The value of each symbol at these inputs."""
    sizes: dict[str, int] = {}
    for info in model.graph.input:
        value = inputs.get(info.name)
        for dim, size in zip(
            info.type.tensor_type.shape.dim, value.shape if isinstance(value, np.ndarray) else (), strict=False
        ):
            if dim.dim_param:
                sizes.setdefault(dim.dim_param, size)
    return sizes


def complaints(
    theirs: Mapping[str, TypeProto], ours: Mapping[str, TypeProto], sizes: Mapping[str, int]
) -> Iterator[str]:
    """What ONNX tells and we do not, or tell otherwise."""
    for name, type in theirs.items():
        if type.WhichOneof("value") is not None:
            reason = difference(type, ours.get(name, TypeProto()), sizes)
            if reason:
                yield f"{name}: {reason}"


def difference(theirs: TypeProto, ours: TypeProto, sizes: Mapping[str, int]) -> str:
    kind = theirs.WhichOneof("value")
    if kind != ours.WhichOneof("value"):
        return f"{kind} for ONNX, {ours.WhichOneof('value')} for us"
    if kind in ("sequence_type", "optional_type"):
        return difference(getattr(theirs, kind).elem_type, getattr(ours, kind).elem_type, sizes)
    told, found = theirs.tensor_type, ours.tensor_type
    if told.elem_type not in (0, found.elem_type):
        return f"element type {told.elem_type} for ONNX, {found.elem_type} for us"
    if not told.HasField("shape"):
        return ""
    if len(told.shape.dim) != len(found.shape.dim) or not found.HasField("shape"):
        return f"{told.shape} for ONNX, {found.shape} for us"
    for axis, (left, right) in enumerate(zip(told.shape.dim, found.shape.dim, strict=True)):
        expected, actual = number(left, sizes), number(right, sizes)
        if expected is not None and expected != actual:
            return f"axis {axis}: {expected} for ONNX, {actual} for us, {right.dim_param}"
    return ""


def number(dim: TensorShapeProto.Dimension, sizes: Mapping[str, int]) -> int | None:
    """The size at these inputs; None where it is not told by the sizes of the inputs."""
    if dim.WhichOneof("value") == "dim_value":
        return dim.dim_value
    text = dim.dim_param
    size = parse_dim(text) if text else None
    return evaluate(size, sizes) if size is not None and symbols_of(size) <= sizes.keys() else None
