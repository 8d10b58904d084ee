"""The derivative of every primitive on the table of cases: types and shapes, at every size and in narrow floats."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.composites.decompositions import DECOMPOSITIONS
from onnxc.compiler.ir.differentiation.derivative import DERIVATIVES, carries_gradient
from onnxc.compiler.ir.differentiation.differentiate import gradients
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BF16, BOOL, F16, F64, DType
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Function, Module, Parameter, Value
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.ir.verifier import verify_module
from tests.ir.cases import CASES, Case, Operand


def is_differentiable(case: Case) -> bool:
    """Whether the op has a float operand, a float result, and a rule or a decomposition."""
    op = case.op()
    has_rule = op.name in DERIVATIVES or op.name in DECOMPOSITIONS
    return has_rule and any(_is_float(value) for value in op.operands) and any(_is_float(value) for value in op.results)


def _is_float(value: Value) -> bool:
    return carries_gradient(value.type)


DIFFERENTIABLE = tuple(case for cases in CASES.values() for case in cases if is_differentiable(case))


def gradient_module(case: Case) -> tuple[Module, tuple[str, ...]]:
    """The gradients of half the sum of squares as a module; for each symbol, named beside it, a parameter binds it."""
    op = case.op()
    names = tuple(dict.fromkeys(name for sizes in case.sizes() for name in sizes))
    binders = tuple(Parameter(f"of {name}", TensorType(BOOL, (Size.symbol(name),))).value for name in names)
    build = Builder()
    build.symbols.ranges.update(dict.fromkeys(names, (0, None)))
    build.ops.append(op)
    y = next(value for value in op.results if _is_float(value))
    found = gradients(y, [value for value in op.operands if _is_float(value)], build, seed=y)
    body = prune(build.block((*op.operands, *binders), found))
    results = tuple(f"g{index}" for index in range(len(found)))
    return Module("case", (Function("main", body, results, dict.fromkeys(names, (0, None))),)), names


def in_floats(case: Case, dtype: DType) -> Case:
    """The case with operands of another float type."""
    operands = tuple(_converted(operand, dtype) for operand in case.operands)
    replaced = {"dtype": dtype} if case.name in ("dot", "convolution") else {}
    return Case(case.name, operands, {**case.attributes, **replaced}, case.values, case.devices, case.exact)


def _converted(operand: Operand, dtype: DType) -> Operand:
    if not operand.type.dtype.is_float:
        return operand
    type = TensorType(dtype, operand.type.shape)
    return Operand(type, lambda *given: operand.make(*given).astype(dtype.numpy))


@pytest.mark.parametrize("dtype", [None, F64, F16, BF16], ids=str)
@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=str)
def test_gradients_have_the_types_of_their_operands_at_every_size(case: Case, dtype: DType | None) -> None:
    case = case if dtype is None else in_floats(case, dtype)
    module, names = gradient_module(case)
    verify_module(module)
    floats = [index for index, operand in enumerate(case.operands) if operand.type.dtype.is_float]
    for sizes in case.sizes():
        arrays = case.arrays(sizes)
        inputs = {f"x{index}": array for index, array in enumerate(arrays)}
        inputs |= {f"of {name}": np.zeros(sizes[name], np.bool_) for name in names}
        for place, found in zip(floats, interpret(module, inputs), strict=True):
            gradient = np.asarray(found)
            assert (gradient.dtype, gradient.shape) == (arrays[place].dtype, arrays[place].shape), (str(case), sizes)


def test_the_table_has_a_case_for_every_rule_of_one_op() -> None:
    """But for casts, whose cases are to integers."""
    covered = {case.name for case in DIFFERENTIABLE}
    assert {*DERIVATIVES} - covered == {"cast", "if", "while", "host", "native_call"}
