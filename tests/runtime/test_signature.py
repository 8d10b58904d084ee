"""What a call must pass, and what is said where it does not."""

from collections.abc import Sequence

import numpy as np
import pytest

from onnxc.runtime.dtypes import DTYPES
from onnxc.runtime.errors import InputError
from onnxc.runtime.program import Binding, Check, Parameter, Symbol
from onnxc.runtime.signature import MISSING, Signature, TensorInfo, tensor_info

F32, I64 = DTYPES["f32"], DTYPES["i64"]

# past: f32[B, P, 4], ids: i64[B, S], mask: i64[B, P + S], with 1 <= B <= 8 and the last optional.
SIGNATURE = Signature(
    (Symbol("B", 1, 8), Symbol("P", 0, None), Symbol("S", 2, None)),
    (
        TensorInfo("past", F32, ("B", "P", 4), "f32[B, P, 4]"),
        TensorInfo("ids", I64, ("B", "S"), "i64[B, S]"),
        TensorInfo("mask", I64, ("B", "P + S"), "i64[B, P + S]", optional=True),
    ),
    (TensorInfo("y", F32, ("B",), "f32[B]"),),
    (Binding(0, 0, 0), Binding(0, 1, 1), Binding(1, 1, 2)),
    (Check(0, 2, "4"), Check(1, 0, "s[0]"), Check(2, 0, "s[0]"), Check(2, 1, "s[1] + s[2]")),
    frozen=("w",),
)
PAST, IDS, MASK = np.zeros((2, 3, 4), np.float32), np.zeros((2, 5), np.int64), np.zeros((2, 8), np.int64)


def bind(*shapes: Sequence[int]) -> tuple[int, ...]:
    return SIGNATURE.bind_sizes([np.zeros(shape, np.uint8) for shape in shapes])


def test_sizes_are_bound_from_shapes() -> None:
    assert bind((2, 3, 4), (2, 5), (2, 8)) == (2, 3, 5)


def test_a_size_may_be_0_where_its_range_allows() -> None:
    assert bind((2, 0, 4), (2, 5), (2, 5)) == (2, 0, 5)


