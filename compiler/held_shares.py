"""What each device holds of divided constants, as arrays in the layouts that the kernels of its program read."""

from collections.abc import Sequence
from math import prod

import numpy as np

from onnxc.compiler.codegen_host.weights import packed
from onnxc.compiler.planning.kernel_plan import PackedShare
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.sharding.exchange import local_shape
from onnxc.compiler.sharding.partition import Partition
from onnxc.runtime.program import JsonValue

__all__ = ["held_shares", "share_bytes"]


def held_shares(divided: Partition, kept: Sequence[PackedShare]) -> tuple[tuple[np.ndarray, ...], ...]:
    """For each device the values of the last parameters of its plan, which are `kept`."""
    mesh = divided.propagation.mesh
    return tuple(
        tuple(packed(divided.shares[share.ordinal].of_device(mesh, device), share.layout) for share in kept)
        for device in range(mesh.devices)
    )


def share_bytes(divided: Partition) -> list[JsonValue]:
    """For each device the bytes of its blocks of constants, before they are packed: blocks of one size."""
    mesh = divided.propagation.mesh
    sizes = (
        prod(known_sizes(local_shape(share.value.shape, share.sharding, mesh)), start=share.value.itemsize)
        for share in divided.shares
    )
    return [sum(sizes)] * mesh.devices
