"""What the program of each device reads of the inputs of a call: its blocks of those that are divided.

An input comes whole, of which a device takes its block, or as the shards that the program wants, which are those blocks
already and go nowhere else. Shards that are divided in another way are put together.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.arrays import import_array
from onnxc.runtime.device_value import DeviceValue
from onnxc.runtime.devices.local_layout import LocalLayout
from onnxc.runtime.devices.shards import Shards
from onnxc.runtime.dtypes import DTYPES, DType
from onnxc.runtime.values import as_array

if TYPE_CHECKING:
    from onnxc.runtime.values import SlotValue

__all__ = ["import_block", "is_laid_out", "local_inputs", "together"]


def is_laid_out(value: object, layout: LocalLayout | None, devices: Sequence[int]) -> bool:
    """Whether the value is shards on these devices, those of this process, by the layout of an input.

    Processes that have shards of one output come to one result.
    """
    if layout is None or not isinstance(value, Shards) or len(value.shape) != len(layout.counts):
        return False
    index, dtype = layout.index(value.shape), DTYPES[layout.dtype]
    return (
        value.dtype == dtype
        and value.index == index
        and [(shard.device, shard.index) for shard in value.shards] == [(each, index[each]) for each in devices]
        and all(_is_block(shard.data, shard.index, dtype) for shard in value.shards)
    )


def together(inputs: Sequence[object], layouts: Sequence[LocalLayout | None], devices: Sequence[int]) -> list[object]:
    """The inputs of a call, where shards that the program does not read as they are are whole."""
    wanted = layouts or (None,) * len(inputs)
    return [
        value.whole() if isinstance(value, Shards) and not is_laid_out(value, layout, devices) else value
        for value, layout in zip(inputs, wanted, strict=False)
    ]


def import_block(value: object, dtype: DType, what: str, expected: str) -> np.ndarray | Shards:
    """As `import_array`, where shards stay what they are."""
    return value if isinstance(value, Shards) else import_array(value, dtype, what, expected)


def local_inputs(
    layouts: Sequence[LocalLayout | None], values: Sequence["SlotValue"], device: int, *, on_device: bool = False
) -> "tuple[SlotValue, ...]":
    """What a device reads of each input of a call; the values behind those of the layouts are for all.

    on_device: whether it reads shards in the memory of devices as they are.
    """
    parts = [
        value if layout is None else _local(layout, value, device, on_device=on_device)
        for layout, value in zip(layouts, values, strict=False)
    ]
    return (*parts, *values[len(parts) :])


def _local(layout: LocalLayout, value: "SlotValue", device: int, *, on_device: bool) -> np.ndarray | DeviceValue:
    """The block of a device: a view, or the shard itself, where it is full and its elements are in order."""
    if isinstance(value, Shards):
        shape = value.shape
        shard = next(shard for shard in value.shards if shard.device == device)
        if on_device and isinstance(shard.data, DeviceValue) and shard.data.shape == layout.room(shape):
            return shard.data
        block = shard.host()
    else:
        whole = as_array(value)
        shape = whole.shape
        block = whole[layout.index(shape)[device]]
    missing = [(0, full - size) for full, size in zip(layout.room(shape), block.shape, strict=True)]
    if any(high for _, high in missing):
        # What is beyond the end of an axis is in no result. Zeros are legal as indices, too.
        return np.pad(block, missing, constant_values="" if block.dtype == np.object_ else 0)
    return np.ascontiguousarray(block)


def _is_block(data: object, index: Sequence[slice], dtype: DType) -> bool:
    shape = tuple(each.stop - each.start for each in index)
    if not isinstance(data, np.ndarray | DeviceValue) or data.dtype != dtype or data.shape != shape:
        return False
    return isinstance(data, DeviceValue) or data.flags.aligned
