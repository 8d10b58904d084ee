"""What a call must pass: the names, element types and shapes of inputs and outputs, and the sizes that they bind.

Every InputError names the input, what came, and what was expected.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from onnxc.runtime.arrays import describe, import_array, plain_mapping
from onnxc.runtime.device_value import DeviceValue
from onnxc.runtime.devices.shards import Shards
from onnxc.runtime.dtypes import DTYPES, DType
from onnxc.runtime.errors import InputError
from onnxc.runtime.program import Binding, Check, Parameter, Program, Symbol, compile_sizes
from onnxc.runtime.random_state import RANDOM_STATE, seed_words
from onnxc.runtime.records import record
from onnxc.runtime.sparse_tensor import SparseTensor
from onnxc.runtime.values import import_value, is_optional_type

if TYPE_CHECKING:
    from onnxc.runtime.host.values import HostValue
    from onnxc.runtime.values import SlotValue

__all__ = [
    "MISSING",
    "ImportTensor",
    "Signature",
    "TensorInfo",
    "first_inputs",
    "program_signature",
    "shapes_of",
    "tensor_info",
    "without_random_state",
]


T = TypeVar("T", bound=np.ndarray | DeviceValue | Shards)

# How a tensor that a caller passes becomes one that native code can read: as `onnxc.runtime.arrays.import_array`.
ImportTensor = Callable[[object, DType, str, str], T]


@record
class TensorInfo:
    """An input or output: its name, element type, and shape of numbers and names of sizes.

    `dtype` is None for what is no dense tensor, `shape` for what is neither dense nor sparse and where only data
    decides the rank; `text` says the type in full.
    """

    name: str
    dtype: DType | None
    shape: tuple[int | str, ...] | None
    text: str
    optional: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" + (" (optional)" if self.optional else "")


# Stands for an input that the call leaves out; its default is taken.
MISSING: Final = object()


@record
class Signature:
    """The inputs and outputs of a program in order, and how shapes become sizes.

    `bindings` say where a size is read (slot: the number of the input), `checks` which axes must have a size that is
    known then. `frozen` are the initializers that would be inputs, had they not been compiled in. `draws`: whether the
    program has the random state as one more input, behind these, for which a call passes a seed.
    """

    symbols: tuple[Symbol, ...]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    bindings: tuple[Binding, ...]
    checks: tuple[Check, ...]
    frozen: tuple[str, ...] = ()
    draws: bool = False

    @cached_property
    def required(self) -> tuple[int, ...]:
        """The numbers of the inputs that no call may leave out."""
        return tuple(index for index, info in enumerate(self.inputs) if not info.optional)

    @cached_property
    def names(self) -> Mapping[str, int]:
        """The number of each input."""
        return {info.name: index for index, info in enumerate(self.inputs)}

    def by_position(self, values: Sequence[object]) -> list[object]:
        """The value of each input, MISSING for those left out.

        As many values as there are inputs, or as there are required ones, in the order of the graph; or any number
        between where the optional inputs come last.
        """
        arranged: list[object] = [MISSING] * len(self.inputs)
        if len(values) == len(self.required):
            for index, value in zip(self.required, values, strict=True):
                arranged[index] = value
            return arranged
        last_required = max(self.required, default=-1)
        if not last_required < len(values) <= len(self.inputs):
            came = f"{len(values)} input{'s' * (len(values) != 1)} came"
            mapped = any(isinstance(value, Mapping) for value in values)
            advice = "; a mapping of names to values goes to run(None, mapping)" if mapped else ""
            raise InputError(f"{came}, expected {self._expected_count()}{advice}", code="input-count")
        arranged[: len(values)] = values
        return arranged

    def by_name(self, values: object) -> list[object]:
        """The value of each input, MISSING for those left out."""
        if not isinstance(values, Mapping):
            message = f"run takes a mapping from names to values, {describe(values)} came; {self._listed_inputs()}"
            raise InputError(message, code="input-mapping")
        values = plain_mapping(values, "what run takes", "a mapping from names to values", "input-mapping")
        if not values.keys() <= self.names.keys():
            raise self._unknown_name(next(name for name in values if name not in self.names))
        return [*map(values.get, self.names, repeat(MISSING))]

    def _unknown_name(self, name: object) -> InputError:
        if name in self.frozen:
            message = f"{name!r} is compiled in as a constant; to pass it, compile with freeze_params=False"
            return InputError(message, code="frozen-input")
        return InputError(f"there is no input {name!r}; {self._listed_inputs()}", code="unknown-input")

    def by_position_and_name(self, values: Sequence[object], named: Mapping[str, object]) -> list[object]:
        """The value of each input, MISSING for those left out: the first ones by position, others by name."""
        if not named or len(values) > len(self.inputs):
            return self.by_position(values)
        arranged = self.by_name(named)
        for ordinal, (info, value) in enumerate(zip(self.inputs, values, strict=False)):
            if info.name in named:
                raise InputError(f'input "{info.name}" came by position and by name', code="input-twice")
            arranged[ordinal] = value
        return arranged

    def import_values(self, values: Sequence[object], defaults: Mapping[int, np.ndarray]) -> tuple["HostValue", ...]:
        """Each value as one of its input's type; defaults for those that are MISSING, or None."""
        return self.import_with(import_array, values, defaults)

    def import_with(
        self,
        import_tensor: ImportTensor[T],
        values: Sequence[object],
        defaults: Mapping[int, np.ndarray],
        ready: Sequence[T | None] | None = None,
    ) -> "tuple[HostValue | T, ...]":
        """As `import_values`, where tensors that are inputs of their own come through `import_tensor`.

        ready: of each input what is known to be one of its type, None where that is to be seen.
        """
        imported: list[HostValue | T] = [None] * len(values) if ready is None else [*ready]
        rest = [index for index, known in enumerate(imported) if known is None]
        required = self._is_required
        missing = [k for k in rest if required[k] and (values[k] is MISSING or values[k] is None)]
        if missing:
            names = ", ".join(f'"{self.inputs[index].name}"' for index in missing)
            raise InputError(f"input {names} is missing; {self._listed_inputs()}", code="missing-input")
        for index in rest:
            imported[index] = self._import(import_tensor, index, values[index], defaults)
        return (*imported, defaults[len(self.inputs)]) if self.draws else tuple(imported)

    @cached_property
    def _is_required(self) -> tuple[bool, ...]:
        return tuple(not info.optional for info in self.inputs)

    def with_seed(self, seed: object, defaults: Mapping[int, np.ndarray]) -> Mapping[int, np.ndarray]:
        """The defaults of a call with this seed, None for none; a program that draws nothing has no use for it."""
        if seed is None:
            return defaults
        words = seed_words(seed)
        return {**defaults, len(self.inputs): words} if self.draws else defaults

    def _import(
        self, import_tensor: ImportTensor[T], index: int, value: object, defaults: Mapping[int, np.ndarray]
    ) -> "HostValue | T":
        info = self.inputs[index]
        if value is MISSING or value is None:
            # An optional that is left out is absent.
            return defaults.get(index)
        what = f'input "{info.name}"'
        if info.dtype is None:
            imported = import_value(value, info.text, what)
            if isinstance(imported, SparseTensor):
                _expect_rank(imported, info)
            return imported
        array = import_tensor(value, info.dtype, what, info.text)
        _expect_rank(array, info)
        return array

    def bind_sizes(
        self, values: Sequence["SlotValue"], shapes: tuple[tuple[int, ...], ...] | None = None
    ) -> tuple[int, ...]:
        """The value of every symbol, 0 for those that no input binds; `shapes` are those of the values, if known."""
        shapes = shapes_of(values) if shapes is None else shapes
        sizes = [0] * len(self.symbols)
        for binding in self.bindings:
            sizes[binding.symbol] = shapes[binding.slot][binding.axis]
        expected = self._check_sizes(sizes)
        if tuple([shapes[slot][axis] for slot, axis in self._checked_axes]) != expected:
            wrong = zip(self.checks, expected, strict=True)
            raise next(self._wrong_size(x, size, values) for x, size in wrong if shapes[x.slot][x.axis] != size)
        for binding in self.bindings:
            self._expect_in_range(binding, sizes[binding.symbol])
        return tuple(sizes)

    @cached_property
    def _check_sizes(self) -> Callable[[Sequence[int]], tuple[int, ...]]:
        return compile_sizes([check.size for check in self.checks])

    @cached_property
    def _checked_axes(self) -> tuple[tuple[int, int], ...]:
        return tuple((check.slot, check.axis) for check in self.checks)

    def _wrong_size(self, check: Check, size: int, values: Sequence["SlotValue"]) -> InputError:
        info = self.inputs[check.slot]
        assert info.shape is not None, info
        shapes = shapes_of(values)
        came = f'axis {check.axis} of input "{info.name}" is {shapes[check.slot][check.axis]}'
        declared = str(info.shape[check.axis])
        if declared == str(size):
            message = f"{came}, expected {size}: {describe(values[check.slot])} came for {info.text}"
            is_batch = check.axis == 0 and len(info.shape) > 1
            sizes = ", ".join(map(str, shapes[check.slot]))
            advice = f'; to take this size compile with shapes={{"{info.name}": [{sizes}]}}' if is_batch else ""
            return InputError(message + advice, code="input-shape")
        sources = "; ".join(
            f"{self.symbols[binding.symbol].name} is {shapes[binding.slot][binding.axis]}"
            f' by axis {binding.axis} of input "{self.inputs[binding.slot].name}"'
            for binding in self.bindings
            if f"s[{binding.symbol}]" in check.size
        )
        own = [f'"{info.name}_dim{axis}"' if axis == check.axis else "None" for axis in range(len(info.shape))]
        advice = f'; if the model has one name for two sizes, compile with shapes={{"{info.name}": [{", ".join(own)}]}}'
        return InputError(f"{came}, expected {declared} = {size}: {sources}{advice}", code="sizes-disagree")

    def _expect_in_range(self, binding: Binding, size: int) -> None:
        symbol = self.symbols[binding.symbol]
        if symbol.low <= size and (symbol.high is None or size <= symbol.high):
            return
        allowed = f"{symbol.low} to {symbol.high}" if symbol.high is not None else f"{symbol.low} or more"
        name = self.inputs[binding.slot].name
        message = f'axis {binding.axis} of input "{name}" is {size}, expected {symbol.name} from {allowed}'
        raise InputError(message, code="size-out-of-range")

    def _listed_inputs(self) -> str:
        return f"the inputs are {', '.join(map(str, self.inputs))}" if self.inputs else "there are no inputs"

    def _expected_count(self) -> str:
        least, most = len(self.required), len(self.inputs)
        return f"{most if least == most else f'{least} to {most}'}: {self._listed_inputs()}"


