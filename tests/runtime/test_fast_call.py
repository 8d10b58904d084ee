"""Later calls at sizes that a first one has learned: straight-line code, which gives what the steps give."""

import pickle
from collections.abc import Callable

import numpy as np
import pytest

import onnxc
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.executable import Executable
from onnxc.runtime.host import MEANINGS
from onnxc.runtime.host.functions import FUNCTIONS
from onnxc.runtime.host.prepared import PREPARED
from onnxc.runtime.host.values import HostValue
from onnxc.runtime.load import make_executable
from onnxc.runtime.program import Host
from tests.runtime.programs import BIAS, SCALE, artifact, body, host, launch, program, vector
from tests.support.arrays import assert_same
from tests.support.models import model_from_text

X = np.array([[1, -2, 0.5], [4, 8, -1]], np.float32)
WORDS = np.array([["red", "blue"], ["", "rot"]], object)

HEADER = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 4]>'
MAPS = f"""{HEADER} main (float[N, 3] x) => (float[N, 3] y, seq(map(int64, float)) maps) {{
    y = Abs(x)
    maps = ai.onnx.ml.ZipMap<classlabels_int64s=[7, 8, 9]>(y)
}}"""
LABELS = f"""{HEADER} main (float[N, 3] x) => (string[N] label, string best)
<int64[1] shape = {{-1}}, int64 k = {{3}}> {{
    i = ArgMax<axis=1, keepdims=0>(x)
    label = ai.onnx.ml.LabelEncoder<keys_int64s=[0, 1, 2], values_strings=["a", "b", "c"]>(i)
    flat = Reshape(x, shape)
    j = ArgMax<axis=0, keepdims=0>(flat)
    column = Mod(j, k)
    best = ai.onnx.ml.LabelEncoder<keys_int64s=[0, 1, 2], values_strings=["a", "b", "c"]>(column)
}}"""
COLUMNS = f"""{HEADER} main (string[N, 2] words, float[N, 3] x) => (float[N, 5] y) {{
    code = ai.onnx.ml.LabelEncoder<keys_strings=["red", "blue"], values_int64s=[1, 2], default_int64=-5>(words)
    number = Cast<to=1>(code)
    y = Concat<axis=1>(number, x)
}}"""
"""What launches and functions of the host make together, with results of both."""


def later(exe: Executable, *inputs: object) -> object:
    exe(*inputs)
    return exe(*inputs)


def ready(exe: Executable, *inputs: object) -> bool:
    """Whether the call is one in straight-line code."""
    call = exe._fast_call
    return call is not None and call(*inputs) is not None


def compiled(text: str) -> Executable:
    return onnxc.compile(model_from_text(text), threads=1)


def test_maps_come_out_new_each_time() -> None:
    exe = compiled(MAPS)
    (y, maps), (other, others) = later(exe, X), exe(X)
    assert ready(exe, X)
    assert_same(y, np.abs(X))
    assert maps == others == tuple(dict(zip((7, 8, 9), row, strict=True)) for row in np.abs(X).tolist())
    assert type(maps) is tuple
    assert {type(element) for row in maps for element in row.values()} == {float}
    maps[0][7] = np.float32(100)
    assert others[0][7] == 1
    assert not np.shares_memory(y, other)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_labels_that_are_texts(rows: int) -> None:
    exe, x = compiled(LABELS), np.resize(X, (rows, 3))
    label, best = later(exe, x)
    assert ready(exe, x)
    assert (label.dtype, label.tolist()) == (np.dtype(object), ["abc"[column] for column in x.argmax(1)])
    assert (best.shape, best.item()) == ((), "abc"[x.argmax() % 3])


@pytest.mark.parametrize("convert", [lambda x: x, lambda x: x.astype(str), lambda x: x[::-1][::-1], np.asfortranarray])
def test_texts_of_both_kinds_go_in(convert: Callable[[np.ndarray], np.ndarray]) -> None:
    exe, words = compiled(COLUMNS), convert(WORDS)
    expected = np.concatenate([[[1, 2], [-5, -5]], X], 1).astype(np.float32)
    assert_same(later(exe, words, X), expected)
    assert ready(exe, words, X)
    assert_same(exe(WORDS.tolist(), X), expected)
    assert_same(exe(WORDS.astype("S"), X), expected)
    with pytest.raises(InputError, match="words"):
        exe(np.array([["red", 1]] * 2, object), X)


def test_what_had_to_be_copied_goes_in_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    exe = compiled(COLUMNS)
    expected = later(exe, WORDS, X)
    monkeypatch.setattr(exe._engine, "run", None)
    for x in (np.asfortranarray(X), X[::-1].copy()[::-1], np.hstack([X, X])[:, :3]):
        assert not ready(exe, WORDS, x)
        assert_same(exe(WORDS, x), expected)


def test_what_is_learned_is_for_these_shapes() -> None:
    exe = compiled(COLUMNS)
    later(exe, WORDS, X)
    assert not ready(exe, WORDS[:1], X[:1])
    assert not ready(exe, WORDS, X.astype(np.float64))
    with pytest.raises(InputError, match="N"):
        exe(WORDS, X[:1])


