"""An executable on a CUDA device: arrays of the device go in and come out without a copy, on the caller's stream."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.artifact import Artifact
from onnxc.runtime.errors import InputError
from onnxc.runtime.executable import Executable, LoadAgain, call_out_of_memory, copy_into, expect_outputs
from onnxc.runtime.gpu.arrays import DeviceArray
from onnxc.runtime.gpu.device import Device
from onnxc.runtime.gpu.engine import DeviceEngine
from onnxc.runtime.gpu.exchange import import_output, import_tensor, readable_arrays
from onnxc.runtime.gpu.wanted import Residency, Wanted
from onnxc.runtime.gpu.workspaces import Call
from onnxc.runtime.program import JsonValue
from onnxc.runtime.signature import Signature

if TYPE_CHECKING:
    from onnxc.runtime.values import SlotValue

__all__ = ["DeviceExecutable"]


class DeviceExecutable(Executable):
    """A compiled model on a device.

    Where one input is an array on the device, all outputs that are tensors come as `DeviceArray`s; else all are arrays
    of NumPy. An output named in `out` is written where the array given for it lies.
    """

    def __init__(
        self,
        signature: Signature,
        engine: DeviceEngine,
        *,
        artifact: Artifact | None = None,
        report: JsonValue = "",
        compilations: int = 0,
        again: LoadAgain | None = None,
    ) -> None:
        super().__init__(signature, engine, artifact=artifact, report=report, compilations=compilations, again=again)
        self._device_engine = engine
        self._expected = [(info.dtype, len(info.shape or ())) for info in signature.inputs]

    @property
    def device(self) -> str:
        """The device that the model is on, for people."""
        return str(self._device_engine.device)

    @property
    def cuda(self) -> Device:
        """The same as it is opened."""
        return self._device_engine.device

    def run_to_host(self, inputs: Mapping[str, object]) -> dict[str, "SlotValue"]:
        try:
            outputs = self._call(self._signature.by_name(inputs), {}, None, usual=Residency.HOST)
        except MemoryError as problem:
            raise call_out_of_memory(problem) from problem
        return dict(zip(self._output_names, outputs, strict=True))

    def _run_by_name(
        self,
        inputs: object,
        out: Mapping[str, object] | None = None,
        seed: int | None = None,
        stream: int | None = None,
    ) -> dict[str, "SlotValue"]:
        if stream is not None and (not isinstance(stream, int) or isinstance(stream, bool) or stream < 0):
            message = f"stream is {stream!r}, expected the handle of a CUDA stream as a number"
            raise InputError(message, code="stream-type")
        given = {} if out is None else expect_outputs(out)
        try:
            outputs = self._call(self._signature.by_name(inputs), given, stream, seed)
        except MemoryError as problem:
            raise call_out_of_memory(problem) from problem
        return dict(zip(self._output_names, outputs, strict=True))

    def _run(self, inputs: Sequence[object]) -> Sequence["SlotValue"]:
        return self._call(inputs, {}, None)

    def _call(
        self,
        inputs: Sequence[object],
        out: Mapping[str, object],
        stream: int | None,
        seed: int | None = None,
        usual: Residency | None = None,
    ) -> list["SlotValue"]:
        """The outputs; those that are not in `out` lie where `usual` says, None for where an input lies."""
        engine, defaults = self._device_engine, self._signature.with_seed(seed, self._defaults)
        # The random state of a call comes from the host.
        may_be_resident = engine.runs_resident and usual is None and not out and not self._signature.draws
        with engine.call(stream) as call:
            readable = readable_arrays(inputs, self._expected, call)
            arrays = [array for array in readable if array is not None] if may_be_resident else []
            if arrays and len(arrays) == len(readable):
                sizes = self._sizes_at(tuple([array.shape for array in arrays]), arrays)
                return [*engine.run_resident(call, arrays, sizes)]
            ready: Sequence[np.ndarray | DeviceArray | None] = readable
            values = self._signature.import_with(partial(import_tensor, call=call), inputs, defaults, ready)
            sizes = self._sizes_of(values)
            wanted = self._wanted(out, usual or _residency_of(values), call)
            results = engine.run_in(call, values, sizes, wanted)
        return [
            self._given(name, out[name], result) if name in out else result
            for name, result in zip(self._output_names, results, strict=True)
        ]

    def _wanted(self, out: Mapping[str, object], usual: Residency, call: Call) -> list[Wanted]:
        """Where each output is to lie."""
        if not out:
            return [usual] * len(self._output_names)
        given: dict[str, Wanted] = {}
        for name, array in out.items():
            info = self._output_info(name)
            on_device = None
            if info.dtype is not None:
                on_device = import_output(array, info.dtype, f'out "{name}"', info.text, call)
            given[name] = self._expect_output(name, array) if on_device is None else on_device
        return [given.get(name, usual) for name in self._output_names]

    def _given(self, name: str, array: object, result: "SlotValue") -> "SlotValue":
        """What was given for an output, with the result in it."""
        if not isinstance(array, np.ndarray):
            return array if isinstance(array, DeviceArray) else result
        if array is not result:
            copy_into(array, result, name)
        return array


def _residency_of(values: Sequence["SlotValue"]) -> Residency:
    """Where outputs lie if nobody says where: on the device if an input is there."""
    return Residency.DEVICE if any(isinstance(value, DeviceArray) for value in values) else Residency.HOST