def _expect_rank(value: np.ndarray | DeviceValue | SparseTensor | Shards, info: TensorInfo) -> None:
    rank = len(value.shape)
    if info.shape is not None and rank != len(info.shape):
        message = f'input "{info.name}" is {describe(value)} of rank {rank}, expected {info.text}'
        raise InputError(message, code="input-rank")


def program_signature(program: Program, frozen: Iterable[str] = ()) -> Signature:
    """The signature of a program: its inputs and outputs, with the sizes that its body binds and checks."""
    body = program.body
    indices = {slot: index for index, slot in enumerate(body.parameters)}
    bindings = tuple(Binding(indices[binding.slot], binding.axis, binding.symbol) for binding in body.bindings)
    checks = tuple(Check(indices[check.slot], check.axis, check.size) for check in body.checks)
    inputs, outputs = (tuple(map(tensor_info, side)) for side in (program.inputs, program.outputs))
    return Signature(program.symbols, inputs, outputs, bindings, checks, tuple(frozen))


def first_inputs(signature: Signature, count: int) -> Signature:
    """The signature without the inputs behind the first `count`, which bind no size."""
    assert all(binding.slot < count for binding in signature.bindings), signature
    checks = tuple(check for check in signature.checks if check.slot < count)
    return replace(signature, inputs=signature.inputs[:count], checks=checks)