def after_affine(step: Host) -> Executable:
    """affine, and a function of the host over its result, which both are outputs."""
    content = body(3, [0], [1, 2, 2], [launch("affine", [0], [1]), step])
    return make_executable(artifact(program(content, outputs=(vector("y"), vector("z"), vector("w")))), threads=1)


def test_arrays_that_were_pickled_are_ready_and_those_of_another_order_of_bytes_are_not() -> None:
    exe = compiled(MAPS)
    pickled = pickle.loads(pickle.dumps(X))
    assert pickled.dtype is not X.dtype
    y, _ = later(exe, pickled)
    assert ready(exe, pickled)
    assert_same(y, np.abs(X))
    assert not ready(exe, X.astype(X.dtype.newbyteorder(">")))
    assert not ready(exe, X.view(np.int32))


def test_a_view_that_a_function_gives_is_copied_and_no_two_results_are_one() -> None:
    exe = after_affine(host("slice", [1], [2], starts=[0], shape=[{"size": "s[0]"}], steps=[1]))
    x = np.arange(4, dtype=np.float32)
    results = later(exe, x)
    assert ready(exe, x)
    for result in results:
        assert_same(result, x * np.float32(SCALE) + np.float32(BIAS))
        result[:] = 0


def test_what_does_not_fit_is_an_error_of_ours() -> None:
    exe = after_affine(host("slice", [1], [2], starts=[0], shape=[{"size": "s[0]"}], steps=[1]))
    x = np.arange(4, dtype=np.float32)
    later(exe, x)
    changed = after_affine(host("sequence_length", [1], [2]))
    for _ in range(2):
        with pytest.raises(DeviceError, match="a step does not take"):
            changed(x)


def test_what_a_function_refuses_names_its_node_in_later_calls_too() -> None:
    exe = compiled(f"""{HEADER} main (string[N] x) => (float[N] y) {{ y = Cast<to=1>(x) }}""")
    good, bad = np.array(["1.5"], object), np.array(["one"], object)
    for _ in range(3):
        assert_same(exe(good), np.array([1.5], np.float32))
        with pytest.raises(InputError, match=r"(?s)one.*-->"):
            exe(bad)
    assert ready(exe, good)


def test_sizes_from_data_go_by_the_steps() -> None:
    exe = compiled(
        f"""{HEADER} main (string[N] x) => (string[M] y, float[M] z) {{
        parts, counts = StringSplit<delimiter="">(x)
        y = Reshape(parts, shape)
        z = Cast<to=1>(y)
    }}""".replace(" {", " <int64[1] shape = {-1}> {", 1)
    )
    words = np.array(["1 2", "3"], object)
    with pytest.raises(InputError):
        exe(words)
    for text in ("1 2", "3 4 5", "6"):
        y, z = exe(np.array([text], object))
        assert y.tolist() == text.split()
        assert_same(z, np.array(text.split(), np.float32))


PREPARED_CASES: dict[str, list[tuple[list[np.ndarray], dict[str, object]]]] = {
    "gather": [
        ([np.array(["a", "b"], object), np.array(indices, np.int64)], {"axis": 0})
        for indices in (1, [1, 0, 7], [[0], [1]], [])
    ],
    "slice": [
        ([WORDS], {"starts": (1, 0), "shape": (2, 1), "steps": (-1, 1)}),
        ([np.array("a", object)], {"starts": (), "shape": (), "steps": ()}),
    ],
    "text_positions": [
        ([x, np.array(["red", "", "red"], object)], {}) for x in (WORDS, WORDS[:0], np.array("red", object))
    ],
    "zip_map": [([x, np.array([5, 3, 4])], {}) for x in (X, X[:0])]
    + [([X[:, :0], np.zeros(0, np.int64)], {}), ([np.ones((2, 70), np.float32), np.arange(70)], {})],
}


@pytest.mark.parametrize("name", sorted(PREPARED))
def test_a_prepared_function_gives_what_the_function_gives(name: str) -> None:
    function = FUNCTIONS[name] if name in FUNCTIONS else MEANINGS[name]
    for operands, attributes in PREPARED_CASES[name]:
        calls = [PREPARED[name](constants, attributes) for constants in ({}, dict(enumerate(operands)))]
        for call in calls:
            if call is not None:
                assert_alike(call(*operands), function(operands, attributes))
        assert any(calls) or name == "slice"


def assert_alike(actual: tuple[HostValue, ...], expected: tuple[HostValue, ...]) -> None:
    (one,), (other,) = actual, expected
    if isinstance(other, np.ndarray):
        assert isinstance(one, np.ndarray)
        assert_same(one, other)
    else:
        assert one == other


def test_a_model_without_symbols() -> None:
    exe = compiled(f"{HEADER} main (float[2, 3] x) => (float[2, 3] y) {{ y = Add(x, x) }}")
    for _ in range(3):
        assert_same(np.asarray(exe(X)), X + X)
    assert ready(exe, X)
