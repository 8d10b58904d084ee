"""Importing what callers pass: what is shared, what is copied, what is converted, what is refused."""

from array import array
from collections.abc import Iterator, Mapping

import ml_dtypes
import numpy as np
import pytest

from onnxc.runtime.arrays import describe, import_array, is_ready, plain_mapping
from onnxc.runtime.dtypes import DTYPES, STRING, DType
from onnxc.runtime.errors import InputError
from tests.support.arrays import assert_same

F32, F64, I64, U8, BOOL = (DTYPES[name] for name in ("f32", "f64", "i64", "u8", "bool"))


def take(value: object, dtype: DType = F32) -> np.ndarray:
    return import_array(value, dtype, 'input "x"', "f32[N]")


class Shared:
    """An array of another library, reached through DLPack."""

    def __init__(self, data: np.ndarray, device: int = 1) -> None:
        self.data, self.device = data, device

    def __dlpack__(self, **options: object) -> object:
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


class Interfaced:
    def __init__(self, data: np.ndarray) -> None:
        self.data = data

    @property
    def __array_interface__(self) -> Mapping[str, object]:
        return self.data.__array_interface__


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3), (0, 3)])
def test_a_ready_array_is_shared(shape: tuple[int, ...]) -> None:
    x = np.ones(shape, np.float32)
    assert take(x) is x


@pytest.mark.parametrize("wrap", [Shared, Interfaced, memoryview])
def test_arrays_of_other_libraries_are_shared(wrap: type) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = take(wrap(x))
    assert_same(found, x)
    assert np.shares_memory(found, x)


def test_the_buffer_of_a_python_array_is_shared() -> None:
    x = array("f", [1.0, 2.0])
    found = take(x)
    x[0] = 3.0
    assert_same(found, np.array([3, 2], np.float32))


@pytest.mark.parametrize(
    "view",
    [
        np.arange(12, dtype=np.float32).reshape(3, 4).T,
        np.arange(12, dtype=np.float32)[::2],
        np.arange(12, dtype=np.float32)[::-1],
        np.broadcast_to(np.float32(2), (3, 2)),
        np.frombuffer(bytes(9), np.uint8)[1:].view(np.float32),
    ],
    ids=["transposed", "strided", "reversed", "broadcast", "unaligned"],
)
def test_what_native_code_cannot_read_is_copied(view: np.ndarray) -> None:
    found = take(view)
    assert_same(found, np.asarray(view))
    assert is_ready(found)
    assert found.flags.owndata


def test_foreign_byte_order_is_converted() -> None:
    x = np.array([1.5, -0.0, np.nan], ">f4")
    found = take(x)
    assert_same(found, x.astype(np.float32))
    assert found.dtype.isnative


def test_a_scalar_of_numpy_has_an_element_type() -> None:
    assert_same(take(np.float32(1.5)), np.array(1.5, np.float32))
    with pytest.raises(InputError, match=r"input \"x\" is f64\[\], expected f32\[N\]"):
        take(np.float64(1.5))


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1.5, F32, np.array(1.5, np.float32)),
        (2, F32, np.array(2, np.float32)),
        (0.1, F32, np.array(0.1, np.float32)),
        ([[1, 2], [3, 4]], I64, np.array([[1, 2], [3, 4]], np.int64)),
        ((1.0, float("nan")), F64, np.array([1.0, np.nan])),
        ([], I64, np.empty(0, np.int64)),
        ([[], []], F32, np.empty((2, 0), np.float32)),
        ([True, False], BOOL, np.array([True, False])),
        ([0, 255], U8, np.array([0, 255], np.uint8)),
        (2**63 - 1, I64, np.array(2**63 - 1)),
        ([np.ones(2, np.float32)], F32, np.ones((1, 2), np.float32)),
        (1 + 2j, DTYPES["c64"], np.array(1 + 2j, np.complex64)),
        ([1, -2], DTYPES["i4"], np.array([1, -2], ml_dtypes.int4)),
        (1.5, DTYPES["bf16"], np.array(1.5, ml_dtypes.bfloat16)),
        ([65504.0, float("inf"), float("-inf")], DTYPES["f16"], np.array([65504, np.inf, -np.inf], np.float16)),
        (np.ma.masked_array(np.ones(2, np.float32)), F32, np.ones(2, np.float32)),
    ],
)
def test_python_values_take_the_expected_type(value: object, dtype: DType, expected: np.ndarray) -> None:
    found = take(value, dtype)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("value", "dtype", "code"),
    [
        (1.5, I64, "input-dtype"),
        (True, I64, "input-dtype"),
        (1, BOOL, "input-dtype"),
        ("a", F32, "input-dtype"),
        (1j, F32, "input-dtype"),
        ([256], U8, "input-range"),
        ([-1], U8, "input-range"),
        (8, DTYPES["i4"], "input-range"),
        ([1.0, 70000.0], DTYPES["f16"], "input-range"),
        (70000, DTYPES["f16"], "input-range"),
        (-1e300, F32, "input-range"),
        (1e300j, DTYPES["c64"], "input-range"),
        (np.ma.masked_array(np.ones(2, np.float32), [0, 1]), F32, "input-type"),
        ([np.ma.masked_array(np.ones(2, np.float32), [0, 1])], F32, "input-type"),
        ([1.0, np.ma.masked], F32, "input-type"),
        (2**70, I64, "input-dtype"),
        ([[1], [2, 3]], I64, "input-type"),
        ([None], F32, "input-dtype"),
        (np.ones(3), F32, "input-dtype"),
        ([np.ones(3), np.ones(3)], F32, "input-dtype"),
        ([np.float64(1)], F32, "input-dtype"),
        (np.ones(3, np.int32), I64, "input-dtype"),
        (np.array(["a"]), F32, "input-dtype"),
        (None, F32, "input-type"),
        ({"a": 1}, F32, "input-type"),
        (b"abc", F32, "input-type"),
        (object(), F32, "input-type"),
        (Shared(np.ones(2, np.float32), device=2), F32, "input-device"),
    ],
)
def test_what_would_lose_something_is_refused(value: object, dtype: DType, code: str) -> None:
    with pytest.raises(InputError, match='input "x"') as refused:
        take(value, dtype)
    assert refused.value.code == code


