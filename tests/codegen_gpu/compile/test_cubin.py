"""Cubins: what is read from them is what NVIDIA's own tools and the launch metadata say, for each architecture."""

import importlib.util
import re
import struct
import subprocess
from functools import cache
from pathlib import Path
from random import Random

import pytest

from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels
from onnxc.compiler.codegen_gpu.compile.cubin import Cubin, CubinError, CubinParameter, instruction_counts, read_cubin
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.target import parse_target
from onnxc.runtime.device_code import DeviceKernel
from tests.codegen_gpu.sources import SPILLING, dot, elementwise, reduction, source

# Not imported: whoever is the first to import it decides for the process whether kernels are interpreted.
TRITON = importlib.util.find_spec("triton")
assert TRITON is not None
assert TRITON.origin is not None
TOOLS = Path(TRITON.origin).parent / "backends" / "nvidia" / "bin"
ARCHITECTURES = ("sm_80", "sm_90")
LOCAL, NOTHING = (0x983, 0x387), 0x918
"""The operations of instructions: LDL and STL, NOP."""

SOURCES: dict[str, KernelSource] = {
    "elementwise-f32": elementwise("fp32"),
    "elementwise-f16": elementwise("fp16"),
    "reduction": reduction(),
    "dot-bf16": dot("bf16"),
    "dot-f32": dot("fp32", depth=16),
    "spilling": source(SPILLING, "*fp32", "*fp32"),
    "eight-warps": source("@triton.jit\ndef kernel():\n    pass\n", warps=8),
}


@cache
def kernels(architecture: str) -> dict[str, DeviceKernel]:
    """The sources compiled, for the newest architecture only two: their instructions are not looked at."""
    names = [name for name in SOURCES if architecture != "sm_100" or name in ("reduction", "dot-bf16")]
    found = compile_kernels([SOURCES[name] for name in names], parse_target(f"cuda:{architecture}"), None)
    return dict(zip(names, found, strict=True))


def usage(cubin: bytes, folder: Path) -> dict[str, int]:
    """What `cuobjdump -res-usage` says: REG, STACK, SHARED, ..."""
    (folder / "kernel.cubin").write_bytes(cubin)
    command = [str(TOOLS / "cuobjdump"), "-res-usage", str(folder / "kernel.cubin")]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {name: int(number) for name, number in re.findall(r"([A-Z]+):(\d+)", text.rpartition("Function")[2])}


def counts(architecture: str, name: str) -> dict[str, int]:
    return dict(instruction_counts(kernels(architecture)[name].cubin, TOOLS / "nvdisasm"))


def some(counts: dict[str, int], prefix: str) -> int:
    return sum(number for name, number in counts.items() if name.startswith(prefix))


@pytest.mark.slow
@pytest.mark.parametrize("architecture", [*ARCHITECTURES, "sm_100"])
def test_registers_and_memory_are_those_that_cuobjdump_tells(architecture: str, tmp_path: Path) -> None:
    for name, kernel in kernels(architecture).items():
        cubin, told = read_cubin(kernel.cubin), usage(kernel.cubin, tmp_path)
        assert (cubin.registers, cubin.stack_bytes) == (told["REG"], told["STACK"]), name
        # From sm_90 on the tool counts the system's part.
        assert cubin.shared_bytes == told["SHARED"] - (0 if architecture == "sm_80" else 1024 * (told["SHARED"] > 0))
        assert (cubin.entry, f"sm_{cubin.architecture}") == ("kernel", architecture)
        assert cubin.threads == 32 * SOURCES[name].warps
        assert (kernel.registers, kernel.stack_bytes) == (cubin.registers, cubin.stack_bytes)
        assert (cubin.stack_bytes > 0) == (name == "spilling")


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_frame_that_no_instruction_reads_or_writes_is_no_stack(architecture: str) -> None:
    """As compilers leave them behind: here loads from the stack and stores to it become nothing."""
    cubin, listed = kernels(architecture)["spilling"].cubin, counts(architecture, "spilling")
    local = [at for at in range(0, len(cubin) - 1, 16) if int.from_bytes(cubin[at : at + 2], "little") & 0xFFF in LOCAL]
    assert len(local) >= some(listed, "LDL") + some(listed, "STL") > 0
    quiet = bytearray(cubin)
    for at in local:
        quiet[at : at + 16] = NOTHING.to_bytes(16, "little")
    assert (read_cubin(cubin).stack_bytes > 0, read_cubin(bytes(quiet)).stack_bytes) == (True, 0)


@pytest.mark.slow
def test_the_table_of_parameters_is_read() -> None:
    expected = [(0, 8), (8, 8), (16, 8), (24, 4), (32, 8), (40, 8)]
    found = read_cubin(kernels("sm_90")["dot-bf16"].cubin).parameters
    assert found == tuple(CubinParameter(offset, size) for offset, size in expected)
    found = read_cubin(kernels("sm_90")["eight-warps"].cubin).parameters
    assert found == (CubinParameter(0, 8), CubinParameter(8, 8))


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "unit"), [("sm_80", "HMMA"), ("sm_90", "HGMMA")])
def test_products_of_bf16_use_the_tensor_cores_of_the_architecture(architecture: str, unit: str) -> None:
    found = counts(architecture, "dot-bf16")
    assert some(found, unit) > 0, found
    # Copies to shared memory while the units are at work; LTC128B is a hint for the cache.
    copies = some(found, "LDGSTS")
    assert copies == some(found, "LDGSTS.E.BYPASS.128") + some(found, "LDGSTS.E.BYPASS.LTC128B.128") > 0, found


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_loads_are_as_wide_as_they_can_be(architecture: str) -> None:
    for name in ("elementwise-f32", "elementwise-f16"):
        found = counts(architecture, name)
        assert some(found, "LDG.E.128") > 0, found
        assert some(found, "LDG.E") == some(found, "LDG.E.128"), found
        assert some(found, "STG.E") == some(found, "STG.E.128") > 0, found


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_only_what_the_source_contracts_is_contracted(architecture: str) -> None:
    """x * y + x rounds twice; the products of a dot on the plain units do not."""
    found = counts(architecture, "elementwise-f32")
    assert some(found, "FFMA") == 0, found
    assert some(found, "FMUL") == some(found, "FADD") > 0, found
    found = counts(architecture, "dot-f32")
    assert some(found, "FFMA") > 100 * max(1, some(found, "FMUL")), found


@pytest.mark.slow
def test_damage_is_a_cubin_error_or_does_not_matter() -> None:
    whole, random = kernels("sm_90")["reduction"].cubin, Random(0)
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(random.randint(0, 3)):
            # Mostly in the headers, and in the attributes behind them.
            data[random.randrange(len(data) if random.random() < 0.3 else 2000)] = random.randrange(256)
        if random.random() < 0.5:
            del data[random.randrange(len(data)) :]
        try:
            assert isinstance(read_cubin(bytes(data)), Cubin)
        except CubinError:
            continue


@pytest.mark.parametrize("data", [b"", b"hello", b"\x7fELF", bytes(1000), b"\x7fELF" + bytes(1000)])
def test_other_bytes_are_no_cubin(data: bytes) -> None:
    with pytest.raises(CubinError):
        read_cubin(data)


def test_an_elf_file_for_a_processor_is_no_cubin() -> None:
    header = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, 0, 0, 64, 0, 0, 64, 0, 0)
    with pytest.raises(CubinError, match="not a 64-bit ELF file for CUDA"):
        read_cubin(header)
