"""Einsum against numpy.einsum."""

import numpy as np
import pytest

from onnxc.runtime.errors import InputError, ModelError
from tests.operators.tensor_operators import run_operator
from tests.support.arrays import assert_close, assert_same

RANDOM = np.random.default_rng(0)
Shape = tuple[int, ...]

EQUATIONS: list[tuple[str, list[Shape]]] = [
    ("i", [(3,)]),
    ("ij->ji", [(2, 3)]),
    ("ij->", [(2, 3)]),
    ("ba", [(2, 3)]),
    ("ii", [(3, 3)]),
    ("ii->i", [(3, 3)]),
    ("iji->j", [(3, 2, 3)]),
    ("iii->i", [(3, 3, 3)]),
    ("...ii->...i", [(2, 3, 3)]),
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij, jk", [(2, 3), (3, 4)]),
    ("i,j->ij", [(2,), (3,)]),
    ("i,i->", [(3,), (3,)]),
    ("ij,ij->ij", [(2, 3), (2, 3)]),
    ("ij,j->i", [(2, 0), (0,)]),
    ("bhwc,hkc->bhwk", [(2, 3, 4, 5), (3, 6, 5)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
    ("...ij,jk->ik...", [(2, 3, 4), (4, 5)]),
    ("i...,i...", [(3, 2), (3, 2)]),
    ("...,...", [(2, 3), (3,)]),
    ("a...b,b->a...", [(2, 3, 4), (4,)]),
    ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 5)]),
    ("ab,ab,ab->b", [(2, 3), (2, 3), (2, 3)]),
    ("a,b,c->cab", [(2,), (3,), (4,)]),
    ("iij,jk,k->i", [(2, 2, 3), (3, 4), (4,)]),
    ("aB,Bc->ca", [(2, 3), (3, 4)]),
    (",i->i", [(), (3,)]),
    ("->", [()]),
]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_equations(equation: str, shapes: list[Shape], way: str) -> None:
    operands = [RANDOM.standard_normal(shape).astype(np.float32) for shape in shapes]
    named = {f"x{i}": operand for i, operand in enumerate(operands)}
    (actual,) = run_operator("Einsum", named, opset=12, way=way, equation=equation)
    assert_close(actual, np.asarray(np.einsum(equation, *operands)), terms=8)


def test_a_size_of_one_broadcasts() -> None:
    a, b = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((2, 1), (3, 4)))
    (actual,) = run_operator("Einsum", {"a": a, "b": b}, opset=12, equation="ij,jk->ik")
    assert_close(actual, a @ b.sum(0, keepdims=True))


@pytest.mark.parametrize("dtype", [np.int32, np.float16, np.float64])
def test_other_types(dtype: type[np.generic]) -> None:
    a, b, c = (np.full((2, 2), value, dtype) for value in (1, 2, 3))
    (actual,) = run_operator("Einsum", {"a": a, "b": b, "c": c}, opset=28, equation="ij,jk,kl->il")
    assert_same(actual, np.full((2, 2), 24, dtype))


def test_products_of_halves_do_not_overflow_on_the_way() -> None:
    operands = {"a": np.float16([60000]), "b": np.float16([2]), "c": np.float16([0.25])}
    assert_same(*run_operator("Einsum", operands, opset=12, equation="i,i,i->i"), np.float16([30000]))


@pytest.mark.parametrize(
    ("equation", "shapes", "code"),
    [("ij", [(2,)], "rank"), ("i", [(2, 3)], "rank"), ("i,j->ij", [(2,)], "terms"), ("i->ii", [(2,)], "result"),
     ("i->j", [(2,)], "result"), ("i1->i", [(2, 3)], "subscripts"), ("i..->i", [(2, 3)], "subscripts"),
     ("......->", [(2, 3)], "subscripts"), ("i->i->i", [(2,)], "subscripts")],
)  # fmt: skip
def test_wrong_subscripts_are_an_error(equation: str, shapes: list[Shape], code: str) -> None:
    operands = {f"x{i}": np.ones(shape, np.float32) for i, shape in enumerate(shapes)}
    with pytest.raises(ModelError, match=f"einsum-{code}"):
        run_operator("Einsum", operands, opset=12, equation=equation)


@pytest.mark.parametrize(("equation", "shapes"), [("ii", [(2, 3)]), ("ij,jk->ik", [(2, 3), (4, 5)])])
def test_sizes_of_one_letter_are_equal(equation: str, shapes: list[Shape]) -> None:
    operands = {f"x{i}": np.ones(shape, np.float32) for i, shape in enumerate(shapes)}
    with pytest.raises(ModelError, match="einsum-sizes"):
        run_operator("Einsum", operands, opset=12, equation=equation)
    with pytest.raises(InputError, match="differ"):
        run_operator("Einsum", operands, opset=12, way="symbolic", equation=equation)
