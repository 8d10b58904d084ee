"""How the program of an artifact is divided over devices: what each of them holds, as bytes and as arrays.

The last inputs of such a program are the ordinal of a device and the device's shares of constants, which no caller
passes. The shares of a device are bytes of their own, so that nobody else reads them.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from onnxc.runtime.cpu import CACHE_LINE_BYTES, HUGE_PAGE_BYTES
from onnxc.runtime.devices.local_layout import LocalLayout, decode_layouts
from onnxc.runtime.dtypes import DTYPES
from onnxc.runtime.encoding import encode_noun
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.native.aligned_memory import allocate_aligned
from onnxc.runtime.program import Body, Host, If, JsonValue, Parameter, Program, While
from onnxc.runtime.records import record
from onnxc.runtime.texts import LENGTH_BYTES, decode_texts, encode_texts

__all__ = ["MOST_DEVICES", "Division", "decode_division", "divide_weights", "groups_of"]

MOST_DEVICES = 64
"""As many devices as a mesh may have; a file that speaks of more is damaged."""


@record(eq=False)
class Division:
    """For each device its shares as bytes, in the order of the inputs `share_count` from the last.

    outputs: how each output stays divided, None where each device has it whole; empty where all are whole. inputs: how
    each input of the caller is divided, of which the program of a device reads its block; in the same way.
    """

    share_count: int
    shares: tuple[np.ndarray, ...]
    outputs: tuple[LocalLayout | None, ...] = ()
    inputs: tuple[LocalLayout | None, ...] = ()

    @property
    def devices(self) -> int:
        return len(self.shares)

    def inputs_of_caller(self, program: Program) -> int:
        """How many inputs of the program a caller passes."""
        return len(program.inputs) - 1 - self.share_count

    def added_inputs(self, program: Program, device: int, *, resident: bool) -> tuple[np.ndarray, ...]:
        """The values of the other inputs on a device; its shares are views of its bytes, or of a copy of them."""
        data = self.shares[device]
        if resident:
            copy = allocate_aligned(data.nbytes, huge_pages=True)
            copy[:] = data
            data = copy
        parameters = program.inputs[self.inputs_of_caller(program) + 1 :]
        return np.array(device, np.int64), *_arrays(data, parameters)

    def encode(self) -> JsonValue:
        """What a file says beside the bytes."""
        said: dict[str, JsonValue] = {"devices": self.devices, "shares": self.share_count}
        # What all calls make whole takes no room, and does not change the bytes of its artifact.
        sides = {"inputs": self.inputs, "outputs": self.outputs}
        return said | {side: list(map(encode_noun, layouts)) for side, layouts in sides.items() if layouts}


def divide_weights(
    shares: Sequence[Sequence[np.ndarray]],
    outputs: tuple[LocalLayout | None, ...] = (),
    inputs: tuple[LocalLayout | None, ...] = (),
) -> Division:
    """The division whose devices hold these arrays."""
    return Division(len(shares[0]), tuple(map(_joined, shares)), outputs, inputs)


def decode_division(
    value: JsonValue, program: Program, names: Sequence[int] | None = None
) -> tuple[int, int, tuple[LocalLayout | None, ...], tuple[LocalLayout | None, ...]]:
    """How many devices and shares there are, and how outputs and inputs are divided, by what a file says.

    names: what exchanges of the program call the devices; None for their ordinals. Raises ValueError for what does not
    fit the program.
    """
    if not isinstance(value, Mapping) or value.keys() - {"outputs", "inputs"} != {"devices", "shares"}:
        raise ValueError("it is no object of devices and shares")
    devices, shares = value["devices"], value["shares"]
    if type(devices) is not int or not 1 <= devices <= MOST_DEVICES:
        raise ValueError(f"devices is {devices!r}")
    if type(shares) is not int or not 0 <= shares < len(program.inputs):
        raise ValueError(f"shares is {shares!r}")
    ordinal, *added = program.inputs[len(program.inputs) - 1 - shares :]
    if ordinal.text != "i64[]" or any(_shape(parameter) is None for parameter in added):
        raise ValueError(f"the last inputs are no ordinal and {shares} shares")
    named = sorted(range(devices) if names is None else names)
    if len(named) != devices:
        raise ValueError(f"devices is {devices}, and they are {named}")
    for groups in groups_of(program.body):
        if sorted(member for group in groups for member in group) != named:
            raise ValueError(f"groups of {devices} devices are {groups}")
    given = program.inputs[: len(program.inputs) - 1 - shares]
    inputs, outputs = (
        decode_layouts(value[f"{side}s"], parameters, side, program, devices) if f"{side}s" in value else ()
        for side, parameters in (("input", given), ("output", program.outputs))
    )
    return devices, shares, outputs, inputs


def groups_of(body: Body) -> list[tuple[tuple[int, ...], ...]]:
    """The groups of all exchanges of a body; ValueError for what is none."""
    result: list[tuple[tuple[int, ...], ...]] = []
    for step in body.steps:
        match step:
            # A convolution has groups, too: of channels, and they are counted.
            case Host(attributes={"groups": groups}) if not isinstance(groups, int):
                result.append(_as_groups(groups))
            case If():
                result += groups_of(step.then) + groups_of(step.otherwise)
            case While():
                result += groups_of(step.body)
    return result


def _as_groups(value: JsonValue) -> tuple[tuple[int, ...], ...]:
    if isinstance(value, list | tuple) and all(isinstance(group, list | tuple) for group in value):
        groups = tuple(tuple(group) for group in value if isinstance(group, list | tuple))
        if all(type(member) is int for group in groups for member in group):
            return tuple(tuple(int(str(member)) for member in group) for group in groups)
    raise ValueError(f"groups of devices are {value!r}")


def _shape(parameter: Parameter) -> tuple[int, ...] | None:
    """The shape of a dense tensor, whose sizes are numbers; None for what is none."""
    sizes = parameter.shape
    if not parameter.dtype or sizes is None or not all(size.isdecimal() for size in sizes):
        return None
    return tuple(map(int, sizes))


def _joined(arrays: Sequence[np.ndarray]) -> npt.NDArray[np.uint8]:
    """The bytes of arrays one after the other, each on a cache line."""
    pieces = [_bytes(array) for array in arrays]
    total = sum(_padded(piece.nbytes) for piece in pieces)
    joined = allocate_aligned(total, huge_pages=total >= HUGE_PAGE_BYTES)
    joined[:] = 0
    start = 0
    for piece in pieces:
        joined[start : start + piece.nbytes] = piece
        start += _padded(piece.nbytes)
    return joined


def _arrays(data: npt.NDArray[np.uint8], parameters: Sequence[Parameter]) -> tuple[np.ndarray, ...]:
    """The arrays of these types that were joined; DeviceError where the bytes end before."""
    arrays: list[np.ndarray] = []
    start = 0
    for parameter in parameters:
        shape = _shape(parameter)
        assert shape is not None, parameter
        if parameter.dtype == "string":
            array = decode_texts(data, start, shape)
            nbytes = LENGTH_BYTES + int.from_bytes(data[start : start + LENGTH_BYTES].tobytes(), "little")
        else:
            dtype = DTYPES[parameter.dtype]
            nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
            if start + nbytes > data.nbytes:
                raise DeviceError(f"the shares end within {parameter.name}", code="artifact-malformed")
            array = np.ndarray(shape, dtype, data, start)
        array.flags.writeable = False
        arrays.append(array)
        start += _padded(nbytes)
    return tuple(arrays)


def _bytes(array: np.ndarray) -> npt.NDArray[np.uint8]:
    if array.dtype == np.object_:
        return encode_texts(array)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _padded(nbytes: int) -> int:
    return -(-nbytes // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
