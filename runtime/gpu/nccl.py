"""NCCL as one table of functions, and its failures as DeviceErrors.

Nothing else of onnxc reaches the library, so that a fake can stand in, as for the driver. Source: NCCL 2, nccl.h.
"""

import ctypes
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ctypes import POINTER, c_int, c_size_t, c_void_p
from functools import cache

from onnxc.runtime.errors import DeviceError
from onnxc.runtime.gpu.shared_library import addresses_of, open_library, read_pointer

__all__ = ["PROTOTYPES", "Config", "Nccl", "UniqueId", "combines", "load_nccl", "reduction", "this_nccl"]

LIBRARIES = ("libnccl.so.2", "libnccl.so")

# Communicators that do not block came with 2.14, which is older than CUDA 12 and so than any driver that we run on.
LEAST_VERSION = 21400

# ncclResult_t: an operation of a communicator that does not block goes on.
IN_PROGRESS = 7

ID_BYTES = 128


class UniqueId(ctypes.Structure):
    """ncclUniqueId: what the processes of one communicator know it by."""

    _fields_ = (("data", ctypes.c_ubyte * ID_BYTES),)


class Config(ctypes.Structure):
    """ncclConfig_t as it was in 2.14; later versions read no more than what `size` and `version` say."""

    _fields_ = (
        ("size", c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint), ("blocking", c_int),
    )  # fmt: skip


_CONFIG_MAGIC = 0xCAFEBEEF

