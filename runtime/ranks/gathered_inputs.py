"""Inputs that come as shards, of which each rank has its own: every rank sends its block to all others."""

from collections.abc import Sequence

import numpy as np

from onnxc.runtime.arrays import type_text
from onnxc.runtime.devices.local_inputs import is_laid_out
from onnxc.runtime.devices.local_layout import LocalLayout
from onnxc.runtime.devices.shards import Shard, Shards
from onnxc.runtime.dtypes import dtype_name
from onnxc.runtime.errors import InputError
from onnxc.runtime.ranks.world import World

__all__ = ["gather_inputs"]

_NAME = "gather_input"


def gather_inputs(inputs: Sequence[object], layouts: Sequence[LocalLayout | None], world: World) -> list[object]:
    """The inputs of a call, where those of which this rank has one shard are whole; by their layouts they stay.

    All ranks come with shards of the same inputs. Raises InputError where these are not of one output.
    """
    wanted = layouts or (None,) * len(inputs)
    return [
        _whole(value, world)
        if isinstance(value, Shards) and len(value.shards) == 1 and not is_laid_out(value, layout, (world.rank,))
        else value
        for value, layout in zip(inputs, wanted, strict=False)
    ]


def _whole(own: Shards, world: World) -> np.ndarray:
    (shard,) = own.shards
    ends = [(each.start, each.stop, size) for each, size in zip(shard.index, own.shape, strict=True)]
    layouts = world.gather(np.array(ends, np.int64).reshape(-1, 3), _NAME)
    blocks = world.gather(shard.host(), _NAME)
    types = [
        type_text(dtype_name(block.dtype), layout[:, 2].tolist()) for block, layout in zip(blocks, layouts, strict=True)
    ]
    if len(set(types)) > 1:
        listed = ", ".join(f"{text} on device {rank}" for rank, text in enumerate(types))
        raise InputError(f"an input comes as shards of different outputs: {listed}", code="shards-differ")
    shards = [
        Shard(rank, tuple(slice(start, stop) for start, stop, _ in layouts[rank].tolist()), blocks[rank])
        for rank in range(world.size)
    ]
    return Shards(own.shape, blocks[0].dtype, tuple(shards)).whole()
