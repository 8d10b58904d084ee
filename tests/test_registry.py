"""The registries are whole: every primitive answers every table, every operator version lowers or says why not."""

import pytest

import onnxc.compiler.ir  # noqa: F401  (fills the registry)
from onnxc.compiler.frontend.operator import OPERATORS
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.composites.decompositions import DECOMPOSITIONS
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.op_facts import bound_symbols, capture_count, named_symbols
from onnxc.compiler.ir.primitive import PRIMITIVES, AxisLink
from onnxc.compiler.ir.types import type_symbols
from onnxc.runtime.host import MEANINGS
from tests import operators_not_yet
from tests.ir.cases import CASES, STRUCTURAL, structural_ops

DECLARE_THEIR_TYPES = {"if", "while", "recurrence", "call", "host", "native_call"}
KEYWORDS = ("and", "or", "not", "if", "while")
BUILT_BY_ANOTHER_NAME = {
    **{name: f"{name}_" for name in KEYWORDS},
    "bind_sizes": "read_sizes",
    "arg_reduce_window": "reduce_window",
}
COLLECTIVES = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute"}
MADE_BY_PASSES = {"call", "recurrence", "reshard", "enter_stage", *COLLECTIVES}
DIVISIONS = {"reshard", "enter_stage"}
STEPS_OF_THEIR_OWN = {
    *DECLARE_THEIR_TYPES - {"recurrence", "native_call"},
    *COLLECTIVES,
    *DIVISIONS,
    "bind_sizes",
    "guard",
    "non_zero",
    "rotary",
}
CAPTURED = {"if": 1, "while": 1, "recurrence": 1}
BOUND = {"bind_sizes": {"?size0"}, "while": {"steps"}, "non_zero": {"nonzero"}}


# Primitives


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_primitive_has_a_type_rule_or_declares_its_types(name: str) -> None:
    assert (PRIMITIVES[name].type_rule is None) == (name in DECLARE_THEIR_TYPES)


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_primitive_has_an_axes_rule_and_a_case_that_proves_it(name: str) -> None:
    op = CASES[name][0].op() if name in CASES else structural_ops()[name]
    for link in PRIMITIVES[name].axes_rule(op):
        assert (len(link.operands), len(link.results)) == (len(op.operands), len(op.results))


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_primitive_has_a_meaning_or_is_run_by_the_interpreter(name: str) -> None:
    primitive = PRIMITIVES[name]
    assert (name in MEANINGS) != (primitive.structural or primitive.kind == "host")


@pytest.mark.parametrize("name", PRIMITIVES)
def test_composites_and_they_alone_have_a_decomposition(name: str) -> None:
    assert (name in DECOMPOSITIONS) == (PRIMITIVES[name].kind == "composite")


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_primitive_says_how_kernels_compute_it_or_is_a_step_of_its_own(name: str) -> None:
    primitive = PRIMITIVES[name]
    assert (primitive.kernel is None) == (name in STEPS_OF_THEIR_OWN)
    assert (primitive.cost is None) == (not primitive.recomputable)
    assert primitive.anchor is None or not primitive.recomputable


@pytest.mark.parametrize("name", PRIMITIVES)
def test_what_is_elementwise_is_what_the_axes_rule_says_of_what_is_recomputable(name: str) -> None:
    primitive = PRIMITIVES[name]
    along_every_axis = name in CASES and all(_is_elementwise(case.op()) for case in CASES[name])
    assert primitive.elementwise == (primitive.recomputable and along_every_axis)


def _is_elementwise(op: Op) -> bool:
    shapes = {value.shape for value in (*op.operands, *op.results)}
    every = tuple(AxisLink("map", (axis,) * len(op.operands), (axis,)) for axis in range(op.results[0].rank))
    return bool(op.operands) and len(shapes) == 1 and PRIMITIVES[op.name].axes_rule(op) == every


def test_views_are_the_movements_that_strides_can_say() -> None:
    assert {name for name in PRIMITIVES if PRIMITIVES[name].is_view} == {"reshape", "transpose", "broadcast", "slice"}


