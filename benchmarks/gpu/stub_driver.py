"""A CUDA driver whose functions return at once: what a call costs without it is what our host code costs.

Each function is a few instructions made by LLVM, which count the call and give out handles and addresses. Nothing is
copied or run, and memory of the device is addresses alone.
"""

import ctypes
from collections.abc import Mapping

import llvmlite.binding as llvm

from onnxc.runtime.gpu.driver import PROTOTYPES, Driver

__all__ = ["StubDriver"]

# By CUdevice_attribute: what an H200 has of multiprocessors, of compute capability, of shared memory for a block.
_ATTRIBUTES = {16: 132, 75: 9, 76: 0, 97: 232448}

_MEMORY_BYTES = 141 * 10**9
_CONTEXT = 0xC000

# What functions write through their first parameter: a number, or the next handle.
_CODES: Mapping[str, tuple[str, int]] = {
    "cuDriverGetVersion": ("i32", 13000),
    "cuDeviceGetCount": ("i32", 1),
    "cuDeviceGet": ("i32", 0),
    "cuDeviceTotalMem_v2": ("i64", _MEMORY_BYTES),
    "cuDevicePrimaryCtxRetain": ("i64", _CONTEXT),
    "cuCtxGetCurrent": ("i64", _CONTEXT),
    "cuEventElapsedTime": ("i32", 0x3F800000),
}
_HANDLES = (
    "cuStreamCreate", "cuEventCreate", "cuModuleLoadData", "cuModuleGetFunction", "cuGraphInstantiateWithFlags",
)  # fmt: skip
_FIRST_ADDRESS = 0x7F00_0000_0000

_TYPES = {ctypes.c_int: "i32", ctypes.c_uint: "i32", ctypes.c_ubyte: "i8", ctypes.c_size_t: "i64",
          ctypes.c_ulonglong: "i64"}  # fmt: skip


class StubDriver:
    """One process's driver; `calls` counts them by function."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._counts = (ctypes.c_int64 * len(PROTOTYPES))()
        text = "\n".join((_HEADER, *(self._function(name, k) for k, name in enumerate(PROTOTYPES))))
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
        self._engine.finalize_object()
        addresses = {name: self._engine.get_function_address(f"stub_{name}") for name in PROTOTYPES}
        self.driver = Driver(addresses, "a stub", self)

    @property
    def calls(self) -> dict[str, int]:
        """How often each function was called so far."""
        return {name: int(count) for name, count in zip(PROTOTYPES, self._counts, strict=True)}

    def _function(self, name: str, ordinal: int) -> str:
        """The text of a function: it counts, does its little, and gives 0."""
        count = ctypes.addressof(self._counts) + 8 * ordinal
        parameters = ", ".join(f"{_TYPES.get(kind, 'ptr')} %p{k}" for k, kind in enumerate(PROTOTYPES[name]))
        return f"""define i32 @stub_{name}({parameters}) {{
  %count = inttoptr i64 {count} to ptr
  %before = load i64, ptr %count
  %after = add i64 %before, 1
  store i64 %after, ptr %count
{_effect(name)}  ret i32 0
}}
"""


def _effect(name: str) -> str:
    """What a function does beside counting."""
    if name in _CODES:
        kind, operand = _CODES[name]
        return f"  store {kind} {operand}, ptr %p0\n"
    if name in _HANDLES:
        return _counted_up("@next_handle", "1")
    return _EFFECTS.get(name, "")


def _counted_up(counter: str, step: str, parameter: int = 0) -> str:
    """Writes what a counter is through a parameter, and counts it up."""
    return (
        f"  %value = load i64, ptr {counter}\n  %more = add i64 %value, {step}\n"
        f"  store i64 %more, ptr {counter}\n  store i64 %value, ptr %p{parameter}\n"
    )


_EFFECTS: Mapping[str, str] = {
    "cuMemAlloc_v2": "  %wide = add i64 %p1, 511\n  %step = and i64 %wide, -512\n"
    + _counted_up("@next_address", "%step"),
    "cuStreamEndCapture": _counted_up("@next_handle", "1", parameter=1),
    # What kernels would have counted, and left there, is 0.
    "cuMemHostAlloc": "  %memory = call ptr @aligned_alloc(i64 64, i64 %p1)\n  store ptr %memory, ptr %p0\n"
    "  %cleared = call ptr @memset(ptr %memory, i32 0, i64 %p1)\n",
    "cuMemFreeHost": "  call void @free(ptr %p0)\n",
    "cuDeviceGetName": "  store i8 0, ptr %p0\n",
    "cuMemGetInfo_v2": f"  store i64 {_MEMORY_BYTES}, ptr %p0\n  store i64 {_MEMORY_BYTES}, ptr %p1\n",
    "cuPointerGetAttribute": "  store i32 0, ptr %p0\n",
    "cuDeviceGetAttribute": "".join(
        f"  %is{which} = icmp eq i32 %p1, {which}\n"
        f"  %v{which} = select i1 %is{which}, i32 {value}, i32 {f'%v{before}' if before else 0}\n"
        for before, (which, value) in zip((0, *_ATTRIBUTES), _ATTRIBUTES.items(), strict=False)
    )
    + f"  store i32 %v{list(_ATTRIBUTES)[-1]}, ptr %p0\n",
}

_HEADER = f"""
@next_handle = internal global i64 4096
@next_address = internal global i64 {_FIRST_ADDRESS}
declare ptr @aligned_alloc(i64, i64)
declare ptr @memset(ptr, i32, i64)
declare void @free(ptr)
"""
