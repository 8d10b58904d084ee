"""What ONNX Runtime's allocators are set up by: accepted, kept, and without effect, since calls have arenas of a size
that is known when a model is compiled."""

from collections.abc import Mapping
from enum import IntEnum

from onnxc.compat.onnxruntime.ort_values import OrtMemType

__all__ = [
    "ArenaExtendStrategy", "OrtAllocatorType", "OrtArenaCfg", "OrtDeviceMemoryType", "OrtMemoryInfo",
    "OrtMemoryInfoDeviceType", "create_and_register_allocator", "create_and_register_allocator_v2",
]  # fmt: skip


class OrtAllocatorType(IntEnum):
    """Accepted; there is one kind."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class ArenaExtendStrategy(IntEnum):
    """Accepted; arenas do not grow."""

    kNextPowerOfTwo = 0
    kSameAsRequested = 1


class OrtDeviceMemoryType(IntEnum):
    """Kinds of memory of a device."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtMemoryInfoDeviceType(IntEnum):
    """Kinds of devices that memory is of."""

    CPU = 0
    GPU = 1
    FPGA = 2
    NPU = 3


class OrtMemoryInfo:
    """Where an allocator gets its memory."""

    device_mem_type = OrtDeviceMemoryType.DEFAULT
    device_vendor_id = 0

    def __init__(self, name: str, kind: OrtAllocatorType, device_id: int, memory: OrtMemType) -> None:
        self.name, self.allocator_type, self.device_id, self.mem_type = name, kind, device_id, memory

    @classmethod
    def create_v2(
        cls,
        name: str,
        device_type: OrtMemoryInfoDeviceType,
        vendor_id: int,
        device_id: int,
        memory: OrtDeviceMemoryType,
        alignment: int,
        kind: OrtAllocatorType,
    ) -> "OrtMemoryInfo":
        """As the constructor, with more of the device. Nothing here is on another device, nor aligned otherwise."""
        made = cls(name, kind, device_id, OrtMemType.DEFAULT)
        made.device_vendor_id, made.device_mem_type = vendor_id, memory
        return made

    @classmethod
    def of_cpu(cls) -> "OrtMemoryInfo":
        """The memory that values of sessions are in."""
        return cls("Cpu", OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, OrtMemType.DEFAULT)


class OrtArenaCfg:
    """Limits of an arena, in bytes; -1 for none. Accepted and kept."""

    _NAMES = (
        "max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk",
        "initial_growth_chunk_size_bytes", "max_power_of_two_extend_bytes",
    )  # fmt: skip

    def __init__(self, *given: int | Mapping[str, int]) -> None:
        """The first four by position, or any of them as a mapping. Raises RuntimeError for other names."""
        named: dict[str, int] = dict.fromkeys(self._NAMES, -1)
        for name, value in zip(self._NAMES, given, strict=False):
            named |= dict(value) if isinstance(value, Mapping) else {name: value}
        unknown = named.keys() - {*self._NAMES}
        if unknown:
            raise RuntimeError(f"Invalid OrtArenaCfg option: {', '.join(sorted(unknown))}")
        for name, limit in named.items():
            setattr(self, name, limit)


def create_and_register_allocator(_memory: OrtMemoryInfo, _arena: OrtArenaCfg | None) -> None:
    """Changes nothing: executables share the memory of calls that have ended already."""


def create_and_register_allocator_v2(
    _provider: str, _memory: OrtMemoryInfo, _options: Mapping[str, str], _arena: OrtArenaCfg | None
) -> None:
    """Changes nothing, as `create_and_register_allocator`."""
