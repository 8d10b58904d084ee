"""Shapes at run time of every value of a model, beside those that inference tells.

A probe is a host function put behind each value while the model is lowered; the interpreter then calls it wherever the
value is computed, in branches, in each iteration of a loop, and within functions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from onnx import ModelProto

import onnxc
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.infer import InferredTypes, infer_types
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.lower.frame import Frame
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.frontend.size_names import lone_symbol
from onnxc.compiler.interpreted import function_signature
from onnxc.compiler.ir.dim_symbols import evaluate, symbols_of
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.interpreter import bind_parameter, interpret
from onnxc.compiler.ir.module import Function, Value
from onnxc.compiler.ir.types import TensorType, Type
from onnxc.runtime.host.functions import registry
from onnxc.runtime.host.values import HostValue

Probed = tuple[Sequence[HostValue], Mapping[str, object]]


@dataclass(frozen=True)
class Seen:
    """A value as it was at one moment: its shape, and what the sizes of its type in the IR evaluated to."""

    path: str
    name: str
    array: np.ndarray
    told: tuple[int, ...] | None


def values_seen(model: ModelProto, inputs: Mapping[str, object]) -> Iterator[Seen]:
    """Every tensor that a call of the model computes, in the order in which they come."""
    probed: list[Probed] = []

    def probe(operands: Sequence[HostValue], attributes: Mapping[str, object]) -> tuple[HostValue, ...]:
        probed.append((operands, attributes))
        return ()

    with (
        patch.object(Frame, "note", put_probe),
        patch.dict(registry.FUNCTIONS, {"probe": probe}),
    ):
        module = lower_model(check_model(read_model(model)))
        interpret(module, imported(module.main, inputs))
    for (array,), attributes in probed:
        assert isinstance(array, np.ndarray), attributes
        told = attributes["shape"] if attributes["has_rank"] else None
        assert told is None or isinstance(told, tuple), attributes
        yield Seen(str(attributes["path"]), str(attributes["name"]), array, told)


def imported(main: Function, inputs: Mapping[str, object]) -> dict[str, HostValue]:
    """The inputs as a call takes them, with the defaults of those that are not given, and of the random state."""
    signature = function_signature(main)
    names = [parameter.producer.name for parameter in main.body.parameters]
    defaults = {ordinal: main.defaults[name] for ordinal, name in enumerate(names) if name in main.defaults}
    return dict(zip(names, signature.import_values(signature.by_name(inputs), defaults), strict=True))


def put_probe(frame: Frame, name: str, value: Value | None) -> None:
    if value is None or not isinstance(value.type, TensorType):
        return
    shape = value.type.shape
    attributes = {"path": frame.graph.path, "name": name, "shape": shape or (), "has_rank": shape is not None}
    frame.ir.host("probe", (value,), (), attributes)


def inferred(model: ModelProto) -> InferredTypes:
    return infer_types(check_model(read_model(model)))


def declared(model: ModelProto) -> ModelProto:
    """The model with the type of every value declared."""
    return ModelProto.FromString(onnxc.infer(model).SerializeToString())


def disagreements(model: ModelProto, inputs: Mapping[str, object]) -> list[str]:
    """Where the inferred types are not those of the values at run time."""
    types = inferred(model)
    found = {(value.path, value.name): value.type for value in types.values}
    sizes = input_sizes(found, inputs)
    wrong = []
    for seen in values_seen(model, inputs):
        reason = difference(seen, found.get((seen.path, seen.name)), types.bound, sizes)
        if reason:
            wrong.append(f"{seen.path}: {seen.name} is {seen.array.dtype}{list(seen.array.shape)}: {reason}")
    return wrong


def input_sizes(found: Mapping[tuple[str, str], Type], inputs: Mapping[str, object]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name, value in inputs.items():
        type = found["main", name]
        if isinstance(type, TensorType) and type.shape is not None and isinstance(value, np.ndarray):
            bind_parameter(type, value.shape, sizes, name)
    return sizes


def difference(seen: Seen, type: Type | None, bound: frozenset[str], sizes: dict[str, int]) -> str:
    """Why a value is not of the type that was inferred for it; a size that only data tells is bound when first seen."""
    if not isinstance(type, TensorType):
        return f"inferred {type}"
    if type.dtype.numpy != seen.array.dtype:
        return f"inferred {type}"
    if seen.told is not None and seen.told != seen.array.shape:
        return f"the IR says {seen.told}"
    if type.shape is None:
        return ""
    if len(type.shape) != seen.array.ndim:
        return f"inferred {type}"
    for dim, size in zip(type.shape, seen.array.shape, strict=True):
        told = size_told(dim, size, bound if seen.path != "main" else None, sizes)
        if told not in (None, size):
            return f"inferred {type}, {dim} is {told}"
    return ""


def size_told(dim: Dim, seen: int, allowed: frozenset[str] | None, sizes: dict[str, int]) -> int | None:
    """What a size evaluates to; None where a symbol of it has no value, or is not `allowed`."""
    symbol = lone_symbol(dim)
    if allowed is None and symbol is not None:
        sizes.setdefault(symbol, seen)
    if not symbols_of(dim) <= (sizes.keys() if allowed is None else allowed & sizes.keys()):
        return None
    return evaluate(dim, sizes)
