"""Every rule of the IR, broken once."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BOOL, F32, I64
from onnxc.compiler.ir.module import Attributes, Block, Function, Module, Op, Parameter, Value
from onnxc.compiler.ir.op_verifier import ATTRIBUTES
from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import SequenceType, TensorType, Type
from onnxc.compiler.ir.verifier import InvalidModule, verify_module
from tests.ir.cases import CASES, STRUCTURAL

N = Size.symbol("N")
VECTOR = TensorType(F32, (N,))
SCALAR = TensorType(F32, ())


def parameter(name: str = "x", type: Type = VECTOR) -> Value:
    return Parameter(name, type).value


def function(parameters: list[Value], ops: list[Op], results: list[Value], **changes: object) -> Function:
    names = tuple(f"y{index}" for index in range(len(results)))
    plain = {"name": "main", "body": Block(tuple(parameters), tuple(ops), tuple(results)), "result_names": names}
    return Function(**{**plain, **changes})


def findings(*functions: Function) -> tuple[str, ...]:
    with pytest.raises(InvalidModule) as caught:
        verify_module(Module("m", functions))
    assert all(finding in str(caught.value) for finding in caught.value.findings)
    return caught.value.findings


def said(text: str) -> str:
    """The only finding about a program given as text."""
    with pytest.raises(InvalidModule) as caught:
        verify_module(parse_module(text))
    (finding,) = caught.value.findings
    return finding


def op(name: str, operands: list[Value], types: list[Type], blocks: tuple[Block, ...] = (), **attributes: object) -> Op:
    made: Attributes = attributes
    return Op(name, tuple(operands), made, blocks, tuple(types))


# What is legal


@pytest.mark.parametrize("name", CASES)
def test_an_op_of_every_primitive_is_legal(name: str) -> None:
    for case in CASES[name]:
        made = case.op()
        symbols = {f"s{index}": Size.symbol(symbol) for index, symbol in enumerate("NMK")}
        sizes = [parameter(name, TensorType(F32, (size,))) for name, size in symbols.items()]
        verify_module(Module("m", (function([*made.operands, *sizes], [made], list(made.results)),)))


def test_structural_ops_are_legal() -> None:
    verify_module(parse_module(STRUCTURAL))


def test_every_primitive_tells_its_attributes() -> None:
    without = {"if", *(name for name, cases in CASES.items() if not cases[0].attributes)}
    assert {*ATTRIBUTES} == {*PRIMITIVES} - without


# Modules and functions


def test_a_module_has_a_function() -> None:
    assert findings() == ("there is no function",)


def test_names_of_functions_are_unique() -> None:
    assert findings(function([], [], []), function([], [], [])) == ("function main is there twice",)


def test_functions_do_not_call_themselves() -> None:
    call = op("call", [], [], function="b")
    back = op("call", [], [], function="main")
    both = findings(function([], [call], []), function([], [back], [], name="b"))
    assert both == ("function main calls itself", "function b calls itself")


def test_parameters_are_unique() -> None:
    assert "parameter x is there twice" in findings(function([parameter(), parameter()], [], []))[0]


def test_every_result_has_one_name() -> None:
    x = parameter()
    assert "1 result names for 2 results" in findings(function([x], [], [x, x], result_names=("y",)))[0]
    assert "result y is there twice" in findings(function([x], [], [x, x], result_names=("y", "y")))[0]


def test_defaults_belong_to_parameters_and_fit() -> None:
    x = parameter("x", TensorType(F32, (2, N)))
    array = np.zeros((2, 5), np.float32)
    verify_module(Module("m", (function([x], [], [], defaults={"x": array}),)))
    assert "belongs to no parameter" in findings(function([x], [], [], defaults={"w": array}))[0]
    for wrong in (array.astype(np.float64), array[:1], array[0]):
        assert "the default of x is not f32[2, N]" in findings(function([x], [], [], defaults={"x": wrong}))[0]


def test_ranges_are_of_symbols_that_parameters_have() -> None:
    assert "symbol M has a range" in findings(function([parameter()], [], [], symbols={"M": (0, None)}))[0]
    for wrong in ((-1, None), (3, 2)):
        assert "the range of symbol N" in findings(function([parameter()], [], [], symbols={"N": wrong}))[0]


# Order and blocks


def test_an_operand_is_made_before_it_is_used() -> None:
    x = parameter()
    first = op("neg", [x], [VECTOR])
    second = op("neg", [first.result], [VECTOR])
    (finding,) = findings(function([x], [second, first], [first.result]))
    assert "is used before it is made" in finding


def test_an_operand_that_nobody_makes_is_found() -> None:
    x, stray = parameter(), parameter("stray")
    assert "is used before it is made" in findings(function([x], [op("neg", [stray], [VECTOR])], []))[0]


def test_a_result_is_made_in_its_block() -> None:
    assert "is not made in its block" in findings(function([], [], [parameter()]))[0]


def test_an_op_is_in_a_function_once() -> None:
    x = parameter()
    made = op("neg", [x], [VECTOR])
    assert "is in the function twice" in findings(function([x], [made, made], []))[0]


def test_a_parameter_belongs_to_one_block() -> None:
    x, condition = parameter(), parameter("c", TensorType(BOOL, ()))
    either = op("if", [condition, x], [VECTOR], (Block((x,), (), (x,)), Block((x,), (), (x,))))
    found = findings(function([x, condition], [either], []))
    assert sum("belongs to two blocks" in finding for finding in found) == 2


def test_a_parameter_is_no_result_of_an_op() -> None:
    x = parameter()
    made = op("neg", [x], [VECTOR])
    assert "is listed as a parameter and is none" in findings(function([x, made.result], [made], []))[0]


def test_a_block_does_not_see_the_values_around_it() -> None:
    x, condition = parameter(), parameter("c", TensorType(BOOL, ()))
    inner = op("neg", [x], [VECTOR])
    either = op("if", [condition], [VECTOR], (Block((), (inner,), (inner.result,)), Block((), (), (x,))))
    first, second = findings(function([x, condition], [either], []))
    assert "belongs to another block" in first
    assert "is not made in its block" in second


def test_values_of_a_block_are_not_seen_after_it() -> None:
    x, condition = parameter(), parameter("c", TensorType(BOOL, ()))
    a, b = parameter("a"), parameter("b")
    either = op("if", [condition, x], [VECTOR], (Block((a,), (), (a,)), Block((b,), (), (b,))))
    (finding,) = findings(function([x, condition], [either, op("neg", [a], [VECTOR])], []))
    assert "belongs to another block" in finding


# Ops


def test_there_is_no_other_primitive() -> None:
    assert "there is no primitive relu" in findings(function([], [op("relu", [], [VECTOR])], []))[0]


def test_types_are_those_of_the_type_rule() -> None:
    x = parameter()
    wrong = TensorType(F32, (N, 1))
    (finding,) = findings(function([x], [op("neg", [x], [wrong])], []))
    assert "the type rule gives f32[N], declared is f32[N, 1]" in finding
    assert "declared is nothing" in findings(function([x], [op("neg", [x], [])], []))[0]


def test_operands_are_those_that_the_type_rule_takes() -> None:
    x = parameter()
    assert "takes 2 operands, got 1" in findings(function([x], [op("add", [x], [VECTOR])], []))[0]
    other = parameter("z", TensorType(F32, (3,)))
    assert "operands differ in shape" in findings(function([x, other], [op("add", [x, other], [VECTOR])], []))[0]
    sequence = parameter("s", SequenceType(VECTOR))
    assert "takes tensors" in findings(function([sequence], [op("neg", [sequence], [VECTOR])], []))[0]


@pytest.mark.parametrize(
    ("attributes", "finding"),
    [
        ({}, "attribute axes is missing"),
        ({"axes": (0,), "kind": "sum", "keepdims": True}, "there is no attribute keepdims"),
        ({"axes": [0], "kind": "sum"}, "attribute axes is [0], not of kind ints"),
        ({"axes": (True,), "kind": "sum"}, "not of kind ints"),
        ({"axes": (N,), "kind": "sum"}, "not of kind ints"),
        ({"axes": (0,), "kind": 3}, "attribute kind is 3, not of kind str"),
        ({"axes": (0,), "kind": "mean"}, "kind is mean, not one of"),
        ({"axes": (1,), "kind": "sum"}, "are not ascending axes"),
    ],
)
def test_attributes_are_those_of_the_primitive(attributes: dict[str, object], finding: str) -> None:
    x = parameter()
    found = findings(function([x], [op("reduce", [x], [SCALAR], **attributes)], []))
    assert any(finding in each for each in found), found


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name][0].attributes])
def test_a_missing_attribute_is_found_in_every_primitive(name: str) -> None:
    case = CASES[name][0]
    for missing in case.attributes:
        whole = case.op()
        rest = {key: value for key, value in case.attributes.items() if key != missing}
        made = Op(name, whole.operands, rest, (), whole.result_types)
        found = findings(function(list(whole.operands), [made], []))
        assert any(f"attribute {missing} is missing" in finding for finding in found), found


def test_only_control_flow_has_blocks() -> None:
    x = parameter()
    made = op("neg", [x], [VECTOR], (Block((), (), ()),))
    assert "has 1 blocks and takes none" in findings(function([x], [made], []))[0]


def test_a_guard_is_of_a_known_relation() -> None:
    x = parameter()
    made = op("guard", [], [], left=N, right=2, relation="less", message="")
    assert "relation is less, not one of equal, broadcast, at_least" in findings(function([x], [made], []))[0]


def test_a_finding_tells_the_place() -> None:
    x = parameter()
    (finding,) = findings(function([x], [op("neg", [x], [SCALAR])], []))
    assert finding.startswith("function main, no location, neg(f32[N]): ")


def test_all_findings_come_together() -> None:
    x = parameter()
    wrong = [op("neg", [x], [SCALAR]), op("relu", [x], [VECTOR])]
    assert len(findings(function([x], wrong, [parameter("stray")]))) == 3


# Symbols


def program(body: str, header: str = "%x: f32[N], %n: i64[1], %c: bool[]", results: str = "%x") -> str:
    return f'module "m" {{\nfunction main({header}) -> ("y") {{\n{body}\nreturn {results}\n}}\n}}'


BIND = 'bind_sizes %n {symbols = ["?k"]}'
USE = "%9 = iota {axis = 0, dtype = i64, shape = [?k]} : i64[?k]"


def test_a_symbol_is_bound_before_it_is_used() -> None:
    verify_module(parse_module(program(f"{BIND}\n{USE}")))
    assert "symbol ?k is not bound" in said(program(f"{USE}\n{BIND}"))
    assert "symbol ?k is not bound" in said(program(USE))


def test_a_symbol_within_attributes_is_bound_too() -> None:
    guard = 'guard {left = N, message = "", relation = "equal", right = 2*M}'
    assert "symbol M is not bound" in said(program(guard))
    sizes = "%0 = sizes {dtype = i64, scalar = false, values = [N, min(M, 3)]} : i64[2]"
    assert "symbol M is not bound" in said(program(sizes))


def test_what_is_not_zero_binds_its_symbol() -> None:
    non_zero = '%0 = non_zero %x {symbol = "nz"} : i64[1, nz]'
    use = "%1 = iota {axis = 0, dtype = i64, shape = [nz]} : i64[nz]"
    verify_module(parse_module(program(f"{non_zero}\n{use}")))
    assert "symbol nz is not bound" in said(program(use.replace("%1", "%2") + f"\n{non_zero}"))


def test_what_declares_its_types_binds_their_symbols() -> None:
    host = '%0 = host %x {function = "unique"} : f32[u]'
    verify_module(parse_module(program(f"{host}\n%1 = neg %0 : f32[u]")))


def test_a_symbol_is_bound_once() -> None:
    assert "symbol ?k is bound twice" in said(program(f"{BIND}\n{BIND}"))
    assert "symbol N is bound twice" in said(program('bind_sizes %n {symbols = ["N"]}'))
    assert "symbol N is bound twice" in said(program('%0 = non_zero %x {symbol = "N"} : i64[1, N]'))


def test_a_symbol_bound_in_a_block_is_not_known_after_it() -> None:
    either = f"if %c, %n\n block(%n: i64[1]) {{ {BIND} {USE} return }}\n block(%m: i64[1]) {{ return }}"
    verify_module(parse_module(program(either)))
    assert "symbol ?k is not bound" in said(program(f"{either}\n{USE}"))


def test_symbols_from_around_a_block_are_known_in_it() -> None:
    either = f"{BIND}\nif %c\n block() {{ {USE} return }}\n block() {{ return }}"
    verify_module(parse_module(program(either)))


# Control flow

IF = (
    "%0 = if %c, %x : f32[N]\n"
    "  block(%a: f32[N]) {\n    %1 = neg %a : f32[N]\n    return %1\n  }\n"
    "  block(%b: f32[N]) {\n    return %b\n  }"
)


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("if %c, %x", "if %x, %x", "the condition is f32[N], not bool[]"),
        ("if %c, %x", "if %c", "a block takes f32[N] and is given nothing"),
        ("block(%b: f32[N])", "block(%b: f32[M])", "a block takes f32[M] and is given f32[N]"),
        ("return %b", "return", "a block's results are 0, declared are 1"),
        ("return %b", "return %b, %b", "a block's results are 2, declared are 1"),
        ("if %c, %x : f32[N]", "if %c, %x : i64[N]", "a block's result 0 is f32[N], declared is i64[N]"),
        ("if %c, %x : f32[N]", "if %c, %x : f32[2]", "a block's result 0 is f32[N], declared is f32[2]"),
        ("if %c, %x : f32[N]", "if %c, %x : f32[N, 1]", "a block's result 0 is f32[N], declared is f32[N, 1]"),
        ("  block(%b: f32[N]) {\n    return %b\n  }", "", "got 2 operands and 1 blocks"),
    ],
)
def test_the_blocks_of_an_if_fit(old: str, new: str, finding: str) -> None:
    verify_module(parse_module(program(IF)))
    assert old in IF
    with pytest.raises(InvalidModule) as caught:
        verify_module(parse_module(program(IF.replace(old, new))))
    assert any(finding in each for each in caught.value.findings), caught.value.findings


def test_the_sizes_of_an_if_may_be_new_symbols() -> None:
    text = IF.replace("if %c, %x : f32[N]", "if %c, %x : f32[chosen]")
    verify_module(parse_module(program(f"{text}\n%2 = neg %0 : f32[chosen]")))
    verify_module(parse_module(program(IF.replace("if %c, %x : f32[N]", "if %c, %x : f32[...]"))))


WHILE = (
    "%0 = constant {value = i64[] 3} : i64[]\n"
    '%1, %2 = while %0, %c, %x, %n {carried = 1, scans = 1, symbol = "steps"} : f32[N], i64[steps, 1]\n'
    "  block(%i: i64[], %a: f32[N], %m: i64[1]) {\n"
    "    %3 = constant {value = bool[] true} : bool[]\n"
    '    %4 = host %a {function = "next"} : f32[N]\n'
    "    return %3, %4, %m\n"
    "  }"
)


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("while %0, %c", "while %n, %c", "the limit is i64[1], not i64[]"),
        ("while %0, %c", "while %0, %0", "the condition is i64[], not bool[]"),
        ("%x, %n {", "%x {", "captures are nothing, taken as i64[1]"),
        ("carried = 1", "carried = 3", "takes one block and 5 operands, got 1 and 4"),
        ("carried = 1", "carried = -1", "takes one block"),
        ("%i: i64[]", "%i: i64[1]", "the block's parameter 0 is i64[], declared is i64[1]"),
        ("%a: f32[N]", "%a: f32[2]", "the block's parameter 1 is f32[N], declared is f32[2]"),
        ("return %3, %4, %m", "return %i, %4, %m", "the block's result 0 is i64[], declared is bool[]"),
        ("return %3, %4, %m", "return %3, %m, %m", "the block's result 1 is i64[1], declared is f32[N]"),
        ("return %3, %4, %m", "return %3, %4", "the results are 1, declared are 2"),
        ("i64[steps, 1]", "i64[steps, 2]", "the result 1 is i64[steps, 1], declared is i64[steps, 2]"),
        ("i64[steps, 1]", "i64[1]", "the result 1 is i64[steps, 1], declared is i64[1]"),
        (": f32[N], i64[s", ": f32[2], i64[s", "the result 0 is f32[N], declared is f32[2]"),
        ('"steps"', '"N"', "symbol N is bound twice"),
    ],
)
def test_the_block_of_a_while_fits(old: str, new: str, finding: str) -> None:
    verify_module(parse_module(program(WHILE)))
    assert old in WHILE
    with pytest.raises(InvalidModule) as caught:
        verify_module(parse_module(program(WHILE.replace(old, new))))
    assert any(finding in each for each in caught.value.findings), caught.value.findings


RECURRENCE = (
    "%0, %1 = recurrence %x, %n {carried = 1, scans = 1, trips = N} : f32[N], i64[N, 1]\n"
    "  block(%i: i64[], %a: f32[N], %m: i64[1]) {\n"
    "    %2 = neg %a : f32[N]\n"
    "    return %2, %m\n"
    "  }"
)


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("carried = 1", "carried = 3", "takes 3 operands or more, got 2"),
        ("carried = 1", "carried = -1", "takes -1 operands or more, got 2"),
        ("%x, %n {", "%x {", "block 0 takes i64[], f32[N], i64[1], not a counter, f32[N] and captures"),
        ("%i: i64[]", "%i: i64[1]", "block 0 takes"),
        ("return %2, %m", "return %m, %m", "block 0 gives i64[1], i64[1] for states f32[N]"),
        ("return %2, %m", "return %2", "block 0 gives f32[N] for states f32[N]"),
        ("trips = N", "trips = 2", "the result 1 is i64[2, 1], declared is i64[N, 1]"),
        (": f32[N], i64[N", ": f32[2], i64[N", "the result 0 is f32[N], declared is f32[2]"),
    ],
)
def test_the_block_of_a_recurrence_fits(old: str, new: str, finding: str) -> None:
    verify_module(parse_module(program(RECURRENCE)))
    assert old in RECURRENCE
    with pytest.raises(InvalidModule) as caught:
        verify_module(parse_module(program(RECURRENCE.replace(old, new))))
    assert any(finding in each for each in caught.value.findings), caught.value.findings


def test_the_sizes_that_a_while_carries_may_change() -> None:
    text = WHILE.replace("%a: f32[N]", "%a: f32[now]").replace('%4 = host %a {function = "next"} : f32[N]', GROW)
    text = text.replace(": f32[N], i64[steps, 1]", ": f32[last], i64[steps, 1]")
    verify_module(parse_module(program(f"{text}\n%8 = neg %1 : f32[last]")))


GROW = "%4 = concatenate %a, %a {axis = 0} : f32[2*now]"

CALLED = 'function f(%x: f32[M]) -> ("y") {\n  %0 = neg %x : f32[M]\n  return %0\n}\n}'


@pytest.mark.parametrize(
    ("call", "finding"),
    [
        ('%0 = call %x {function = "g"} : f32[N]', "there is no function g"),
        ('%0 = call {function = "f"} : f32[N]', "the parameters are 0, declared are 1"),
        ('%0 = call %n {function = "f"} : f32[N]', "the parameter 0 is i64[1], declared is f32[M]"),
        ('%0 = call %x {function = "f"} : i64[N]', "the result 0 is f32[M], declared is i64[N]"),
        ('%0, %1 = call %x {function = "f"} : f32[N], f32[N]', "the results are 1, declared are 2"),
    ],
)
def test_a_call_fits_its_function(call: str, finding: str) -> None:
    legal = '%0 = call %x {function = "f"} : f32[N]'
    verify_module(parse_module(program(legal)[:-1] + CALLED))
    assert finding in said(program(call)[:-1] + CALLED)


def test_what_the_builder_makes_is_legal() -> None:
    build = Builder()
    x, y = build.parameter("x", VECTOR), build.parameter("y", TensorType(F32, (Size.symbol("M"), 1)))
    n = build.parameter("n", TensorType(I64, (2,)))
    results = [build.reshape(build.add(x, y), build.read_sizes(n)), build.non_zero(x)]
    verify_module(Module("m", (Function("main", build.block([x, y, n], results), ("a", "b")),)))
