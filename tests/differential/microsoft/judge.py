"""Cases of com.microsoft: drawn from (operator, number), run by ONNX Runtime and by ours, compared."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from onnx import ModelProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

import onnxc
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.schemas import schema
from tests.differential.microsoft import attention, decoders, floats, quantised, streams, tensors, words
from tests.differential.microsoft.draw import RECIPES, Draw, Parts
from tests.operators.microsoft.agreement import TOLERANCES, make_model, run_theirs

Status = Literal["agrees", "differs", "no kernel"]
FAMILIES = (attention, decoders, floats, quantised, streams, tensors, words)

NUMPY = {
    "float": "float32", "double": "float64", "float16": "float16", "bool": "bool",
    **{name: name for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")},
}  # fmt: skip
"""Names of element types in schemas, of those that ONNX Runtime takes as NumPy arrays."""

DRAWN_CONSTRAINTS = {
    "EmbedLayerNormalization": "T",
    "GatherBlockQuantized": "T2",
    "GridSample": "T2",
    "QGemm": "TA",
    "QLinearWhere": "T",
}
"""The type constraint that is drawn from where the first one is of indices, scales or packed data."""

MISTAKEN = frozenset({("MoE", "float16")})
"""Kernels of ONNX Runtime that for some operands give other values than its own of f32, with which ours agree."""


@dataclass(frozen=True)
class Outcome:
    """What a case came to; `text` says how results differ, or how ours failed."""

    operator: str
    dtype: str
    number: int
    status: Status
    text: str = ""

    def __str__(self) -> str:
        return f"{self.operator}#{self.number} {self.dtype}: {self.status} {self.text}".rstrip()


def types_of(operator: str) -> tuple[np.dtype[np.generic], ...]:
    """The element types that the cases of an operator take in turn."""
    found = schema(MICROSOFT, operator, 1) or schema("", operator, 1)
    assert found is not None, operator
    constraint = DRAWN_CONSTRAINTS.get(operator) or next(iter(found.type_constraints))
    names = (name.removeprefix("tensor(").removesuffix(")") for name in found.type_constraints[constraint])
    drawn = [NUMPY[name] for name in names if name in NUMPY]
    return tuple(np.dtype(name) for name in drawn if (operator, name) not in MISTAKEN)


def domain_of(operator: str) -> str:
    return MICROSOFT if schema(MICROSOFT, operator, 1) else ""


def draw_case(operator: str, number: int) -> tuple[np.dtype[np.generic], Parts, ModelProto]:
    """The type, the operands and the model of a case; consecutive numbers take each type in turn."""
    dtypes = types_of(operator)
    draw = Draw(np.random.default_rng([zlib.crc32(operator.encode()), number]), operator, dtypes[number % len(dtypes)])
    parts = RECIPES[operator](draw)
    shapes = {
        name: [f"{name}{axis}" if draw.flag(0.6) else size for axis, size in enumerate(np.shape(parts.inputs[name]))]
        for name in parts.free
    }
    attributes = dict(parts.attributes)
    own_opset = attributes.pop("opset", None)
    model = make_model(
        operator,
        parts.inputs,
        outputs=parts.outputs,
        constants=[name for name in parts.constants if parts.inputs.get(name) is not None],
        shapes=shapes,
        domain=domain_of(operator),
        opset=parts.opset,
        **attributes,
    )
    if own_opset is not None:
        model.graph.node[0].attribute.append(helper.make_attribute("opset", own_opset))
    return draw.dtype, parts, model


def judge(operator: str, number: int, target: str = "cpu") -> Outcome:
    """Whether the case gives by `target` what ONNX Runtime gives."""
    dtype, parts, model = draw_case(operator, number)
    try:
        expected = run_theirs(model, parts.inputs, parts.shared)
    except NoKernel:
        return Outcome(operator, dtype.name, number, "no kernel")
    try:
        actual = run_ours(model, parts, target)
    except onnxc.OnnxcError as problem:
        return Outcome(operator, dtype.name, number, "differs", f"{type(problem).__name__}: {problem}")
    text = difference(actual, expected, parts)
    return Outcome(operator, dtype.name, number, "differs" if text else "agrees", text)


def run_ours(model: ModelProto, parts: Parts, target: str) -> list[np.ndarray]:
    """Our results, in the order of the outputs."""
    executable = onnxc.compile(model, target)
    feeds = {info.name: parts.inputs[info.name] for info in executable.inputs}
    results = executable.run(None, feeds)
    return [np.asarray(result) for result in results]


def difference(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray], parts: Parts) -> str:
    """What is wrong with the results, empty where nothing is."""
    for name, ours, theirs in zip([name for name in parts.outputs if name], actual, expected, strict=True):
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            return f"{name} is {ours.dtype}{list(ours.shape)}, by ONNX Runtime {theirs.dtype}{list(theirs.shape)}"
        wide, wide_theirs = ours.astype(np.float64), theirs.astype(np.float64)
        largest = np.abs(wide_theirs[np.isfinite(wide_theirs)]).max(initial=0)
        relative = parts.tolerance or TOLERANCES.get(theirs.dtype.name)
        bound = parts.steps if relative is None else relative * largest
        if not np.allclose(wide, wide_theirs, rtol=0, atol=bound, equal_nan=True):
            with np.errstate(invalid="ignore"):
                return f"{name} is off by {np.nanmax(np.abs(wide - wide_theirs)):.3g}, at most {bound:.3g} is allowed"
    return ""
