"""Shardings: how the axes of a value are divided over the named axes of a mesh of devices, and their text forms.

A mesh `d0=2, d1=2` numbers its devices row by row, the first axis slowest. `[{d0}, {}]` divides the first axis of a
value into two blocks, and holds each on all devices of a row; `[{d0, d1}]` divides it into four, d0 slowest. A block
has ⌈size / blocks⌉ elements, so that the last ones may be short or empty. In `[{}] sum {d0}` each device along d0
holds a part of every element, and the element is their sum: a partial value.
"""

import itertools
import re
from collections.abc import Sequence
from functools import cached_property
from math import prod

from onnxc.compiler.ir.dims import Dim, floordiv, mod
from onnxc.runtime.records import record

__all__ = [
    "Axes",
    "Mesh",
    "Sharding",
    "Stage",
    "block_size",
    "is_divisible",
    "parse_mesh",
    "parse_sharding",
    "replicated",
]

Axes = tuple[str, ...]

_AXIS = re.compile(r"(\w+)=(\d+)")
_SHARDING = re.compile(r"\[((?:\{[\w, ]*\}(?:, (?=\{)|(?=\])))*)\](?: (\w+) \{([\w, ]+)\})?")


@record
class Mesh:
    """Devices as a grid; `parse_mesh(str(mesh)) == mesh`."""

    axes: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in self.axes)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """How many devices there are along each axis."""
        return dict(self.axes)

    @cached_property
    def strides(self) -> dict[str, int]:
        """By how much the ordinal of a device grows with its coordinate along each axis."""
        sizes = [size for _, size in self.axes]
        return {name: prod(sizes[index + 1 :]) for index, (name, _) in enumerate(self.axes)}

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return prod(self.sizes.values())

    def shards(self, axes: Axes) -> int:
        """Into how many blocks `axes` divide."""
        return prod(self.sizes[name] for name in axes)

    def block(self, device: int, axes: Axes) -> int:
        """Which of the blocks that `axes` divide into a device holds."""
        block = 0
        for name in axes:
            block = block * self.sizes[name] + device // self.strides[name] % self.sizes[name]
        return block

    def groups(self, axes: Axes) -> tuple[tuple[int, ...], ...]:
        """The devices that differ along `axes` alone: groups in order, and in each the devices by their blocks."""
        others = tuple(name for name, _ in self.axes if name not in axes)
        groups: dict[int, list[int]] = {}
        for device in range(self.devices):
            groups.setdefault(self.block(device, others), []).append(device)
        return tuple(tuple(sorted(group, key=lambda device: self.block(device, axes))) for group in groups.values())


@record
class Sharding:
    """For each axis of a value the axes of the mesh that divide it; `parse_sharding(str(sharding)) == sharding`.

    partial: along these axes of the mesh the devices hold parts, which `kind` combines: sum, max, ...
    """

    dims: tuple[Axes, ...]
    partial: Axes = ()
    kind: str = ""

    def __str__(self) -> str:
        text = f"[{', '.join('{' + ', '.join(axes) + '}' for axes in self.dims)}]"
        return f"{text} {self.kind} {{{', '.join(self.partial)}}}" if self.partial else text

    @property
    def axes(self) -> Axes:
        """All axes of the mesh that it uses."""
        return (*itertools.chain(*self.dims), *self.partial)

    @property
    def is_replicated(self) -> bool:
        """Whether each device holds the whole value."""
        return not self.axes

    def problem(self, mesh: Mesh, rank: int) -> str | None:
        """Why it is none of a value of `rank` on `mesh`."""
        if len(self.dims) != rank:
            return f"{self} has {len(self.dims)} axes, the value has {rank}"
        if unknown := [name for name in self.axes if name not in mesh.sizes]:
            return f"{self} names {', '.join(unknown)}, the mesh is {mesh}"
        if len(set(self.axes)) != len(self.axes):
            return f"{self} uses an axis of the mesh twice"
        return None


@record
class Stage:
    """A pipeline stage: its ordinal in the model, its mesh, and the device that each ordinal of the mesh is."""

    ordinal: int
    mesh: Mesh
    devices: tuple[int, ...]


def replicated(rank: int) -> Sharding:
    """The whole value on each device."""
    return Sharding(((),) * rank)


def parse_mesh(text: str) -> Mesh | None:
    """The mesh of a text; None where it is none."""
    parts = [_AXIS.fullmatch(part) for part in text.split(", ")]
    axes = tuple((part[1], int(part[2])) for part in parts if part is not None)
    is_mesh = len(axes) == len(parts) == len(dict(axes)) and all(size >= 1 for _, size in axes)
    return Mesh(axes) if is_mesh else None


def parse_sharding(text: str) -> Sharding | None:
    """The sharding of a text; None where it is none."""
    match = _SHARDING.fullmatch(text)
    if match is None:
        return None
    dims = tuple(_names(part) for part in re.findall(r"\{([^}]*)\}", match[1]))
    return Sharding(dims, _names(match[3] or ""), match[2] or "")


def _names(text: str) -> Axes:
    return tuple(text.split(", ")) if text else ()


def block_size(size: Dim, shards: int) -> Dim:
    """How many elements each block of an axis has room for."""
    return floordiv(size + (shards - 1), shards)


def is_divisible(size: Dim, shards: Sequence[int] | int) -> bool:
    """Whether blocks of an axis are all full, whatever the sizes of a call."""
    counts = (shards,) if isinstance(shards, int) else shards
    return all(mod(size, count) == 0 for count in counts)
