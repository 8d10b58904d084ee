"""Listings of machine code: instructions with their modifiers, and loops as branches form them."""

import importlib.util
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels
from onnxc.compiler.codegen_gpu.compile.listing import Listing, disassembled, parse_listing
from onnxc.compiler.target import parse_target
from tests.codegen_gpu.sources import dot, elementwise

TRITON = importlib.util.find_spec("triton")
assert TRITON is not None
assert TRITON.origin is not None
DISASSEMBLER = Path(TRITON.origin).parent / "backends" / "nvidia" / "bin" / "nvdisasm"


def listing(*lines: str) -> Listing:
    """The listing of instructions and labels, between what nvdisasm prints around them."""
    head = ["\t.target\tsm_90a", "//--- .text.kernel ---", '\t.section\t.text.kernel,"ax",@progbits', "kernel:"]
    offsets = range(0, 16 * len(lines), 16)
    body = [
        line if line.endswith(":") else f"        /*{offset:04x}*/                   {line} ;"
        for offset, line in zip(offsets, lines, strict=True)
    ]
    return parse_listing("\n".join([*head, ".text.kernel:", *body, ".L_x_end:"]))


def looped(*lines: str) -> list[list[str]]:
    """The names of the instructions of each loop."""
    read = listing(*lines)
    return [[read.instructions[each] for each in sorted(loop)] for loop in read.loops]


def test_instructions_have_their_modifiers_and_no_predicate() -> None:
    read = listing("LDC R1, c[0x0][0x28]", "@!P1 LDG.E.U16 R0, desc[UR4][R2.64]", "@UP0 UMOV UR4, 0x400", "EXIT")
    assert read == Listing(("LDC", "LDG.E.U16", "UMOV", "EXIT"), ())


def test_nothing_has_no_instructions() -> None:
    assert parse_listing("") == Listing((), ())
    assert parse_listing("\t.target\tsm_90a\nkernel:\n.text.kernel:\n") == Listing((), ())


def test_a_loop_is_what_a_branch_back_goes_around() -> None:
    assert looped("MOV", ".L_x_0:", "LDG.E", "@P0 BRA `(.L_x_0)", "EXIT") == [["LDG.E", "BRA"]]


def test_an_instruction_that_branches_to_itself_is_a_loop() -> None:
    assert looped("EXIT", ".L_x_0:", "BRA `(.L_x_0)") == []
    assert looped("MOV", ".L_x_0:", "BRA `(.L_x_0)") == [["BRA"]]


def test_branches_back_to_one_place_are_one_loop() -> None:
    found = looped(".L_x_0:", "LDG.E", "@P0 BRA `(.L_x_0)", "IADD3", "@P1 BRA `(.L_x_0)", "EXIT")
    assert found == [["LDG.E", "BRA", "IADD3", "BRA"]]


def test_loops_within_loops_are_told_apart() -> None:
    read = listing(
        ".L_x_0:", "LDG.E", ".L_x_1:", "HMMA.16816.F32", "@P0 BRA `(.L_x_1)", "STG.E", "@P1 BRA `(.L_x_0)", "EXIT"
    )
    inner, outer = sorted(read.loops, key=len)
    assert inner < outer
    assert read.innermost("HMMA", "HGMMA") == (inner,)
    # The loop within has no load, so that it does not count.
    assert read.innermost("LDG") == (outer,)
    assert read.innermost("IMMA") == ()


WAITING = (
    "MOV", ".L_x_0:", "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2", "@!P0 BRA `(.L_x_2)", ".L_x_1:",
    "HGMMA.64x128x16.F32.BF16", "@P1 BRA `(.L_x_0)", "LDG.E.U16", "EXIT",
    ".L_x_2:", "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2", "@!P0 BRA `(.L_x_2)", "BRA `(.L_x_1)",
)  # fmt: skip


def test_code_at_the_end_that_waits_for_a_copy_is_of_the_loop_it_goes_back_to() -> None:
    """What stands between the loop and that code is not."""
    read = listing(*WAITING)
    (loop,) = read.innermost("HGMMA")
    assert "LDG.E.U16" not in {read.instructions[each] for each in loop}
    assert [len(each) for each in sorted(read.loops, key=len)] == [2, 7]


def test_threads_that_meet_go_on_where_they_were_told_to() -> None:
    found = looped(
        ".L_x_0:", "BSSY B0, `(.L_x_1)", "@P0 BRA `(.L_x_3)", "BSYNC B0", "LDG.E", ".L_x_1:", "@P1 BRA `(.L_x_0)",
        "EXIT", ".L_x_3:", "FADD", "BSYNC B0",
    )  # fmt: skip
    # The load behind the first BSYNC is never reached.
    assert found == [["BSSY", "BRA", "BSYNC", "BRA", "FADD", "BSYNC"]]


@pytest.mark.parametrize("branch", ["BRA.U !UP0, `(.L_x_0)", "BRA.DIV UR4, `(.L_x_0)", "@P0 BRA `(.L_x_0)"])
def test_what_follows_a_branch_with_a_condition_may_be_executed(branch: str) -> None:
    assert looped(".L_x_1:", ".L_x_0:", "FADD", branch, "FMUL", "@P0 BRA `(.L_x_1)", "EXIT") == [
        ["FADD", branch.removeprefix("@P0 ").split()[0], "FMUL", "BRA"]
    ]


def test_a_function_that_is_called_is_no_loop() -> None:
    found = looped(
        ".L_x_0:", "CALL.REL.NOINC `($kernel$__internal_0)", "@P0 BRA `(.L_x_0)", "EXIT",
        "$kernel$__internal_0:", "MUFU.RCP", "RET.REL.NODEC R2 `(kernel)",
    )  # fmt: skip
    assert found == [["CALL.REL.NOINC", "BRA"]]


@cache
def compiled(name: str) -> Listing:
    sources = {"dot": dot("bf16"), "elementwise": elementwise("fp32")}
    (kernel,) = compile_kernels([sources[name]], parse_target("cuda:sm_90"), None)
    return parse_listing(disassembled(kernel.cubin, DISASSEMBLER))


@pytest.mark.slow
def test_the_loop_of_a_compiled_product_multiplies_and_copies() -> None:
    read = compiled("dot")
    (loop,) = read.innermost("HGMMA")
    of_loop = Counter(read.instructions[each].partition(".")[0] for each in loop)
    of_all = Counter(name.partition(".")[0] for name in read.instructions)
    # The first blocks are copied before it begins, what was summed is stored behind it.
    assert 0 < of_loop["LDGSTS"] < of_all["LDGSTS"]
    assert of_loop["STG"] == 0 < of_all["STG"]


@pytest.mark.slow
def test_what_is_computed_for_each_element_once_is_in_no_loop() -> None:
    read = compiled("elementwise")
    assert read.innermost("FMUL") == ()
    assert any(name.startswith("FMUL") for name in read.instructions)
