"""What a composite decomposes into computes what the composite means."""

import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.composites.decompositions import DECOMPOSITIONS, decompose
from onnxc.compiler.ir.dtypes import BF16, F16, DType
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.meanings import apply_meaning
from onnxc.compiler.ir.module import Function, Module
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.ir.verifier import verify_module
from tests.ir.cases import CASES, Case, Operand
from tests.support.arrays import assert_close

COMPOSITES = list(DECOMPOSITIONS)


def decomposed(case: Case) -> Module:
    build, op = Builder(), case.op()
    results = decompose(op, build)
    assert [result.type for result in results] == list(op.result_types)
    names = tuple(f"y{index}" for index in range(len(results)))
    module = Module("m", (Function("main", build.block(op.operands, results), names),))
    verify_module(module)
    return module


def assert_agrees(case: Case) -> None:
    module = decomposed(case)
    for sizes in case.sizes():
        arrays = case.arrays(sizes)
        expected = apply_meaning(case.name, arrays, case.attributes, sizes)
        actual = interpret(module, {f"x{index}": array for index, array in enumerate(arrays)})
        for a, b in zip(actual, expected, strict=True):
            assert_close(a, b, terms=8)


@pytest.mark.parametrize("name", COMPOSITES)
def test_a_decomposition_computes_the_composite(name: str) -> None:
    for case in CASES[name]:
        assert_agrees(case)


# Boxes are f32 alone, as NonMaxSuppression has them.
@pytest.mark.parametrize("name", [name for name in COMPOSITES if name != "suppress_boxes"])
@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_a_decomposition_computes_the_composite_of_narrow_floats(name: str, dtype: DType) -> None:
    for case in CASES[name]:
        operands = tuple(_narrowed(operand, dtype) for operand in case.operands)
        assert_agrees(Case(name, operands, case.attributes, case.values))


def _narrowed(operand: Operand, dtype: DType) -> Operand:
    if not operand.type.dtype.is_float:
        return operand
    return Operand(TensorType(dtype, operand.type.shape), lambda *given: operand.make(*given).astype(dtype.numpy))
