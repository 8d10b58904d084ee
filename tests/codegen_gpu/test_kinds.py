"""Every kernel kind: its golden source, and what the compiler makes of it for each architecture."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels, parameter_table
from onnxc.compiler.codegen_gpu.compile.cubin import instruction_counts, read_cubin
from onnxc.compiler.codegen_gpu.kernels import EMITTERS
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.target import Target
from tests.codegen_gpu.kinds import FOLDER, KINDS, golden_text, sources_of
from tests.codegen_gpu.support import SM_80, SM_90, Device, make

# What tensor cores are called where, for operands that are no f32.
PRODUCTS = {"cuda:sm_80": "HMMA", "cuda:sm_90": "HGMMA"}

# The types whose instructions are looked at, where a kind has them.
INSPECTED = ("f32", "bf16")


@pytest.mark.parametrize("name", KINDS)
def test_golden_sources(name: str) -> None:
    golden = (FOLDER / f"{name}.txt").read_text()
    assert golden_text(name) == golden, "see what changed; python -m tests.codegen_gpu.kinds writes the files anew"


def test_every_kind_is_there() -> None:
    found = set()
    for kind in KINDS.values():
        types = [text.replace("T[", f"{kind.dtypes[0]}[", 1) for text in kind.types]
        found |= set(Device(make(types, kind.build)).kernels())
    assert found == set(EMITTERS)


def _compiled(target: Target) -> list[tuple[str, str, KernelSource]]:
    """Kind, type and source of what is compiled: a kernel takes a second, so the last type stands for all of them.

    What is multiplied by tensor cores is compiled for each architecture, as f32 and as bf16.
    """
    chosen = []
    for name, kind in KINDS.items():
        dtypes = [dtype for dtype in kind.dtypes if dtype in INSPECTED] or kind.dtypes[-1:]
        for dtype in dtypes:
            represents = dtype == dtypes[-1] and target == SM_90
            sources = sources_of(name, dtype, target)
            chosen += [(name, dtype, source) for source in sources if represents or "tl.dot(" in source.text]
    return chosen


@pytest.mark.slow
@pytest.mark.parametrize("target", [SM_80, SM_90], ids=str)
def test_compiled_kernels(target: Target, tmp_path: Path) -> None:
    """No kernel spills, parameters lie where launches put them, accesses are wide and tensor cores multiply."""
    sources = _compiled(target)
    kernels = compile_kernels([source for *_, source in sources], target, tmp_path)
    spec = find_spec("triton")
    assert spec is not None
    assert spec.origin is not None
    disassembler = Path(spec.origin).parent / "backends/nvidia/bin/nvdisasm"
    spilling = [
        (name, dtype, k.stack_bytes) for (name, dtype, _), k in zip(sources, kernels, strict=True) if k.stack_bytes
    ]
    assert not spilling
    instructions: dict[tuple[str, str], str] = {}
    for (name, dtype, source), kernel in zip(sources, kernels, strict=True):
        assert read_cubin(kernel.cubin).parameters == parameter_table([p.type for p in source.parameters]), name
        if dtype in INSPECTED:
            found = " ".join(instruction_counts(kernel.cubin, disassembler))
            instructions[name, dtype] = instructions.get((name, dtype), "") + found
    for (name, dtype), found in instructions.items():
        for instruction in KINDS[name].instructions:
            if instruction == "HGMMA":
                instruction = PRODUCTS[str(target)]
            choices = instruction.split("|")
            assert any(choice in found for choice in choices), f"{name} of {dtype} has no {instruction}: {found}"
