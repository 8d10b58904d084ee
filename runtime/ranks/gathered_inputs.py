"""Inputs that come as shards, of which each rank has its own: every rank sends its block to all others."""

from collections.abc import Sequence

import numpy as np

from onnxc.runtime.arrays import type_text
from onnxc.runtime.devices.shards import Shard, Shards
from onnxc.runtime.dtypes import dtype_name
from onnxc.runtime.errors import InputError
from onnxc.runtime.ranks.world import World

__all__ = ["gather_inputs"]

_NAME = "gather_input"


def gather_inputs(inputs: Sequence[object], world: World) -> list[object]:
    """The inputs of a call, where those of which this rank has one shard are whole.

    All ranks come with shards of the same inputs. Raises InputError where these are not of one output.
    """
    return [_whole(each, world) if isinstance(each, Shards) and len(each.shards) == 1 else each for each in inputs]


def _whole(own: Shards, world: World) -> np.ndarray:
    (shard,) = own.shards
    ends = [(each.start, each.stop, size) for each, size in zip(shard.index, own.shape, strict=True)]
    layouts = world.gather(np.array(ends, np.int64).reshape(-1, 3), _NAME)
    blocks = world.gather(shard.data, _NAME)
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
