"""What a lower precision costs: the errors of outputs, and the nodes of the model at which they grow.

An error is measured against the fp32 results of the same inputs, at the elements that are finite in both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from onnxc.compiler.checked_model import checked_model
from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.options import CompileOptions, ModelSource
from onnxc.compiler.passes.pipeline import run_pipeline
from onnxc.compiler.passes.pipelines import OPTIMIZE, precision_passes
from onnxc.runtime.errors import InputError
from onnxc.runtime.host.values import HostValue, as_array
from onnxc.runtime.records import record

__all__ = ["LayerError", "OutputError", "layer_errors", "output_errors"]


@record
class OutputError:
    """How far one output is off.

    largest: the greatest magnitude in fp32. max_absolute, max_relative: the greatest error, and its share of `largest`.
    rms, relative_rms: the root of the mean square of the error, and its share of that of the output. nan, infinite:
    elements that are so and are not in fp32. changed: elements that are not the same, of `elements`.
    """

    name: str
    elements: int
    largest: float
    max_absolute: float
    max_relative: float
    rms: float
    relative_rms: float
    nan: int
    infinite: int
    changed: int

    def to_json(self) -> dict[str, str | int | float]:
        """All of it as JSON has it."""
        return asdict(self)


@record
class LayerError:
    """The relative RMS error of what a node gives, and by how much it is more than that of what the node reads."""

    location: Location
    operator: str
    relative_rms: float
    growth: float

    def to_json(self) -> dict[str, str | int | float | None]:
        """All of it as JSON has it."""
        location = self.location
        node = {"graph": location.graph, "node": location.index, "name": location.name, "operator": location.operator}
        return {**node, "primitive": self.operator, "relative_rms": self.relative_rms, "growth": self.growth}


def output_errors(
    exact: Sequence[Mapping[str, np.ndarray]], lowered: Sequence[Mapping[str, np.ndarray]]
) -> tuple[OutputError, ...]:
    """The errors of each output over all samples; texts and other values that are no numbers are left out.

    Raises InputError where the shape of an output depends on the precision.
    """
    names = [name for name, array in exact[0].items() if array.dtype.kind not in "OUS"] if exact else []
    pairs = zip(exact, lowered, strict=True)
    flat: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in names}
    for first, second in pairs:
        for name in names:
            a, b = first[name], second[name]
            if a.shape != b.shape:
                shapes = f"{list(a.shape)} in fp32 and {list(b.shape)} lowered"
                raise InputError(f"output {name} is {shapes}: the errors have no meaning", code="shapes-differ")
            flat[name].append((a.reshape(-1), b.reshape(-1)))
    return tuple(
        _output_error(name, *(np.concatenate(side) for side in zip(*flat[name], strict=True))) for name in names
    )


def _output_error(name: str, exact: np.ndarray, lowered: np.ndarray) -> OutputError:
    wide = np.complex128 if exact.dtype.kind == "c" else np.float64
    a, b = exact.astype(wide), lowered.astype(wide)
    finite = np.isfinite(a) & np.isfinite(b)
    error, kept = np.abs(b[finite] - a[finite]), np.abs(a[finite])
    largest, worst = (float(np.max(x, initial=0)) for x in (kept, error))
    rms, own = (_root_mean_square(x) for x in (error, kept))
    return OutputError(
        name,
        exact.size,
        largest,
        worst,
        _share(worst, largest),
        rms,
        _share(rms, own),
        int(np.sum(np.isnan(b) & ~np.isnan(a))),
        int(np.sum(np.isinf(b) & ~np.isinf(a))),
        int(np.sum((a != b) & ~(np.isnan(a) & np.isnan(b)))),
    )


def _root_mean_square(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(x)))) if x.size else 0.0


def _share(part: float, whole: float) -> float:
    """`part` of `whole`; of nothing, 0 for nothing and 1 for anything."""
    return part / whole if whole else float(part > 0)


def layer_errors(
    source: ModelSource, options: CompileOptions, inputs: Mapping[str, HostValue]
) -> tuple[LayerError, ...]:
    """The nodes of the model with the errors of what they give, the one where the error grows most first.

    Both programs are interpreted, which takes time and keeps all values of one run in memory.
    """
    loaded = read_model(source, opset=options.opset, allow_links=options.allow_links)
    loaded, checked = checked_model(loaded, options)
    module = lower_model(checked, options.inputs)
    module = run_pipeline(module, OPTIMIZE)
    exact = _traced(module, inputs)
    lowered = _traced(run_pipeline(module, precision_passes(options.precision)), inputs)
    errors = {
        location: _error_between(array, lowered[location][1])
        for location, (_, array) in exact.items()
        if location in lowered and lowered[location][1].shape == array.shape
    }
    layers = [
        LayerError(location, op.name, errors[location], errors[location] - _inherited(op, location, errors))
        for location, (op, _) in exact.items()
        if location in errors
    ]
    return tuple(sorted(layers, key=lambda layer: -layer.growth))


Trace = dict[Location, tuple[Op, np.ndarray]]


def _traced(module: Module, inputs: Mapping[str, HostValue]) -> Trace:
    """The last op of each node whose result is a tensor of floats, and that result."""
    trace: Trace = {}

    def observe(op: Op, results: Sequence[HostValue]) -> None:
        if op.location is None or op.blocks or len(results) != 1:
            return
        array = as_array(results[0])
        if op.result.dtype.is_float and op.name != "constant":
            trace[op.location] = (op, array)

    interpret(module, inputs, observe)
    return trace


def _error_between(exact: np.ndarray, lowered: np.ndarray) -> float:
    return _output_error("", exact.reshape(-1), lowered.reshape(-1)).relative_rms


def _inherited(op: Op, location: Location, errors: Mapping[Location, float]) -> float:
    """The largest error of what the node of `op` reads from other nodes."""
    largest = 0.0
    pending: list[Value] = list(op.operands)
    seen: set[Value] = set()
    while pending:
        value = pending.pop()
        if value.op is None or value in seen:
            continue
        seen.add(value)
        if value.op.location is None or value.op.location == location or value.op.location not in errors:
            pending += value.op.operands
        else:
            largest = max(largest, errors[value.op.location])
    return largest