def without_random_state(signature: Signature) -> Signature:
    """The signature whose last input is none of the model's, if it is the random state."""
    last = [(info.name, info.shape, info.optional) for info in signature.inputs[-1:]]
    if last != [(RANDOM_STATE, (2,), True)]:
        return signature
    return replace(first_inputs(signature, len(signature.inputs) - 1), draws=True)


def tensor_info(parameter: Parameter) -> TensorInfo:
    """What people are told of a parameter."""
    shape = parameter.shape
    sizes = None if shape is None else tuple(int(size) if size.isdecimal() else size for size in shape)
    may_be_absent = default_shape(parameter) is not None or is_optional_type(parameter.text)
    return TensorInfo(parameter.name, DTYPES.get(parameter.dtype), sizes, parameter.text, may_be_absent)


def shapes_of(values: Sequence["SlotValue"]) -> tuple[tuple[int, ...], ...]:
    """The shape of each tensor, and an empty one for what is none."""
    # Of all values none but tensors has a shape, and to ask for their classes takes twice as long.
    return tuple([getattr(value, "shape", ()) for value in values])


def default_shape(parameter: Parameter) -> tuple[int, ...] | None:
    """The shape of the parameter's default; None where it has none, or none whose shape is known."""
    shape = parameter.shape
    if parameter.default is None or shape is None or not all(size.isdecimal() for size in shape):
        return None
    return tuple(map(int, shape))
