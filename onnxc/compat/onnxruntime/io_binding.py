"""IOBinding: inputs and outputs of a session bound to memory, once for many runs."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from onnxc.compat.onnxruntime.node_args import NodeArg
from onnxc.compat.onnxruntime.ort_values import ElementTypeLike, OrtValue, OrtValueVector, array_at, expect_cpu

__all__ = ["IOBinding"]


class Session(Protocol):
    """What a binding asks of its session."""

    def get_inputs(self) -> list[NodeArg]: ...
    def get_overridable_initializers(self) -> list[NodeArg]: ...


class IOBinding:
    """Values for inputs, and for outputs the memory that they go to, or none. There is nothing to wait for."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.inputs: dict[str, object] = {}
        self._wanted: dict[str, OrtValue | None] = {}
        self._outputs: dict[str, OrtValue] = {}

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """Binds an input to an array, which is read when the session runs."""
        known = (*self._session.get_inputs(), *self._session.get_overridable_initializers())
        if name not in [arg.name for arg in known]:
            raise RuntimeError(f"Failed to find NodeArg with name: {name} in the def list")
        self.inputs[name] = arr_on_cpu

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: ElementTypeLike,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Binds an input to memory by its address; the caller keeps it."""
        expect_cpu(device_type)
        self.bind_cpu_input(name, array_at(buffer_ptr, shape, element_type))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an input to a value."""
        self.bind_cpu_input(name, ortvalue._value)  # type: ignore[arg-type]

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: ElementTypeLike = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Asks for an output, in memory by its address or in new memory."""
        expect_cpu(device_type)
        self._wanted[name] = (
            None
            if buffer_ptr is None
            else OrtValue(array_at(buffer_ptr, shape or (), np.float32 if element_type is None else element_type))
        )

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Asks for an output in the memory of a value."""
        self._wanted[name] = ortvalue

    def output_names(self) -> list[str]:
        """The outputs that are asked for, in the order in which they were bound first."""
        if not self._wanted:
            raise ValueError("no output is bound")
        return [*self._wanted]

    def take(self, values: Mapping[str, object]) -> None:
        """Puts what a run gave where it is wanted. Raises ValueError where the memory has another type or shape."""
        self._outputs = {}
        for name, value in values.items():
            bound = self._wanted[name]
            if bound is None:
                self._outputs[name] = OrtValue(value)
                continue
            mine = bound.numpy()
            if not isinstance(value, np.ndarray) or (mine.shape, mine.dtype) != (value.shape, value.dtype):
                came = f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
                message = f"{mine.dtype}{list(mine.shape)} is bound to output {name}, which is {came}"
                raise ValueError(message)
            mine[...] = value
            self._outputs[name] = bound

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run."""
        return [*self._outputs.values()]

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """The outputs of the last run, as functions of the extension module take them."""
        return OrtValueVector(self._outputs.values())

    def copy_outputs_to_cpu(self) -> list[object]:
        """The outputs of the last run as arrays."""
        return [value._value for value in self._outputs.values()]

    def clear_binding_inputs(self) -> None:
        self.inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._wanted.clear()
        self._outputs.clear()

    def synchronize_inputs(self) -> None:
        """Nothing: memory of the CPU is there."""

    def synchronize_outputs(self) -> None:
        """Nothing: a run is over when it returns."""
