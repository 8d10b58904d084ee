"""Types of values: text, sizes, and replacing symbols."""

import pytest

from onnxc.compiler.ir.dims import Size, floordiv
from onnxc.compiler.ir.dtypes import F32, I64, STRING
from onnxc.compiler.ir.types import (
    MapType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    Type,
    is_host_type,
    substitute_type,
    type_symbols,
)

N, M = Size.symbol("N"), Size.symbol("M")
MATRIX = TensorType(F32, (N, 4 * M))


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (TensorType(F32, ()), "f32[]"),
        (TensorType(F32, (0, 1)), "f32[0, 1]"),
        (MATRIX, "f32[N, 4*M]"),
        (TensorType(STRING, None), "string[...]"),
        (SparseTensorType(F32, (N, 3)), "sparse(f32[N, 3])"),
        (SparseTensorType(STRING, None), "sparse(string[...])"),
        (SequenceType(OptionalType(MATRIX)), "sequence(optional(f32[N, 4*M]))"),
        (MapType(STRING, TensorType(I64, ())), "map(string, i64[])"),
    ],
)
def test_types_are_written(type: Type, text: str) -> None:
    assert str(type) == text


@pytest.mark.parametrize(
    ("shape", "rank", "elements", "static"),
    [
        ((), 0, 1, True),
        ((0, 3), 2, 0, True),
        ((2, 3), 2, 6, True),
        ((N, M, 2), 3, 2 * N * M, False),
        ((N, 0), 2, 0, False),
    ],
)
def test_the_size_of_a_tensor(shape: tuple[int | Size, ...], rank: int, elements: int | Size, static: bool) -> None:
    type = TensorType(F32, shape)
    assert (type.rank, type.elements, type.is_static) == (rank, elements, static)


def test_a_tensor_of_unknown_rank_has_no_shape_to_ask_for() -> None:
    type = TensorType(F32, None)
    assert not type.is_static
    with pytest.raises(AssertionError, match="only known at run time"):
        assert type.rank


def test_types_are_compared_by_value() -> None:
    assert TensorType(F32, (N + N,)) == TensorType(F32, (2 * N,))
    assert hash(TensorType(F32, (N + N,))) == hash(TensorType(F32, (2 * N,)))
    assert TensorType(F32, (N,)) != TensorType(F32, (M,))
    assert TensorType(F32, ()) != TensorType(F32, None)
    assert SequenceType(MATRIX) != OptionalType(MATRIX)
    assert SparseTensorType(MATRIX.dtype, MATRIX.shape) != MATRIX


@pytest.mark.parametrize(
    ("type", "host"),
    [
        (TensorType(F32, (N,)), False),
        (TensorType(F32, None), True),
        (TensorType(STRING, (1,)), True),
        (SequenceType(MATRIX), True),
        (OptionalType(MATRIX), True),
        (SparseTensorType(F32, (2,)), True),
        (MapType(I64, MATRIX), True),
    ],
)
def test_what_lives_on_the_host_only(type: Type, host: bool) -> None:
    assert is_host_type(type) is host


@pytest.mark.parametrize(
    "wrap",
    [lambda t: t, lambda t: SparseTensorType(t.dtype, t.shape), SequenceType, OptionalType, lambda t: MapType(I64, t)],
)
def test_symbols_are_found_and_replaced_at_any_depth(wrap: type) -> None:
    type = wrap(TensorType(F32, (N, floordiv(N * M, 2), 3)))
    assert type_symbols(type) == {"N", "M"}
    assert substitute_type(type, {"N": 2}) == wrap(TensorType(F32, (2, M, 3)))
    assert substitute_type(type, {}) == type


def test_a_type_without_shape_has_no_symbols() -> None:
    assert type_symbols(TensorType(F32, None)) == frozenset()
    assert substitute_type(TensorType(F32, None), {"N": 1}) == TensorType(F32, None)