def test_gathers_pick_elements_and_scatters_do_not() -> None:
    assert {name for name in PRIMITIVES if PRIMITIVES[name].picks} == {"gather", "gather_along", "gather_nd"}


def test_what_repeating_costs_is_ordered_as_the_work_is() -> None:
    costs = [PRIMITIVES[name].cost for name in ("broadcast", "pad", "add", "gather", "div", "exp", "gelu", "pow")]
    assert costs == [0, 1, 1, 3, 4, 12, 30, 40]


@pytest.mark.parametrize("name", PRIMITIVES)
def test_ops_with_blocks_and_they_alone_say_what_the_blocks_capture(name: str) -> None:
    op = structural_ops().get(name)
    has_blocks = op is not None and bool(op.blocks)
    assert (PRIMITIVES[name].captures is not None) == has_blocks
    if op is not None and has_blocks:
        captured = [value.type for value in op.operands[len(op.operands) - capture_count(op) :]]
        assert all([value.type for value in block.parameters[-len(captured) :]] == captured for block in op.blocks)
        assert capture_count(op) == CAPTURED[name]


@pytest.mark.parametrize("name", PRIMITIVES)
def test_symbols_that_come_with_an_op_are_named_by_it(name: str) -> None:
    op = CASES[name][0].op() if name in CASES else structural_ops()[name]
    assert set(named_symbols(op)) == BOUND.get(name, set())
    if PRIMITIVES[name].type_rule is not None:
        assert set().union(*map(type_symbols, op.result_types)) <= _symbols_above(op) | set(bound_symbols(op))


def _symbols_above(op: Op) -> set[str]:
    values = [item for value in op.attributes.values() for item in (value if isinstance(value, tuple) else (value,))]
    of_attributes = (symbols_of(value) for value in values if isinstance(value, Size))
    return set().union(*of_attributes, *(type_symbols(operand.type) for operand in op.operands))


@pytest.mark.parametrize("name", PRIMITIVES)
def test_guards_calls_and_collectives_have_effects(name: str) -> None:
    assert PRIMITIVES[name].effects == (name in COLLECTIVES or name in ("guard", "call"))


def test_every_meaning_is_of_a_primitive() -> None:
    assert MEANINGS.keys() - PRIMITIVES.keys() == set()


def test_every_case_is_of_a_primitive() -> None:
    assert CASES.keys() - PRIMITIVES.keys() == set()
    assert {*CASES, *structural_ops()} == {*PRIMITIVES}, STRUCTURAL


@pytest.mark.parametrize("name", [name for name in PRIMITIVES if name not in MADE_BY_PASSES])
def test_the_builder_makes_every_primitive(name: str) -> None:
    primitive = PRIMITIVES[name]
    by_name = primitive.kind == "pointwise" and name not in ("select", "cast", "bitcast")
    assert by_name or callable(getattr(Builder, BUILT_BY_ANOTHER_NAME.get(name, name)))


# Operators


def test_nothing_of_the_standard_is_listed() -> None:
    assert not [name for name in operators_not_yet.listed() if not name.startswith("com.microsoft")]


def test_every_operator_version_lowers_or_is_listed() -> None:
    missing = set(operators_not_yet.known()) - operators_not_yet.lowered() - operators_not_yet.listed().keys()
    assert missing == set(), "write the lowering, or the reason into tests/operators_not_yet.txt"


def test_no_listed_operator_version_lowers() -> None:
    done = operators_not_yet.listed().keys() & operators_not_yet.lowered()
    assert done == set(), "these lower: their lines must go (python -m tests.operators_not_yet)"


def test_every_listed_version_is_known() -> None:
    assert operators_not_yet.listed().keys() - set(operators_not_yet.known()) == set()


def test_every_lowering_is_of_a_known_version() -> None:
    assert operators_not_yet.lowered() - set(operators_not_yet.known()) == set()
    assert len(operators_not_yet.known()) == 659 + 160
    assert all(callable(lowering) for lowering in OPERATORS.values())
