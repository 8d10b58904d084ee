"""What the results of CUDA driver calls mean for people: a code of ours for each kind, and what to do.

Source: CUDA driver API, enum CUresult.
"""

from collections.abc import Mapping

from onnxc.runtime.errors import DeviceError

__all__ = ["DEVICE_LOST", "OUT_OF_MEMORY", "describe_result"]

OUT_OF_MEMORY = 2

# After these the context takes no more work from anybody in the process.
DEVICE_LOST = frozenset((214, 219, 220, 226, 700, 702, 710, 713, 714, 715, 716, 717, 718, 719, 721, 999))

_CODES: Mapping[str, tuple[int, ...]] = {
    "out-of-device-memory": (OUT_OF_MEMORY,),
    "no-cuda-driver": (34,),
    "driver-shut-down": (3, 4),
    "device-busy": (46, 205, 208),
    "no-cuda-device": (100, 101),
    "kernel-image": (200, 218, 221, 300, 301, 302, 303, 500),
    "device-context": (201, 709),
    "wrong-architecture": (209,),
    "driver-too-old": (35, 222, 223),
    "launch-resources": (701, 720),
    "driver-mismatch": (802, 803, 804),
    "not-supported": (800, 801),
    "stream-capture": tuple(range(900, 911)),
    "device-lost": tuple(sorted(DEVICE_LOST)),
}
_CODE_OF = {status: code for code, statuses in _CODES.items() for status in statuses}

_ADVICE: Mapping[str, str] = {
    "out-of-device-memory": "free device memory, or call with smaller inputs; later calls are possible",
    "no-cuda-driver": "a stub of the driver library was loaded: install the NVIDIA driver",
    "driver-shut-down": "the driver has been shut down: the process is ending",
    "device-busy": "another process has the device for itself, or it is being serviced",
    "no-cuda-device": "no such device is visible to this process: see nvidia-smi and CUDA_VISIBLE_DEVICES",
    "kernel-image": "the device code in the artifact is damaged: compile the model again",
    "device-context": "the CUDA context of this process was destroyed: restart the process",
    "wrong-architecture": "compile the model for this device",
    "driver-too-old": "update the NVIDIA driver",
    "launch-resources": "a kernel asks for more than the device has: compile the model for this device",
    "driver-mismatch": "the driver library and the kernel module differ: update or reload the NVIDIA driver",
    "not-supported": "the device or its driver does not allow this",
    "stream-capture": "a call cannot be part of a CUDA graph that the caller captures",
    "device-lost": "the device takes no more work from this process: restart the process; the CPU is usable",
    "driver-error": "see the CUDA driver API for this result",
}


def describe_result(result: int, purpose: str, function: str, name: str, text: str) -> DeviceError:
    """The error for a CUresult, from its number, the driver's name and text for it, and what was to be done."""
    code = _CODE_OF.get(result, "driver-error")
    named = f"{name or 'CUresult'} ({result})" + (f", {text}" if text else "")
    return DeviceError(f"{function} failed {purpose}: {named}; {_ADVICE[code]}", code=code)