# Argument types; every function gives a ncclResult_t.
PROTOTYPES: Mapping[str, tuple[type, ...]] = {
    "ncclGetVersion": (POINTER(c_int),),
    "ncclCommInitAll": (POINTER(c_void_p), c_int, POINTER(c_int)),
    "ncclGetUniqueId": (POINTER(UniqueId),),
    "ncclCommInitRankConfig": (POINTER(c_void_p), c_int, UniqueId, c_int, POINTER(Config)),
    "ncclCommAbort": (c_void_p,),
    "ncclCommGetAsyncError": (c_void_p, POINTER(c_int)),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
    "ncclAllReduce": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "ncclReduceScatter": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "ncclAllGather": (c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p),
    "ncclSend": (c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "ncclRecv": (c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
}

# ncclDataType_t, ncclRedOp_t.
BYTES = 1
_TYPES = {
    "i8": 0, "u8": 1, "i32": 2, "u32": 3, "i64": 4, "u64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9,
}  # fmt: skip
_KINDS = {"sum": 0, "prod": 1, "max": 2, "min": 3}

# A bool is a byte of 0 or 1.
_LOGICAL = {"or": 2, "max": 2, "and": 3, "min": 3}

_RESULTS = {
    1: "ncclUnhandledCudaError", 2: "ncclSystemError", 3: "ncclInternalError", 4: "ncclInvalidArgument",
    5: "ncclInvalidUsage", 6: "ncclRemoteError", 7: "ncclInProgress",
}  # fmt: skip


def combines(dtype: str, kind: str) -> bool:
    """Whether elements of a type can be combined in that way."""
    return kind in _LOGICAL if dtype == "bool" else dtype in _TYPES and kind in _KINDS


def reduction(dtype: str, kind: str) -> tuple[int, int]:
    """The numbers of the type and of the operation; DeviceError where the library does not combine it."""
    if not combines(dtype, kind):
        raise DeviceError(f"NCCL does not combine {dtype} by {kind}", code="unfit-step")
    return (BYTES, _LOGICAL[kind]) if dtype == "bool" else (_TYPES[dtype], _KINDS[kind])


class Nccl:
    """The library. `addresses` are those of its functions; `library` says for people where it is from."""

    def __init__(self, addresses: Mapping[str, int], library: str, owner: object = None) -> None:
        self.library, self._owner = library, owner
        missing = [name for name in PROTOTYPES if name not in addresses]
        if missing:
            raise _too_old(f"NCCL {library} has no {', '.join(missing)}")
        self.functions: Mapping[str, Callable[..., int]] = {
            name: ctypes.CFUNCTYPE(c_int, *types)(addresses[name]) for name, types in PROTOTYPES.items()
        }
        version = c_int()
        self.call("to ask for its version", "ncclGetVersion", ctypes.byref(version))
        if version.value < LEAST_VERSION:
            raise _too_old(f"NCCL {library} says version {version.value}")

    def call(self, purpose: str, name: str, *arguments: object) -> None:
        """Calls a function; DeviceError, which tells the purpose, where it fails.

        For a communicator that does not block what was asked for may go on when this returns: see `is_busy`.
        """
        result = self.functions[name](*arguments)
        if result not in (0, IN_PROGRESS):
            raise self.error(result, purpose, name)

    @contextmanager
    def group(self, purpose: str) -> Iterator[None]:
        """The calls of the `with` block start as one, which may be for several devices."""
        self.call(purpose, "ncclGroupStart")
        try:
            yield
        except DeviceError:
            self.functions["ncclGroupEnd"]()
            raise
        self.call(purpose, "ncclGroupEnd")

    def error(self, result: int, purpose: str, name: str) -> DeviceError:
        """The DeviceError that a result means."""
        named = f"{_RESULTS.get(result, 'ncclResult_t')} ({result})"
        message = f"{name} failed {purpose}: {named}; NCCL_DEBUG=WARN has it print what went wrong"
        return DeviceError(message, code="nccl-error")

    def connect(self, devices: tuple[int, ...]) -> list[int]:
        """A communicator for each CUDA device of a group, all made at once; the n-th is that of the n-th device."""
        made = (c_void_p * len(devices))()
        ordinals = (c_int * len(devices))(*devices)
        listed = ", ".join(map(str, devices))
        self.call(f"to connect the CUDA devices {listed}", "ncclCommInitAll", made, len(devices), ordinals)
        return [address or 0 for address in made]

    def new_id(self) -> bytes:
        """What the processes of a communicator, which are yet to join it, know it by."""
        made = UniqueId()
        self.call("to name a communicator", "ncclGetUniqueId", ctypes.byref(made))
        return bytes(made.data)

    def join(self, name: bytes, rank: int, count: int) -> int:
        """The communicator of this process, the one of this rank of `count`, for the CUDA device that is current.

        It does not block: it is there when it is not busy any more, which takes all others.
        """
        made, config = c_void_p(), Config(ctypes.sizeof(Config), _CONFIG_MAGIC, LEAST_VERSION, 0)
        arguments = count, UniqueId.from_buffer_copy(name), rank, ctypes.byref(config)
        self.call("to join a communicator", "ncclCommInitRankConfig", ctypes.byref(made), *arguments)
        return read_pointer(made)

    def is_busy(self, communicator: int) -> bool:
        """Whether a communicator that does not block has not yet taken what was called last. Raises DeviceError."""
        status = self._status(communicator)
        if status not in (0, IN_PROGRESS):
            raise self.error(status, "in a call", "NCCL")
        return status == IN_PROGRESS

    def problem(self, communicator: int) -> DeviceError | None:
        """What went wrong in the exchanges that were enqueued, None for nothing so far."""
        status = self._status(communicator)
        return self.error(status, "in an exchange", "NCCL") if status not in (0, IN_PROGRESS) else None

    def _status(self, communicator: int) -> int:
        status = c_int()
        self.call("in a call", "ncclCommGetAsyncError", communicator, ctypes.byref(status))
        return status.value


def load_nccl() -> Nccl:
    """The library of this machine; a DeviceError says what was looked for where there is none."""
    try:
        library, name = open_library(LIBRARIES)
    except OSError as problem:
        message = (
            f"several GPUs exchange values by NCCL, and there is no such library ({problem}): install libnccl2, or"
            " nvidia-nccl-cu12 with its folder of libraries on LD_LIBRARY_PATH"
        )
        raise DeviceError(message, code="nccl-missing") from None
    return Nccl(addresses_of(library, PROTOTYPES), name, library)


@cache
def this_nccl() -> Nccl:
    """The library of this machine, once for the process."""
    return load_nccl()


def _too_old(text: str) -> DeviceError:
    return DeviceError(f"{text}; needed is {LEAST_VERSION} (2.14) or newer: update NCCL", code="nccl-too-old")
