"""Object code: what is refused, what differs between targets, and that the bytes are always the same."""

import re
import struct
from functools import reduce
from pathlib import Path

import pytest

from onnxc.compiler.codegen_host.effort import EFFORTS, Effort, effort_of, marked
from onnxc.compiler.codegen_host.image import support_objects
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder, Int, Reg
from onnxc.compiler.codegen_host.llvm_module import ModuleStream
from onnxc.compiler.codegen_host.machine import assembly, compile_object
from onnxc.compiler.target import parse_target
from tests.codegen_host.native import module, write


def wide_add(f: FunctionBuilder, x: Reg) -> None:
    value = f.load("<16 x float>", x)
    f.store(f.fadd(value, value), x)


WIDE = module(write("wide", [("ptr", "x")], wide_add))


@pytest.mark.parametrize(
    ("target", "register"), [("x86-64-v2", "%xmm"), ("x86-64-v3", "%ymm"), ("x86-64-v4", "%zmm"), ("aarch64", ".4s")]
)
def test_vectors_use_the_registers_of_the_target(target: str, register: str) -> None:
    text = assembly(WIDE, parse_target(f"cpu:{target}"))
    assert register in text
    assert text.count("addps") <= 64 // {"%xmm": 16, "%ymm": 32, "%zmm": 64, ".4s": 16}[register]


def test_wide_vectors_are_preferred_where_the_optimiser_chooses() -> None:
    def body(f: FunctionBuilder, x: Reg, n: Reg) -> None:
        def step(i: Int) -> None:
            at = f.gep(x, i, "float")
            f.store(f.fmul(f.load("float", at, 4), 2.0), at, 4)

        f.loop(0, n, 1, step)

    text = module(write("f", [("ptr noalias", "x"), ("i64", "n")], body))
    target = parse_target("cpu:x86-64-v4")
    assert "%zmm" not in assembly(text, target)
    assert "%zmm" in assembly(text, target, pipeline=3)


@pytest.mark.parametrize(("target", "machine"), [("x86-64-v3", 62), ("znver5", 62), ("neoverse-v1", 183)])
def test_objects_are_for_the_target(target: str, machine: int) -> None:
    data = compile_object(WIDE, parse_target(f"cpu:{target}"))
    assert data[:4] == b"\x7fELF"
    assert struct.unpack_from("<HH", data, 16) == (1, machine)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v4", "aarch64"])
def test_same_text_same_bytes(target: str, tmp_path: Path) -> None:
    parsed = parse_target(f"cpu:{target}")
    first = compile_object(WIDE, parsed)
    pool = support_objects(parsed)
    assert compile_object(WIDE, parsed) == first
    # For another folder all is compiled again.
    assert support_objects(parsed, tmp_path) == pool


def sums_of_rows(f: FunctionBuilder, x: Reg, n: Reg, stride: Reg) -> None:
    """Sums whose addresses are products, of which a loop may go from one to the next by additions."""

    def step(i: Int) -> None:
        rows = [f.gep(x, f.mul(f.mul(i, row), stride), "float") for row in (3, 5, 7)]
        total = reduce(f.fadd, [f.load("float", row, 4) for row in rows])
        f.store(total, f.gep(x, i, "float"), 4)

    f.loop(0, n, 1, step)


ROWS = module(write("rows", [("ptr", "x"), ("i64", "n"), ("i64", "stride")], sums_of_rows))


def test_modules_take_the_effort_that_they_ask_for() -> None:
    target = parse_target("cpu:x86-64-v3")
    most, plain, least = (assembly(marked(ROWS, effort), target) for effort in EFFORTS)
    assert "imulq" in plain
    assert "imulq" not in most
    assert len(least.splitlines()) > len(plain.splitlines())
    assert assembly(ROWS, target) == most


@pytest.mark.parametrize("target", ["x86-64-v3", "aarch64"])
def test_what_was_compiled_before_does_not_matter(target: str) -> None:
    parsed = parse_target(f"cpu:{target}")
    once = {effort: compile_object(marked(ROWS, effort), parsed) for effort in EFFORTS}
    assert len(set(once.values())) == len(EFFORTS)
    for effort in (*reversed(EFFORTS), *EFFORTS):
        assert compile_object(marked(ROWS, effort), parsed) == once[effort]


def test_a_module_says_which_effort_it_asks_for() -> None:
    assert [effort_of(marked(WIDE, effort)) for effort in EFFORTS] == list(EFFORTS)
    assert effort_of(WIDE) == "most"
    assert effort_of("") == "most"


def test_functions_are_in_modules_with_others_of_their_effort() -> None:
    texts: list[str] = []
    stream = ModuleStream(texts.append)
    efforts: tuple[Effort, ...] = ("plain", "most", "plain", "least", "most")
    for ordinal, effort in enumerate(efforts):
        f = write(f"f{ordinal}", [], lambda f: None)
        f.effort = effort
        stream.add([f])
    assert texts == []
    stream.close()
    assert list(map(effort_of, texts)) == ["most", "plain", "least"]
    assert [re.findall(r"@(f\d)\(", text) for text in texts] == [["f1", "f4"], ["f0", "f2"], ["f3"]]


def test_a_module_is_handed_on_when_it_is_full() -> None:
    texts: list[str] = []
    functions = [write(f"f{ordinal}", [], lambda f: None) for ordinal in range(5)]
    length = functions[0].length
    assert length > 0
    stream = ModuleStream(texts.append, 2 * length)
    for count, function in enumerate(functions, 1):
        stream.add([function])
        assert len(texts) == (count - 1) // 2
    stream.close()
    assert [re.findall(r"define .*@(f\d)\(", text) for text in texts] == [["f0", "f1"], ["f2", "f3"], ["f4"]]
    assert stream.length == 5 * length


def test_a_function_longer_than_a_module_has_one_of_its_own() -> None:
    texts: list[str] = []
    stream = ModuleStream(texts.append, 0)
    stream.add([write("f0", [], lambda f: None), write("f1", [], lambda f: None)])
    stream.close()
    assert [re.findall(r"@(f\d)\(", text) for text in texts] == [["f0"], ["f1"]]


def test_functions_added_together_may_take_addresses_of_each_other() -> None:
    texts: list[str] = []
    stream = ModuleStream(texts.append, 0)
    stream.add([write("f0", [], lambda f: f.store(f.symbol("f1"), f.alloca("ptr"))), write("f1", [], lambda f: None)])
    stream.close()
    assert re.findall(r"declare .*@(f\d)\(", texts[0]) == ["f1"]
    assert all(compile_object(text, parse_target("cpu:x86-64-v3")) for text in texts)


def test_text_that_does_not_parse_is_our_defect() -> None:
    with pytest.raises(AssertionError, match=r"(?s)expected type.*1 define nonsense"):
        compile_object("define nonsense", parse_target("cpu:x86-64-v3"))


def test_code_that_does_not_verify_is_our_defect() -> None:
    text = (
        "define void @f(i1 %c) {\nentry:\n  br label %a\na:\n  %x = add i64 %y, 1\n  %y = add i64 1, 1\n  ret void\n}\n"
    )
    with pytest.raises(AssertionError, match=r"(?s)LLVM rejects.*does not dominate.*%x = add"):
        compile_object(text, parse_target("cpu:x86-64-v3"))


def test_there_is_no_object_code_for_other_kinds() -> None:
    with pytest.raises(AssertionError, match="no object code for interpreter"):
        compile_object(WIDE, parse_target("interpreter"))
