"""Values that stay divided over devices: the block that each device holds, and which elements of the whole it is."""

import numpy as np

from onnxc.runtime.arrays import type_text
from onnxc.runtime.device_value import DeviceValue
from onnxc.runtime.dtypes import DType, dtype_name
from onnxc.runtime.errors import InputError
from onnxc.runtime.records import record

__all__ = ["Shard", "Shards"]


@record(eq=False)
class Shard:
    """What one device holds of an output.

    device: its ordinal in the configuration. index: for each axis which elements of the whole these are, as slices
    with both ends; `whole[shard.index]` and `shard.data` are equal. data: an array of the caller's own, empty where the
    axis ends before the block of this device. On a GPU it lies in the memory of the device, as a `DeviceArray`, unless
    the end of an axis cuts the block short.
    """

    device: int
    index: tuple[slice, ...]
    data: np.ndarray | DeviceValue

    def host(self) -> np.ndarray:
        """The elements in the memory of the host."""
        return self.data if isinstance(self.data, np.ndarray) else self.data.host()


@record(eq=False)
class Shards:
    """An output of a model compiled with outputs="local", as the devices of this process hold it.

    shape, dtype: those of the whole. shards: one for each device in order; of processes of MPI each has its own alone.
    Devices that hold copies have shards of the same index. index: for each device of the configuration, those of other
    processes too, which elements of the whole its block is; empty where that is not known.
    """

    shape: tuple[int, ...]
    dtype: DType
    shards: tuple[Shard, ...]
    index: tuple[tuple[slice, ...], ...] = ()

    def __repr__(self) -> str:
        return f"<Shards of {type_text(dtype_name(self.dtype), self.shape)} on {len(self.shards)} devices>"

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        """The output as one new array, as `whole` makes it, for NumPy and for calls that take it as an input."""
        if copy is False:
            raise ValueError("the output is in several arrays, which one array cannot share")
        return self.whole().astype(dtype or self.dtype, copy=False)

    def whole(self) -> np.ndarray:
        """The output as one new array.

        Raises InputError where devices of other processes hold some of it.
        """
        result = np.empty(self.shape, self.dtype)
        held = np.zeros(self.shape, bool)
        for shard in self.shards:
            result[shard.index], held[shard.index] = shard.host(), True
        if not held.all():
            message = f"{int(held.sum())} of {held.size} elements of the output are in this process"
            raise InputError(message, code="shards-elsewhere")
        return result