class Unreadable:
    def __dlpack__(self, **options: object) -> object:
        raise BufferError("it requires gradient")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class Broken:
    def __array__(self, *arguments: object, **options: object) -> np.ndarray:
        raise TypeError("no such type in NumPy")


@pytest.mark.parametrize(("value", "reason"), [(Unreadable(), "requires gradient"), (Broken(), "no such type")])
def test_the_reason_of_another_library_is_told(value: object, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        take(value)


def foreign(problem: BaseException, name: str, **others: object) -> object:
    """An array of another library, of which one method raises."""

    def fail(*_: object, **__: object) -> None:
        raise problem

    return type("Foreign", (), {name: fail, **others})()


def all_foreign(problem: BaseException) -> list[object]:
    def fail(_: object) -> None:
        raise problem

    return [
        foreign(problem, "__dlpack__", __dlpack_device__=lambda _: (1, 0)),
        foreign(problem, "__dlpack_device__", __dlpack__=lambda _: None),
        foreign(problem, "__array__"),
        [foreign(problem, "__array__")],
        type("Foreign", (), {"__array_interface__": property(fail)})(),
    ]


@pytest.mark.parametrize("problem", [KeyError("device 3"), OSError("device 3"), ZeroDivisionError("device 3")])
def test_whatever_another_library_raises_is_the_cause_of_an_error_of_ours(problem: Exception) -> None:
    for value in all_foreign(problem):
        with pytest.raises(InputError, match=r"that cannot be read .*device 3.*, expected") as refused:
            take(value)
        assert refused.value.code == "input-type"
        assert refused.value.__cause__ is problem


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), SystemExit(3), MemoryError()])
def test_what_is_no_failure_of_another_library_passes_through_it(problem: BaseException) -> None:
    for value in all_foreign(problem):
        with pytest.raises(type(problem)) as passed:
            take(value)
        assert passed.value is problem


class Failing(Mapping[str, object]):
    """A mapping that fails when it is read."""

    def __getitem__(self, name: str) -> object:
        raise LookupError("gone")

    def __iter__(self) -> Iterator[str]:
        return iter("xy")

    def __len__(self) -> int:
        return 2


def test_a_mapping_that_fails_is_an_error_of_ours() -> None:
    with pytest.raises(
        InputError, match=r"out is a Failing that cannot be read \(LookupError: gone\), expected"
    ) as refused:
        plain_mapping(Failing(), "out", "a mapping", "output-mapping")
    assert refused.value.code == "output-mapping"


@pytest.mark.parametrize(
    "value",
    [
        np.array(["a", "ü"]),
        np.array(["a", "ü"], object),
        np.array([np.str_("a"), "ü"], object),
        np.array([b"a", "ü".encode()], object),
        np.array(["a", "ü"], np.dtypes.StringDType()),
        ["a", "ü"],
    ],
    ids=["unicode", "objects", "scalars", "bytes", "variable", "list"],
)
def test_texts_of_every_kind_become_str_objects(value: object) -> None:
    taken = take(value, STRING)
    assert_same(taken, np.array(["a", "ü"], object))
    assert {type(text) for text in taken.flat} == {str}


@pytest.mark.parametrize("value", [np.array([b"\xff"]), np.array([b"\xff"], object), [b"\xff"]])
def test_bytes_that_are_no_text_are_refused(value: object) -> None:
    with pytest.raises(InputError, match=r"cannot be read \(UnicodeDecodeError") as refused:
        take(value, STRING)
    assert refused.value.code == "input-type"


def test_a_single_text_has_rank_0() -> None:
    assert_same(take("abc", STRING), np.array("abc", object))


@pytest.mark.parametrize("value", [np.array([1, "a"], object), np.array([1.0]), [1, 2]])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(InputError) as refused:
        take(value, STRING)
    assert refused.value.code == "input-dtype"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.ones((2, 3), np.float32), "f32[2, 3]"),
        (np.array(1, ml_dtypes.bfloat16), "bf16[]"),
        (np.array(["a"]), "string[1]"),
        (np.ones(2, ">i4"), "i32[2] in foreign byte order"),
        (np.ones(2, "datetime64[s]"), "datetime64[s][2]"),
        (None, "a NoneType"),
    ],
)
def test_describe(value: object, text: str) -> None:
    assert describe(value) == text
