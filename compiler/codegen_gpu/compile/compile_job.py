"""What goes to a compiling process and what comes back: plain data, known to both sides."""

from onnxc.runtime.records import record

__all__ = ["OPTIONS", "Compiled", "Job"]

# No multiply and add are contracted that the source does not contract itself (tl.fma, tl.dot): each ONNX operator
# rounds once. libdevice keeps subnormal numbers, as the meanings in runtime/host do.
OPTIONS = {"enable_fp_fusion": False, "enable_reflect_ftz": False}


@record
class Job:
    """A kernel to compile; `parameters` are names and types in order, `architecture` a number such as 90."""

    name: str
    text: str
    parameters: tuple[tuple[str, str], ...]
    divisible: tuple[str, ...]
    warps: int
    stages: int
    architecture: int
    cooperative: bool = False


@record
class Compiled:
    """A compiled kernel and what its launch must know; shared memory and global scratch memory are bytes of a CTA."""

    entry: str
    cubin: bytes
    warps: int
    ctas: int
    shared_bytes: int
    scratch_bytes: int
    cooperative: bool
