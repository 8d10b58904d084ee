"""target="interpreter": an executable that runs the lowered module op by op, with no code generation.

No pass runs but the one that a precision asks for. What it gives is what a model means, as far as we know; the other
targets are compared with it.
"""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from onnxc.compiler.checked_model import checked_model
from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ignored_configurations import warn_of_ignored_configurations
from onnxc.compiler.ir.dims import Dim, render
from onnxc.compiler.ir.interpreter import interpret, single_symbol
from onnxc.compiler.ir.module import Function, Module, Value
from onnxc.compiler.ir.printer import print_module
from onnxc.compiler.ir.types import ShapedType, TensorType
from onnxc.compiler.limits import limited_to
from onnxc.compiler.model_symbols import expect_known_dims, expect_known_specializations, frozen_inputs
from onnxc.compiler.options import CompileOptions, ModelSource
from onnxc.compiler.passes.pipeline import run_pipeline
from onnxc.compiler.passes.pipelines import precision_passes
from onnxc.runtime.engine import FastFunction
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.executable import Executable
from onnxc.runtime.fast_call import Shapes
from onnxc.runtime.host.values import HostValue
from onnxc.runtime.program import Binding, Check, Symbol
from onnxc.runtime.signature import Signature, TensorInfo, without_random_state
from onnxc.runtime.stats import Stats
from onnxc.runtime.values import host_value, is_optional_type, own_values

if TYPE_CHECKING:
    from onnxc.runtime.values import SlotValue

__all__ = ["interpret_checked", "interpret_model"]


def interpret_model(source: ModelSource, options: CompileOptions) -> Executable:
    """The model as an executable of the interpreter."""
    loaded = read_model(source, opset=options.opset, allow_links=options.allow_links)
    loaded, checked = checked_model(loaded, options)
    expect_known_dims(checked, options.inputs)
    return interpret_checked(checked, options)


def interpret_checked(checked: CheckedModel, options: CompileOptions) -> Executable:
    """A model that is checked already, as an executable of the interpreter."""
    with limited_to(options.limits):
        lowered = lower_model(checked, options.inputs)
    warn_of_ignored_configurations(checked)
    expect_known_specializations(lowered, options.specialize)
    module = run_pipeline(lowered, precision_passes(options.precision))
    signature = function_signature(module.main, frozen_inputs(checked, options.inputs))
    report, metadata = print_module(module), checked.metadata
    return Executable(signature, InterpreterEngine(module), report=report, compilations=1, metadata=metadata)


class InterpreterEngine:
    """Runs a module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.names = [parameter.producer.name for parameter in module.main.body.parameters]
        self.calls = 0
        self.lock = Lock()

    def run(
        self, values: Sequence["SlotValue"], sizes: tuple[int, ...], given: Sequence[np.ndarray] | None = None
    ) -> Sequence[HostValue]:
        """The outputs, for inputs whose shapes are right."""
        with self.lock:
            self.calls += 1
        try:
            inputs = dict(zip(self.names, map(host_value, values), strict=True))
            return own_values(interpret(self.module, inputs, clamp_indices=False), values)
        except MemoryError as problem:
            raise DeviceError(f"the values do not fit into memory: {problem}", code="out-of-memory") from problem

    def fast_call(self) -> FastFunction | None:
        """None: there is nothing faster."""
        return None

    def learn(self, shapes: Shapes, sizes: tuple[int, ...]) -> None:
        """Nothing is kept for shapes."""

    def defaults(self) -> Mapping[int, np.ndarray]:
        """The values of the inputs that a call may leave out, by number."""
        defaults = self.module.main.defaults
        return {index: defaults[name] for index, name in enumerate(self.names) if name in defaults}

    def stats(self) -> Stats:
        """What has run so far."""
        return Stats(calls=self.calls)


def function_signature(function: Function, frozen: Sequence[str] = ()) -> Signature:
    """What a call of the function must pass: every axis of an input binds a symbol, or is checked."""
    ordinals: dict[str, int] = {}
    bindings: list[Binding] = []
    later: list[tuple[int, int, Dim]] = []
    for slot, parameter in enumerate(function.body.parameters):
        for axis, dim in enumerate(_shape(parameter)):
            symbol = single_symbol(dim)
            if symbol is not None and symbol not in ordinals:
                ordinals[symbol] = len(ordinals)
                bindings.append(Binding(slot, axis, ordinals[symbol]))
            else:
                later.append((slot, axis, dim))
    checks = [Check(slot, axis, render(dim, lambda name: f"s[{ordinals[name]}]")) for slot, axis, dim in later]
    parameters, results = function.body.parameters, function.body.results
    signature = Signature(
        tuple(Symbol(name, *function.symbols.get(name, (0, None))) for name in ordinals),
        tuple(_info(parameter.producer.name, parameter, function) for parameter in parameters),
        tuple(_info(name, result, function) for name, result in zip(function.result_names, results, strict=True)),
        tuple(bindings),
        tuple(checks),
        tuple(frozen),
    )
    return without_random_state(signature)


def _shape(value: Value) -> tuple[Dim, ...]:
    return value.type.shape or () if isinstance(value.type, ShapedType) else ()


def _info(name: str, value: Value, function: Function) -> TensorInfo:
    text = str(value.type)
    if not isinstance(value.type, ShapedType):
        return TensorInfo(name, None, None, text, is_optional_type(text))
    shape, dtype = value.type.shape, value.type.dtype.numpy if isinstance(value.type, TensorType) else None
    sizes = None if shape is None else tuple(dim if isinstance(dim, int) else str(dim) for dim in shape)
    is_optional = value.op is None and name in function.defaults
    return TensorInfo(name, dtype, sizes, text, is_optional)
