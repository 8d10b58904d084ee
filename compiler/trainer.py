"""A trainer: the programs of a training model, and the variables that they work on."""

from collections.abc import Mapping, Sequence
from threading import RLock
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from onnxc.compiler.frontend.external.save import save_model
from onnxc.compiler.frontend.read import LoadedModel
from onnxc.compiler.frontend.training.programs import Variable
from onnxc.compiler.frontend.training.write_variables import with_values
from onnxc.compiler.option_types import expect_integer
from onnxc.runtime.arrays import describe, import_array, plain_mapping
from onnxc.runtime.errors import InputError, UnsupportedError
from onnxc.runtime.files.plain_files import AnyPath
from onnxc.runtime.random_state import RANDOM_STATE, mixed_words
from onnxc.runtime.signature import TensorInfo
from onnxc.runtime.state_program import StateProgram, Variables

if TYPE_CHECKING:
    from onnxc.runtime.values import SlotValue

__all__ = ["Trainer"]


class Trainer:
    """A model that learns: `initialize`, `step` after `step`, `evaluate` in between.

    Variables are the initializers that bindings assign to. They stay in place between calls, which come one after the
    other also where they are made from several threads.
    """

    def __init__(
        self,
        source: LoadedModel,
        variables: Sequence[Variable],
        initializations: Sequence[StateProgram],
        algorithms: Sequence[StateProgram],
        inference: StateProgram,
        seed: int,
    ) -> None:
        self._source, self._infos = source, tuple(variables)
        self._initializations, self._algorithms, self._inference = initializations, tuple(algorithms), inference
        self._initial = {variable.key: variable.tensor.array() for variable in variables}
        self._variables = Variables(self._initial)
        self._random = np.array([_seed(seed), 0], np.int64)
        self._step_inputs = tuple({info.name: info for each in algorithms for info in each.fed}.values())
        self._lock = RLock()

    def __repr__(self) -> str:
        return f"<Trainer of {len(self._infos)} variables, ({', '.join(map(str, self.inputs))}) a step>"

    def __reduce__(self) -> NoReturn:
        """UnsupportedError: pickling and copying would need every program as an artifact; `state` has what changes."""
        message = "a trainer cannot be pickled or copied: compile the model again, and load_state what state gave"
        raise UnsupportedError(message, code="no-artifact")

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """What a step may be given: the inputs of the model, then those of the algorithms."""
        return self._step_inputs

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the initializers that change, those of the model first."""
        return tuple(variable.key for variable in self._infos)

    def initialize(self, seed: int = 0) -> None:
        """Sets every variable to its initializer, then runs each initialization in order.

        The random state begins at `seed`: the same seed gives the same variables and the same steps.
        """
        state = np.array([_seed(seed), 0], np.int64)
        with self._lock:
            self._random = state
            self._variables.assign(self._initial)
            for program in self._initializations:
                self._run(program, {})

    def step(self, inputs: Mapping[str, object], algorithm: int | None = None) -> dict[str, "SlotValue"]:
        """Runs the algorithms in order, each on what the ones before have changed; their outputs by name.

        What is bound to a variable is not among them. inputs: by name, for all algorithms together. algorithm: the
        ordinal of the one to run alone. Where outputs of two have one name, it is the last one's.

        Raises InputError, and what a call raises; the algorithm that fails then has changed nothing.
        """
        chosen = self._algorithms if algorithm is None else (self._algorithm(algorithm),)
        needed = [info for program in chosen for info in program.fed if not info.optional]
        feed = _checked(inputs, "a step", self._step_inputs, needed)
        outputs: dict[str, SlotValue] = {}
        with self._lock:
            for program in chosen:
                outputs |= self._run(program, {info.name: feed[info.name] for info in program.fed if info.name in feed})
        return outputs

    def evaluate(self, inputs: Mapping[str, object]) -> dict[str, "SlotValue"]:
        """The outputs of the model by name, with the variables as they are now."""
        fed = self._inference.fed
        feed = _checked(inputs, "evaluate", fed, [info for info in fed if not info.optional])
        with self._lock:
            return self._inference.run(self._variables, feed, self._random)

    def state(self) -> dict[str, np.ndarray]:
        """Copies of all variables by name, and under "onnxc:random_state" what random numbers depend on.

        That is i64[2]: the seed, and how many programs have run since.
        """
        with self._lock:
            copies = {key: value.copy() for key, value in self._variables.current.items()}
            return {**copies, RANDOM_STATE: self._random.copy()}

    def load_state(self, state: Mapping[str, object]) -> None:
        """Takes over what `state` gave, or a file of NumPy that holds it. All is checked before anything changes."""
        wanted = {**{variable.key: variable.type for variable in self._infos}, RANDOM_STATE: "i64[2]"}
        given = _state_mapping(state, wanted)
        arrays = {}
        with self._lock:
            for key, value in given.items():
                like = self._random if key == RANDOM_STATE else self._variables.current[key]
                arrays[key] = _like(value, like, f'the state of "{key}"')
            self._random = arrays.pop(RANDOM_STATE).copy()
            self._variables.assign(arrays)

    def save_model(self, path: AnyPath, external_data: str | None = None) -> None:
        """Writes the model with the variables as they are now; its training information is as it was.

        external_data: as for `onnxc.save_model`. The random state is in `state` alone.
        """
        with self._lock:
            copies = {key: value.copy() for key, value in self._variables.current.items()}
        values = [(variable, copies[variable.key]) for variable in self._infos]
        save_model(with_values(self._source, values), path, external_data)

    def _run(self, program: StateProgram, feed: Mapping[str, object]) -> dict[str, "SlotValue"]:
        """Runs a program that may draw; every one draws other numbers."""
        outputs = program.run(self._variables, feed, mixed_words(*map(int, self._random)))
        self._random[1] += 1
        return outputs

    def _algorithm(self, ordinal: int) -> StateProgram:
        count, index = len(self._algorithms), expect_integer("algorithm", ordinal)
        if not 0 <= index < count:
            message = f"algorithm is {index}, expected None or an ordinal below {count}"
            raise InputError(message, code="unknown-algorithm")
        return self._algorithms[index]


def _seed(seed: object) -> int:
    value = expect_integer("seed", seed)
    if not 0 <= value < 1 << 63:
        raise InputError(f"seed is {value}, expected an integer from 0 to 2^63 - 1", code="seed-range")
    return value


def _checked(
    inputs: object, who: str, infos: Sequence[TensorInfo], needed: Sequence[TensorInfo]
) -> Mapping[str, object]:
    """The inputs, all of which are known by name, and all that are needed among them."""
    listed = f"the inputs are {', '.join(map(str, infos)) or 'none'}"
    expected = "a mapping from names to values"
    if not isinstance(inputs, Mapping):
        raise InputError(f"{who} takes {expected}, {describe(inputs)} came", code="input-mapping")
    given = plain_mapping(inputs, f"what {who} takes", expected, "input-mapping")
    for name in given:
        if not any(name == info.name for info in infos):
            raise InputError(f"there is no input {name!r}; {listed}", code="unknown-input")
    missing = dict.fromkeys(f'"{info.name}"' for info in needed if info.name not in given)
    if missing:
        raise InputError(f"input {', '.join(missing)} is missing; {listed}", code="missing-input")
    return given


def _state_mapping(state: object, wanted: Mapping[str, object]) -> Mapping[str, object]:
    """A state with exactly the keys that are wanted."""
    expected = "a mapping from names to arrays"
    if not isinstance(state, Mapping):
        raise InputError(f"load_state takes {expected}, {describe(state)} came", code="state-mapping")
    given = plain_mapping(state, "what load_state takes", expected, "state-mapping")
    missing = [f"{key}: {type}" for key, type in wanted.items() if key not in given]
    unknown = [repr(key) for key in given if key not in wanted]
    if missing or unknown:
        parts = [f"{word} {', '.join(keys)}" for word, keys in (("lacks", missing), ("has unknown", unknown)) if keys]
        raise InputError(f"the state {' and '.join(parts)}", code="state-mapping")
    return given


def _like(value: object, array: np.ndarray, what: str) -> np.ndarray:
    """The value as an array of the type of `array`."""
    expected = describe(array)
    imported = import_array(value, array.dtype, what, expected)
    if imported.shape != array.shape:
        raise InputError(f"{what} is {describe(imported)}, expected {expected}", code="state-shape")
    return imported
