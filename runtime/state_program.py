"""A program over variables: an executable whose inputs and outputs are in part arrays that stay between its calls.

Each variable has two arrays. A call reads the one and writes the other, and where all went well they change places: no
update is seen before all are there, nothing is copied, and a call that fails has changed nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.arrays import describe
from onnxc.runtime.dtypes import DType
from onnxc.runtime.errors import InputError
from onnxc.runtime.executable import Executable
from onnxc.runtime.native.aligned_memory import allocate_aligned
from onnxc.runtime.records import record
from onnxc.runtime.signature import MISSING, TensorInfo

if TYPE_CHECKING:
    from onnxc.runtime.values import SlotValue

__all__ = ["StateProgram", "Variables"]


class Variables:
    """Arrays by key; `spare` has one like each, whose contents mean nothing."""

    def __init__(self, values: Mapping[str, np.ndarray]) -> None:
        self.current = {key: _copy(value) for key, value in values.items()}
        self.spare = {key: _like(value) for key, value in values.items()}

    def assign(self, values: Mapping[str, np.ndarray]) -> None:
        """Copies values into variables of the same types."""
        for key, value in values.items():
            self.current[key][...] = value

    def commit(self, keys: Sequence[str]) -> None:
        """What was written into the spare arrays of these variables is their value from now on."""
        for key in keys:
            self.current[key], self.spare[key] = self.spare[key], self.current[key]


@record
class StateProgram:
    """An executable and what its inputs and outputs are.

    variables: the keys of inputs, by name. updates: for each output the keys of the variables that it is a new value
    of; those with none are given to the caller. defaults: of inputs that are no variables. random_state: the input that
    gets the words of the random state, "" where there is none.
    """

    executable: Executable
    variables: Mapping[str, str]
    updates: Mapping[str, tuple[str, ...]]
    defaults: Mapping[str, np.ndarray]
    random_state: str = ""

    @cached_property
    def fed(self) -> tuple[TensorInfo, ...]:
        """The inputs that a caller passes."""
        own = {*self.variables, self.random_state}
        infos = (info for info in self.executable.inputs if info.name not in own)
        return tuple(replace(info, optional=info.name in self.defaults) for info in infos)

    @cached_property
    def _results(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Each output with the keys of the variables that it updates."""
        names = (info.name for info in self.executable.outputs)
        return tuple((name, self.updates.get(name, ())) for name in names)

    def run(self, variables: Variables, feed: Mapping[str, object], random_words: np.ndarray) -> dict[str, "SlotValue"]:
        """The outputs that are for the caller, for inputs by name; the variables have their new values.

        Raises InputError for inputs that do not fit, or where a new value has another shape than its variable.
        """
        given = [variables.spare[keys[0]] if keys else None for _, keys in self._results]
        outputs = self.executable.call_into(self._inputs(variables, feed, random_words), given)
        shown: dict[str, SlotValue] = {}
        for (name, keys), value in zip(self._results, outputs, strict=True):
            if not keys:
                shown[name] = value
            for key in keys:
                _write(variables.spare[key], value, name, key)
        variables.commit([key for _, keys in self._results for key in keys])
        return shown

    def _inputs(self, variables: Variables, feed: Mapping[str, object], random_words: np.ndarray) -> list[object]:
        states: dict[str, object] = {name: variables.current[key] for name, key in self.variables.items()}
        values = {**self.defaults, **feed, **states, self.random_state: random_words}
        return [values.get(info.name, MISSING) for info in self.executable.inputs]


def _write(array: np.ndarray, result: "SlotValue", output: str, key: str) -> None:
    """Brings the new value of a variable into its spare array, where native code has not written it there."""
    if result is array:
        return
    if not isinstance(result, np.ndarray) or result.shape != array.shape:
        message = f'output "{output}" is {describe(result)}, and the variable "{key}" that it updates {describe(array)}'
        raise InputError(message, code="training-update-shape")
    array[...] = result


def _copy(value: np.ndarray) -> np.ndarray:
    array = _like(value)
    array[...] = value
    return array


def _like(value: np.ndarray) -> np.ndarray:
    """An uninitialised array of the type of another, on a cache line as kernels like it."""
    dtype: DType = value.dtype
    return allocate_aligned(value.nbytes).view(dtype).reshape(value.shape)
