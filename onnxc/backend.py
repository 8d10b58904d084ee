"""The interface of onnx.backend.base; `onnx.backend.test.BackendTest(onnxc.backend, __name__)` runs ONNX's own tests.

Inputs come in the order of the graph, those that an initializer backs last, and these may be left out. A model is
compiled with its initializers as constants; one that a call replaces an initializer of, once more with them as inputs.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

import onnxc
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.infer import infer_types
from onnxc.compiler.frontend.node_model import model_of_node, node_inputs
from onnxc.compiler.frontend.read import SupportsSerialize, read_model
from onnxc.compiler.ir.dtypes import dtype_of
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.options import ModelSource
from onnxc.runtime.errors import InputError, OnnxcError, UnsupportedError
from onnxc.runtime.executable import Executable
from onnxc.runtime.host.values import HostValue
from onnxc.runtime.records import record
from onnxc.runtime.values import host_value

__all__ = ["Prepared", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


@record
class Prepared:
    """A compiled model; `frozen` has its initializers as constants, `compile` compiles it so or otherwise."""

    compile: Callable[[bool], Executable]
    frozen: Executable

    @cached_property
    def open(self) -> Executable:
        """The model with its initializers as defaults of inputs, where they are inputs."""
        return self.compile(False)

    def run(self, inputs: object, **_options: object) -> tuple[HostValue, ...]:
        """The outputs in order, for a sequence of inputs, a mapping from their names, or the one input there is."""
        values = self._by_name(inputs)
        replaces = any(name in values for name in self.frozen.frozen_inputs)
        executable = self.open if replaces else self.frozen
        outputs = executable.run(values)
        return tuple(host_value(outputs[info.name]) for info in executable.outputs)

    def _by_name(self, inputs: object) -> dict[str, object]:
        if isinstance(inputs, Mapping):
            return dict(inputs)
        values = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        names = [*(info.name for info in self.frozen.inputs), *self.frozen.frozen_inputs]
        if len(values) > len(names):
            message = f"{len(values)} inputs came, the model has {len(names)}: {', '.join(names) or 'none'}"
            raise InputError(message, code="input-count")
        return {name: value for name, value in zip(names, values, strict=False) if value is not None}


def prepare(model: ModelSource, device: str = "CPU", target: str = "cpu", threads: int | None = None) -> Prepared:
    """The compiled model; `target` and `threads` are those of `onnxc.compile`.

    Raises ModelError, UnsupportedError.
    """
    if not supports_device(device):
        raise UnsupportedError(f"device {device!r} is not yet supported, only CPU is", code="unsupported-device")

    def compile_model(freeze: bool) -> Executable:
        if isinstance(model, io.IOBase):
            model.seek(0)
        return onnxc.compile(model, target, freeze_params=freeze, threads=threads)

    return Prepared(compile_model, compile_model(True))


def run_model(
    model: ModelSource, inputs: object, device: str = "CPU", target: str = "cpu", threads: int | None = None
) -> tuple[HostValue, ...]:
    """The outputs of a model that is called once."""
    return prepare(model, device, target, threads).run(inputs)


def run_node(
    node: SupportsSerialize,
    inputs: Sequence[object],
    device: str = "CPU",
    outputs_info: object = None,
    opset_version: int | None = None,
    target: str = "cpu",
) -> tuple[HostValue, ...]:
    """The outputs of one node, for the inputs that it names, in order; their types are inferred."""
    arrays = [np.asarray(value) for value in inputs]
    types = [TensorType(dtype_of(array.dtype), array.shape) for array in arrays]
    model = model_of_node(node, types, opset_version)
    return run_model(model, dict(zip(node_inputs(node), arrays, strict=True)), device, target)


def supports_device(device: str) -> bool:
    """Whether models can be prepared for the device: the CPU is the one there is."""
    return device.partition(":")[0] == "CPU"


def is_compatible(model: ModelSource, device: str = "CPU", **_options: object) -> bool:
    """Whether the model is legal, and every node of it can be compiled."""
    try:
        types = infer_types(check_model(read_model(model)))
    except OnnxcError:
        return False
    return not types.unknown and supports_device(device)
