"""Every primitive that has a native kernel, on the table of cases that the tests of the IR use."""

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.plan_target import is_native
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BOOL
from onnxc.compiler.ir.module import Block, Function, Module, Parameter, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, Native
from tests.ir.cases import CASES, Case

NATIVE_CASES = tuple(case for cases in CASES.values() for case in cases if is_native(case.op()))

# Primitives that only some of the element types have kernels for, or none.
NOT_NATIVE = frozenset(name for name, cases in CASES.items() if not any(map(is_native, (case.op() for case in cases))))


def module_of(case: Case) -> tuple[Module, tuple[str, ...]]:
    """The case as a module; for each symbol, whose names come with it, there is a parameter that binds it."""
    op = case.op()
    names = tuple(dict.fromkeys(name for sizes in case.sizes() for name in sizes))
    binders = tuple(Parameter(f"of {name}", TensorType(BOOL, (Size.symbol(name),))).value for name in names)
    parameters: tuple[Value, ...] = (*op.operands, *binders)
    results = tuple(f"y{index}" for index in range(len(op.results)))
    block = Block(parameters, (op,), op.results)
    return Module("case", (Function("main", block, results, dict.fromkeys(names, (0, None))),)), names


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("case", NATIVE_CASES, ids=str)
def test_a_primitive_is_what_its_meaning_says(case: Case, target: Target) -> None:
    module, names = module_of(case)
    native = Native(module, target)
    is_exact = PRIMITIVES[case.name].kind in ("movement", "generator", "indexed", "ordering", "window")
    for sizes in case.sizes():
        binders = [np.zeros(sizes[name], np.bool_) for name in names]
        # The indices of the cases are out of range in places: they are clamped.
        native.check(*case.arrays(sizes), *binders, bound=0.0 if is_exact else 2e-6, reports=True)


def test_what_has_no_native_kernel_is_known() -> None:
    exchanges = {"all_reduce", "all_gather", "all_to_all", "reduce_scatter", "permute"}
    decomposed = {"rotary"}
    # Exchanges take its place.
    divided = {"reshard", "enter_stage"}
    # Only of tables that are constants is it known that their indices are in range; only constants are packed.
    of_constants = {"tree_ensemble", "block_product", "byte_block_product"}
    assert {*exchanges, *decomposed, *divided, *of_constants, "non_zero"} == NOT_NATIVE
