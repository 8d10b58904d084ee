"""The table of host functions, and those that no operator's tests reach in every detail."""

import numpy as np
import pytest

from onnxc.runtime.errors import InputError
from onnxc.runtime.host import MEANINGS
from onnxc.runtime.host.functions import FUNCTIONS
from onnxc.runtime.host.values import HostValue, as_array, as_map, as_sequence, as_texts
from tests.support.arrays import assert_same

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def call(name: str, *operands: HostValue, **attributes: object) -> tuple[HostValue, ...]:
    return FUNCTIONS[name](operands, attributes)


def test_no_function_has_the_name_of_a_primitive() -> None:
    assert not FUNCTIONS.keys() & MEANINGS.keys()


def test_every_function_says_what_it_computes() -> None:
    assert [name for name, function in FUNCTIONS.items() if not function.__doc__ or "->" not in function.__doc__] == []


@pytest.mark.parametrize(
    ("read", "value"), [(as_array, ()), (as_array, None), (as_sequence, X), (as_map, ()), (as_texts, X)]
)
def test_a_value_of_another_kind_is_a_defect_of_ours(read: object, value: HostValue) -> None:
    assert callable(read)
    with pytest.raises(AssertionError):
        read(value)


def test_functions_change_no_operand() -> None:
    sequence = (X, X + 1)
    call("sequence_insert", sequence, X)
    call("sequence_erase", sequence)
    assert len(sequence) == 2
    assert_same(X, np.arange(6, dtype=np.float32).reshape(2, 3))


@pytest.mark.parametrize("shape", [(2, 3), (-1, 3), (-1, -1)])
def test_a_declared_shape_is_checked(shape: tuple[int, ...]) -> None:
    (y,) = call("expect_shape", X, shape=shape)
    assert y is X


@pytest.mark.parametrize("shape", [(3, 3), (-1,), (-1, -1, 1), ()])
def test_another_shape_is_an_input_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        InputError, match=r"a value has the shape \[2, 3\], (the model declares \[|and there is code for rank )"
    ):
        call("expect_shape", X, shape=shape)


@pytest.mark.parametrize(
    ("arrays", "axis", "is_new"), [((X, X[0]), 0, False), ((X, X[:, :2]), 0, False), ((X, X[:1]), 0, True)]
)
def test_elements_that_cannot_be_joined(arrays: tuple[np.ndarray, ...], axis: int, is_new: bool) -> None:
    with pytest.raises(InputError, match=r"elements of shapes \[2, 3\], .* cannot be joined along axis 0"):
        call("concatenate_sequence", arrays, axis=axis, new_axis=is_new)


ON_HOST = {
    "texts": {
        "numbers_from_strings", "strings_from_numbers", "string_concatenate", "string_full_match", "string_normalize",
        "string_split", "text_positions", "text_ranks",
    },
    "sequences": {
        "concatenate_sequence", "sequence_at", "sequence_construct", "sequence_erase", "sequence_insert",
        "sequence_length", "split_to_sequence",
    },
    "optionals": {"optional_construct", "optional_get_element", "optional_has_element"},
    "maps": {"dense_from_map", "sparse_from_map", "vectorize_map", "zip_map"},
    "sparse tensors": {"sparse_from_dense"},
    "images, which a library decodes": {"decode_image"},
    "ranks that only data decides": {
        "as_columns", "expand_any_rank", "expect_shape", "gather_nd_any_rank", "only_element", "rank_of",
        "reshape_any_rank", "scatter_nd_any_rank", "squeeze_any_rank", "squeeze_ones", "unsqueeze_any_rank",
        "with_leading_ones", "without_folded_axes", "without_leading_ones", "without_promoted_axes",
    },
    "code of the caller": {"custom_operator"},
}  # fmt: skip


def test_what_stays_on_the_host_has_a_reason() -> None:
    names = [name for reason in ON_HOST.values() for name in reason]
    assert sorted(names) == sorted(FUNCTIONS)


def test_the_last_of_equal_texts_counts() -> None:
    keys, x = np.array(["a", "b", "a"], object), np.array([["a", "?"], ["b", ""]], object)
    (y,) = call("text_positions", x, keys)
    assert_same(as_array(y), np.array([[2, 3], [1, 3]]))


@pytest.mark.parametrize("times", [1, 100])
@pytest.mark.parametrize("words", [[], ["b"], ["b", "", "é", "a", "aa", "a"]], ids=len)
def test_texts_are_ranked_among_the_distinct_ones(words: list[str], times: int) -> None:
    x = np.array([*words * times, ""], object)[:-1].reshape(-1, 1)
    (y,) = call("text_ranks", x)
    ascending = sorted(set(words))
    assert_same(as_array(y), np.array([[ascending.index(word)] for word in words * times], np.int64).reshape(-1, 1))
