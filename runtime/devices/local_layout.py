"""How inputs and outputs of a divided program are divided: what a file says of it, and the shards of a call."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.arrays import type_text
from onnxc.runtime.check_program import is_size
from onnxc.runtime.device_value import DeviceValue
from onnxc.runtime.devices.shards import Shard, Shards
from onnxc.runtime.dtypes import DTYPES
from onnxc.runtime.encoding import decode_noun
from onnxc.runtime.program import Binding, Check, JsonValue, Parameter, Program, SizeText, compile_sizes
from onnxc.runtime.records import record
from onnxc.runtime.signature import Signature, TensorInfo
from onnxc.runtime.values import arrived, as_array

if TYPE_CHECKING:
    from onnxc.runtime.values import SlotValue

__all__ = ["LocalLayout", "decode_layouts", "local_values", "whole_signature"]

# A size that is one symbol.
_SYMBOL = re.compile(r"s\[(\d+)\]")


@record
class LocalLayout:
    """How an input of a divided program comes, or an output stays, divided.

    dtype: by its name in the IR. sizes: of the whole, in the names of the symbols; shape: the same as the runtime
    computes them. blocks: for each axis the ordinal of the block that each device holds, of `counts` many; an axis of
    one block is whole on every device.
    """

    dtype: str
    sizes: tuple[str, ...]
    shape: tuple[SizeText, ...]
    counts: tuple[int, ...]
    blocks: tuple[tuple[int, ...], ...]

    def shards(self, sizes: Sequence[int], held: Mapping[int, np.ndarray | DeviceValue]) -> Shards:
        """What these devices hold, for the values of the symbols; blocks end where the whole does."""
        shape = self._shape_of(sizes)
        index = self.index(shape)
        shards = tuple(_shard(device, index[device], data) for device, data in held.items())
        return Shards(shape, DTYPES[self.dtype], shards, index)

    def index(self, shape: Sequence[int]) -> tuple[tuple[slice, ...], ...]:
        """For each device which elements of a whole of this shape it holds."""
        axes = [
            [_block(size, count, ordinal) for ordinal in ordinals]
            for size, count, ordinals in zip(shape, self.counts, self.blocks, strict=True)
        ]
        return tuple(zip(*axes, strict=True))

    def room(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what the program of each device reads: a full block, also where the axis ends before."""
        return tuple(-(-size // count) for size, count in zip(shape, self.counts, strict=True))

    def described(self, name: str) -> TensorInfo:
        """What people are told of it: the type of the whole."""
        shape = tuple(int(size) if size.isdecimal() else size for size in self.sizes)
        return TensorInfo(name, DTYPES[self.dtype], shape, type_text(self.dtype, self.sizes))

    @cached_property
    def _shape_of(self) -> Callable[[Sequence[int]], tuple[int, ...]]:
        return compile_sizes(self.shape)


def decode_layouts(
    value: JsonValue, parameters: Sequence[Parameter], side: str, program: Program, devices: int
) -> tuple[LocalLayout | None, ...]:
    """For each of these inputs or outputs of the program how it is divided, None where each device has it whole.

    side: "input" or "output". Raises ValueError for what no compiler wrote.
    """
    if not isinstance(value, list) or len(value) != len(parameters):
        raise ValueError(f"it does not say of each {side} how it is divided")
    decoded = tuple(
        None if each is None else decode_noun(LocalLayout, each, f"{side}s[{index}]")
        for index, each in enumerate(value)
    )
    for layout, parameter in zip(decoded, parameters, strict=True):
        if layout is not None and not _fits(layout, parameter, len(program.symbols), devices):
            raise ValueError(f"{side} {parameter.name!r} is not divided so over {devices} devices")
    return decoded


def whole_signature(
    signature: Signature, inputs: Sequence[LocalLayout | None], outputs: Sequence[LocalLayout | None]
) -> Signature:
    """The signature of the whole, for that of the program of a device; where nothing is divided they are equal."""
    if inputs:
        bindings, checks = _sizes_of_whole(signature, inputs)
        signature = replace(signature, inputs=_described(signature.inputs, inputs), bindings=bindings, checks=checks)
    return replace(signature, outputs=_described(signature.outputs, outputs)) if outputs else signature


def _described(infos: Sequence[TensorInfo], layouts: Sequence[LocalLayout | None]) -> tuple[TensorInfo, ...]:
    pairs = zip(infos, layouts, strict=True)
    return tuple(info if each is None else each.described(info.name) for info, each in pairs)


def _sizes_of_whole(
    signature: Signature, inputs: Sequence[LocalLayout | None]
) -> tuple[tuple[Binding, ...], tuple[Check, ...]]:
    """Which axes of whole inputs bind a symbol, the first that can, and what the others are held against."""
    sizes = {(each.slot, each.axis): f"s[{each.symbol}]" for each in signature.bindings}
    sizes |= {(each.slot, each.axis): each.size for each in signature.checks}
    for slot, layout in enumerate(inputs):
        if layout is not None:
            sizes |= {(slot, axis): size for axis, size in enumerate(layout.shape)}
    bindings: dict[int, Binding] = {}
    checks: list[Check] = []
    for (slot, axis), size in sorted(sizes.items()):
        symbol = _SYMBOL.fullmatch(size)
        if symbol and int(symbol[1]) not in bindings:
            bindings[int(symbol[1])] = Binding(slot, axis, int(symbol[1]))
        else:
            checks.append(Check(slot, axis, size))
    return tuple(bindings.values()), tuple(checks)


def local_values(
    outputs: Sequence[LocalLayout | None], sizes: Sequence[int], held: Mapping[int, Sequence["SlotValue"]]
) -> list["SlotValue"]:
    """The outputs of a call, for what devices of this process gave: the first of them says what is not divided."""
    first = next(iter(held.values()))
    return [
        first[k] if each is None else each.shards(sizes, {device: _tensor(made[k]) for device, made in held.items()})
        for k, each in enumerate(outputs)
    ]


def _shard(device: int, index: tuple[slice, ...], data: np.ndarray | DeviceValue) -> Shard:
    shape = tuple(each.stop - each.start for each in index)
    if shape == data.shape:
        return Shard(device, index, data)
    return Shard(device, index, as_array(data)[tuple(map(slice, shape))].copy())


def _tensor(value: "SlotValue") -> np.ndarray | DeviceValue:
    value = arrived(value)
    assert isinstance(value, np.ndarray | DeviceValue), type(value)
    return value


def _fits(layout: LocalLayout, parameter: Parameter, symbols: int, devices: int) -> bool:
    rank = None if parameter.shape is None else len(parameter.shape)
    return (
        layout.dtype == parameter.dtype
        and layout.dtype in DTYPES
        and [len(layout.sizes), len(layout.shape), len(layout.counts), len(layout.blocks)] == [rank] * 4
        and all(is_size(text, symbols) for text in layout.shape)
        and all(
            count >= 1 and len(ordinals) == devices and all(0 <= ordinal < count for ordinal in ordinals)
            for count, ordinals in zip(layout.counts, layout.blocks, strict=True)
        )
    )


def _block(size: int, count: int, ordinal: int) -> slice:
    """The elements of block `ordinal` of `count`: ⌈size / count⌉ of them, fewer at the end of the axis."""
    length = -(-size // count)
    return slice(min(length * ordinal, size), min(length * (ordinal + 1), size))
