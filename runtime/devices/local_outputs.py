"""How the outputs of a divided program stay divided: what a file says of it, and the shards of a call."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.arrays import type_text
from onnxc.runtime.check_program import is_size
from onnxc.runtime.devices.shards import Shard, Shards
from onnxc.runtime.dtypes import DTYPES
from onnxc.runtime.encoding import decode_noun
from onnxc.runtime.program import JsonValue, Parameter, Program, SizeText, compile_sizes
from onnxc.runtime.signature import Signature, TensorInfo
from onnxc.runtime.values import as_array

if TYPE_CHECKING:
    from onnxc.runtime.values import SlotValue

__all__ = ["LocalOutput", "decode_outputs", "local_signature", "local_values"]


@dataclass(frozen=True)
class LocalOutput:
    """How an output of a divided program is divided.

    dtype: by its name in the IR. sizes: of the whole, in the names of the symbols; shape: the same as the runtime
    computes them. blocks: for each axis the ordinal of the block that each device holds, of `counts` many; an axis of
    one block is whole on every device.
    """

    dtype: str
    sizes: tuple[str, ...]
    shape: tuple[SizeText, ...]
    counts: tuple[int, ...]
    blocks: tuple[tuple[int, ...], ...]

    def shards(self, sizes: Sequence[int], held: Mapping[int, np.ndarray]) -> Shards:
        """What these devices hold, for the values of the symbols; blocks end where the whole does."""
        shape = self._shape_of(sizes)
        return Shards(shape, DTYPES[self.dtype], tuple(self._shard(shape, *each) for each in held.items()))

    def described(self, name: str) -> TensorInfo:
        """What people are told of it: the type of the whole."""
        shape = tuple(int(size) if size.isdecimal() else size for size in self.sizes)
        return TensorInfo(name, DTYPES[self.dtype], shape, type_text(self.dtype, self.sizes))

    @cached_property
    def _shape_of(self) -> Callable[[Sequence[int]], tuple[int, ...]]:
        return compile_sizes(self.shape)

    def _shard(self, shape: tuple[int, ...], device: int, data: np.ndarray) -> Shard:
        index = tuple(
            _block(size, count, ordinals[device])
            for size, count, ordinals in zip(shape, self.counts, self.blocks, strict=True)
        )
        held = data[tuple(slice(each.stop - each.start) for each in index)]
        return Shard(device, index, held if held.shape == data.shape else held.copy())


def decode_outputs(value: JsonValue, program: Program, devices: int) -> tuple[LocalOutput | None, ...]:
    """For each output of the program how it is divided, None where each device has it whole.

    Raises ValueError for what no compiler wrote.
    """
    if not isinstance(value, list) or len(value) != len(program.outputs):
        raise ValueError("it does not say of each output how it is divided")
    decoded = tuple(
        None if each is None else decode_noun(LocalOutput, each, f"outputs[{index}]")
        for index, each in enumerate(value)
    )
    for output, parameter in zip(decoded, program.outputs, strict=True):
        if output is not None and not _fits(output, parameter, len(program.symbols), devices):
            raise ValueError(f"output {parameter.name!r} is not divided so over {devices} devices")
    return decoded


def local_signature(signature: Signature, outputs: Sequence[LocalOutput | None]) -> Signature:
    """The signature whose outputs are those of the whole."""
    pairs = zip(signature.outputs, outputs, strict=True)
    return replace(
        signature, outputs=tuple(info if each is None else each.described(info.name) for info, each in pairs)
    )


def local_values(
    outputs: Sequence[LocalOutput | None], sizes: Sequence[int], held: Mapping[int, Sequence["SlotValue"]]
) -> list["SlotValue"]:
    """The outputs of a call, for what devices of this process gave: the first of them says what is not divided."""
    first = next(iter(held.values()))
    return [
        first[k] if each is None else each.shards(sizes, {device: as_array(made[k]) for device, made in held.items()})
        for k, each in enumerate(outputs)
    ]


def _fits(output: LocalOutput, parameter: Parameter, symbols: int, devices: int) -> bool:
    rank = None if parameter.shape is None else len(parameter.shape)
    return (
        output.dtype == parameter.dtype
        and output.dtype in DTYPES
        and [len(output.sizes), len(output.shape), len(output.counts), len(output.blocks)] == [rank] * 4
        and all(is_size(text, symbols) for text in output.shape)
        and all(
            count >= 1 and len(ordinals) == devices and all(0 <= ordinal < count for ordinal in ordinals)
            for count, ordinals in zip(output.counts, output.blocks, strict=True)
        )
    )


def _block(size: int, count: int, ordinal: int) -> slice:
    """The elements of block `ordinal` of `count`: ⌈size / count⌉ of them, fewer at the end of the axis."""
    length = -(-size // count)
    return slice(min(length * ordinal, size), min(length * (ordinal + 1), size))