@pytest.mark.parametrize(
    ("shapes", "code", "text"),
    [
        (
            [(2, 3, 5), (2, 5), (2, 8)],
            "input-shape",
            'axis 2 of input "past" is 5, expected 4: u8[2, 3, 5] came for f32[B, P, 4]',
        ),
        (
            [(2, 3, 4), (1, 5), (2, 8)],
            "sizes-disagree",
            'axis 0 of input "ids" is 1, expected B = 2: B is 2 by axis 0 of input "past"',
        ),
        (
            [(2, 3, 4), (2, 5), (2, 7)],
            "sizes-disagree",
            'axis 1 of input "mask" is 7, expected P + S = 8: P is 3 by axis 1 of input "past"; S is 5 by axis 1 of',
        ),
        (
            [(9, 3, 4), (9, 5), (9, 8)],
            "size-out-of-range",
            'axis 0 of input "past" is 9, expected B from 1 to 8',
        ),
        ([(0, 3, 4), (0, 5), (0, 8)], "size-out-of-range", "expected B from 1 to 8"),
        ([(2, 3, 4), (2, 1), (2, 4)], "size-out-of-range", 'axis 1 of input "ids" is 1, expected S from 2 or more'),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes: list[tuple[int, ...]], code: str, text: str) -> None:
    with pytest.raises(InputError) as refused:
        bind(*shapes)
    assert refused.value.code == code
    assert text in str(refused.value)


def test_values_by_position() -> None:
    assert SIGNATURE.by_position([1, 2, 3]) == [1, 2, 3]
    assert SIGNATURE.by_position([1, 2]) == [1, 2, MISSING]


def test_required_values_alone_skip_the_optional_inputs_among_them() -> None:
    a, b, c = (TensorInfo(name, F32, (), "f32[]", optional=name == "b") for name in "abc")
    signature = Signature((), (a, b, c), (), (), ())
    assert signature.by_position([1, 3]) == [1, MISSING, 3]
    assert signature.by_position([1, 2, 3]) == [1, 2, 3]


@pytest.mark.parametrize("count", [0, 1, 4])
def test_another_number_of_values_is_refused(count: int) -> None:
    with pytest.raises(InputError, match="expected 2 to 3: the inputs are past: f32") as refused:
        SIGNATURE.by_position([PAST] * count)
    assert refused.value.code == "input-count"


def test_values_by_name() -> None:
    assert SIGNATURE.by_name({"ids": 2, "past": 1}) == [1, 2, MISSING]


def test_an_unknown_name_is_refused_and_the_known_ones_listed() -> None:
    with pytest.raises(InputError, match=r"no input 'idz'; the inputs are past: f32\[B, P, 4\], ids") as refused:
        SIGNATURE.by_name({"idz": 1})
    assert refused.value.code == "unknown-input"


def test_a_frozen_initializer_is_refused_and_the_option_named() -> None:
    with pytest.raises(InputError, match="freeze_params=False") as refused:
        SIGNATURE.by_name({"w": 1})
    assert refused.value.code == "frozen-input"


@pytest.mark.parametrize("value", [MISSING, None])
def test_a_missing_input_is_named(value: object) -> None:
    with pytest.raises(InputError, match='input "ids" is missing') as refused:
        SIGNATURE.import_values([PAST, value, MASK], {})
    assert refused.value.code == "missing-input"


@pytest.mark.parametrize("value", [MISSING, None])
def test_an_optional_input_takes_its_default(value: object) -> None:
    assert SIGNATURE.import_values([PAST, IDS, value], {2: MASK})[2] is MASK


def test_a_wrong_rank_is_refused() -> None:
    with pytest.raises(InputError, match=r'"ids" is i64\[10\] of rank 1, expected i64\[B, S\]') as refused:
        SIGNATURE.import_values([PAST, IDS.reshape(-1), MASK], {})
    assert refused.value.code == "input-rank"


def test_a_wrong_element_type_is_refused() -> None:
    with pytest.raises(InputError, match=r'"ids" is i32\[2, 5\], expected i64\[B, S\]') as refused:
        SIGNATURE.import_values([PAST, IDS.astype(np.int32), MASK], {})
    assert refused.value.code == "input-dtype"


def test_what_is_no_tensor_is_imported_by_its_type() -> None:
    signature = Signature((), (TensorInfo("s", None, None, "sequence(f32[...])"),), (), (), ())
    ((first,),) = signature.import_values([[1.0]], {})
    assert isinstance(first, np.ndarray)
    assert signature.bind_sizes([(first,)]) == ()


@pytest.mark.parametrize("values", [[None], [MISSING]])
def test_an_optional_value_may_be_absent(values: list[object]) -> None:
    signature = Signature((), (TensorInfo("s", None, None, "optional(f32[...])", optional=True),), (), (), ())
    assert signature.import_values(values, {}) == (None,)


@pytest.mark.parametrize(
    ("parameter", "text", "shape", "optional"),
    [
        (Parameter("x", "f32", ("N", "2*N + 1", "4"), "f32[N, 2*N + 1, 4]"), "x: f32[N, 2*N + 1, 4]",
         ("N", "2*N + 1", 4), False),
        (Parameter("x", "i64", (), "i64[]", default=64), "x: i64[] (optional)", (), True),
        # Nobody knows the shape of this default.
        (Parameter("x", "i64", ("N",), "i64[N]", default=64), "x: i64[N]", ("N",), False),
        (Parameter("x", "f32", None, "f32[...]"), "x: f32[...]", None, False),
        (Parameter("x", "", None, "sequence(f32[])"), "x: sequence(f32[])", None, False),
        (Parameter("x", "", None, "optional(f32[])"), "x: optional(f32[]) (optional)", None, True),
    ],
)  # fmt: skip
def test_what_people_are_told(parameter: Parameter, text: str, shape: object, optional: bool) -> None:
    info = tensor_info(parameter)
    assert (str(info), info.shape, info.optional) == (text, shape, optional)
    assert info.dtype == DTYPES.get(parameter.dtype)
