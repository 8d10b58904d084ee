"""Calls that no model can answer: each is refused for what is wrong with it, and the text says what came and what was
expected. The same on every target.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import onnxc
from onnxc.runtime.errors import OnnxcError
from onnxc.runtime.executable import Executable
from tests.frontend.model_texts import model
from tests.support.messages import read_messages, write_messages

MESSAGES = Path(__file__).with_name("invalid_calls.txt")
COMMAND = "python -m tests.runtime.test_invalid_calls"
TARGETS = ("cpu", "interpreter")
HEADER = '<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 3]>\n'

PAIR = "g (float[N, 3] x, float[M, 3] y) => (float[K, 3] z) { z = Concat<axis = 0>(x, y) }"
SQUARE = "g (float[N, N] x) => (float[N, N] y) { y = Neg(x) }"
WEIGHTED = "g (float[N] x, float[3] w) => (float[N] y) <float[3] w = {1, 2, 3}> { y = Mul(x, w) }"
BYTES = "g (int8[N] x) => (int8[N] y) { y = Abs(x) }"
LOOKUP = "g (float[N] x, int64[M] i) => (float[M] y) { y = Gather(x, i) }"
SHAPED = "g (float[N] x, int64[2] s) => (float[A, B] y) { y = Reshape(x, s) }"
FILLED = "g (int64[2] s) => (float[A, B] y) { y = ConstantOfShape(s) }"
ELEMENT = "g (seq(float[N]) s, int64 k) => (float[M] y) { y = SequenceAt(s, k) }"
TEXTS = "g (string[N] s) => (float[N] y) { y = Cast<to = 1>(s) }"
PIECES = "g (float[N] x, int64[K] k) => (seq(float[M]) y) { y = SplitToSequence(x, k) }"
TABLE = 'g (map(int64, float) m) => (float[1, K] y) { y = ai.onnx.ml.CastMap<map_form = "SPARSE", max_map = 3>(m) }'
SPARSE = "g (sparse_tensor(float[N, 3]) s, float[N] x) => (sparse_tensor(float[N, 3]) s, float[N] y) { y = Neg(x) }"
SIGNAL = "g (float[1, N, C] x, int64 n) => (float[1, M, 2] y) { y = DFT<onesided = 1>(x, n) }"

X = np.ones((2, 3), np.float32)
V = np.ones(3, np.float32)
PLACES = np.array([0, 2, 5])
FROZEN = np.ones(3, np.float32)
FROZEN.flags.writeable = False

Call = Callable[[Executable], object]


@dataclass(frozen=True)
class Case:
    """A call of the executable of a model."""

    code: str
    text: str
    call: Call
    options: dict[str, object] = field(default_factory=dict)
    targets: tuple[str, ...] = TARGETS


class OnDevice:
    """An array that lies on a device."""

    def __dlpack__(self) -> object:
        raise AssertionError

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


CASES: dict[str, Case] = {
    # How many, which, by what name
    "too few by position": Case("input-count", PAIR, lambda exe: exe(X)),
    "too many by position": Case("input-count", PAIR, lambda exe: exe(X, X, X)),
    "a mapping by position": Case("input-count", PAIR, lambda exe: exe({"x": X, "y": X})),
    "none by position": Case("input-count", PAIR, lambda exe: exe()),
    "one left out by name": Case("missing-input", PAIR, lambda exe: exe.run({"x": X})),
    "one that is None": Case("missing-input", PAIR, lambda exe: exe.run({"x": X, "y": None})),
    "an unknown name": Case("unknown-input", PAIR, lambda exe: exe.run({"x": X, "y": X, "q": X})),
    "a name that is no text": Case("unknown-input", PAIR, lambda exe: exe.run({1: X, "y": X})),  # type: ignore[dict-item]
    "a constant of the model": Case("frozen-input", WEIGHTED, lambda exe: exe.run({"x": V, "w": V})),
    "a list in place of a mapping": Case("input-mapping", PAIR, lambda exe: exe.run([X, X])),  # type: ignore[arg-type]
    "an array in place of a mapping": Case("input-mapping", BYTES, lambda exe: exe.run(X)),  # type: ignore[arg-type]
    # What is no array
    "an object": Case("input-type", PAIR, lambda exe: exe(X, object())),
    "a dict in place of an array": Case("input-type", PAIR, lambda exe: exe(X, {"a": 1})),
    "bytes": Case("input-type", PAIR, lambda exe: exe(X, b"abc")),
    "an array in place of a sequence": Case("input-type", ELEMENT, lambda exe: exe(V, np.array(0))),
    "a list in place of a map": Case("input-type", TABLE, lambda exe: exe([1.0])),
    "an array in place of a sparse tensor": Case("input-type", SPARSE, lambda exe: exe(X, V[:2])),
    "an array on a device": Case("input-device", PAIR, lambda exe: exe(X, OnDevice())),
    # Element types
    "doubles for floats": Case("input-dtype", PAIR, lambda exe: exe(X, X.astype(np.float64))),
    "integers for floats": Case("input-dtype", PAIR, lambda exe: exe(X.astype(np.int32), X)),
    "complex numbers for floats": Case("input-dtype", PAIR, lambda exe: exe(X, X.astype(np.complex64))),
    "dates": Case("input-dtype", PAIR, lambda exe: exe(X, np.zeros((2, 3), "datetime64[s]"))),
    "records": Case("input-dtype", PAIR, lambda exe: exe(X, np.zeros((2, 3), [("a", "f4")]))),
    "Python floats for integers": Case("input-dtype", BYTES, lambda exe: exe([1.5])),
    "Python bools for integers": Case("input-dtype", BYTES, lambda exe: exe([True])),
    "numbers for texts": Case("input-dtype", TEXTS, lambda exe: exe(np.array([1, 2]))),
    "a number among texts": Case("input-dtype", TEXTS, lambda exe: exe(np.array(["1", 2], object))),
    "a text key for a number": Case("input-dtype", TABLE, lambda exe: exe({"a": np.float32(1)})),
    "a text in a sequence of floats": Case("input-dtype", ELEMENT, lambda exe: exe([V, "a"], np.array(0))),
    "sparse doubles for floats": Case(
        "input-dtype", SPARSE, lambda exe: exe(onnxc.SparseTensor(V.astype(np.float64), PLACES, (2, 3)), V[:2])
    ),
    "Python integers that are too large": Case("input-range", BYTES, lambda exe: exe([1, 300])),
    "Python integers that are too small": Case("input-range", BYTES, lambda exe: exe([-129])),
    # Shapes
    "a vector for a matrix": Case("input-rank", PAIR, lambda exe: exe(X, V)),
    "a scalar for a vector": Case("input-rank", WEIGHTED, lambda exe: exe(np.float32(1))),
    "a sparse vector for a matrix": Case(
        "input-rank", SPARSE, lambda exe: exe(onnxc.SparseTensor(V, PLACES, (6,)), V[:2])
    ),
    "sparse rows for another size of one name": Case(
        "sizes-disagree", SPARSE, lambda exe: exe(onnxc.SparseTensor(V, PLACES, (3, 3)), V[:2])
    ),
    "sparse values of two axes": Case(
        "sparse-values", SPARSE, lambda exe: exe(onnxc.SparseTensor(X, PLACES[:2], (2, 3)), V[:2])
    ),
    "a sparse shape that is none": Case(
        "sparse-shape", SPARSE, lambda exe: exe(onnxc.SparseTensor(V, PLACES, (-2, 3)), V[:2])
    ),
    "fewer sparse indices than values": Case(
        "sparse-indices", SPARSE, lambda exe: exe(onnxc.SparseTensor(V, PLACES[:2], (2, 3)), V[:2])
    ),
    "a sparse index that is too large": Case(
        "sparse-index-range", SPARSE, lambda exe: exe(onnxc.SparseTensor(V, PLACES + 1, (2, 3)), V[:2])
    ),
    "sparse indices that descend": Case(
        "sparse-index-order", SPARSE, lambda exe: exe(onnxc.SparseTensor(V, PLACES[::-1], (2, 3)), V[:2])
    ),
    "another fixed size": Case("input-shape", PAIR, lambda exe: exe(X, np.ones((2, 4), np.float32))),
    "an empty axis for a fixed size": Case("input-shape", PAIR, lambda exe: exe(X, np.ones((2, 0), np.float32))),
    "two sizes of one name": Case("sizes-disagree", SQUARE, lambda exe: exe(X)),
    "a size above the range": Case("size-out-of-range", PAIR, lambda exe: exe(X, X), {"dims": {"N": (0, 1)}}),
    "a size below the range": Case("size-out-of-range", PAIR, lambda exe: exe(X, X), {"dims": {"M": (4, None)}}),
    "a size that was fixed": Case("input-shape", PAIR, lambda exe: exe(X, X), {"dims": {"N": 5}}),
    "sizes that do not broadcast": Case("sizes-disagree", WEIGHTED, lambda exe: exe(np.ones(2, np.float32))),
    # Where results go
    "an unknown output": Case("unknown-output", BYTES, lambda exe: exe.run({"x": [1]}, out={"z": V})),
    "a list in place of outputs": Case(
        "output-mapping",
        BYTES,
        lambda exe: exe.run({"x": [1]}, out=[V]),  # type: ignore[arg-type]
    ),
    "an output of another type": Case("output-type", BYTES, lambda exe: exe.run({"x": [1]}, out={"y": V})),
    "an output that is a list": Case("output-type", BYTES, lambda exe: exe.run({"x": [1]}, out={"y": [0]})),
    "an output that cannot be written to": Case(
        "output-type", WEIGHTED, lambda exe: exe.run({"x": V}, out={"y": FROZEN})
    ),
    "an output of another shape": Case(
        "output-shape", WEIGHTED, lambda exe: exe.run({"x": V}, out={"y": np.ones(4, np.float32)})
    ),
    "a seed": Case("seed-range", BYTES, lambda exe: exe.run({"x": [1]}, seed=-1)),
    "a stream": Case("stream-without-device", BYTES, lambda exe: exe.run({"x": [1]}, stream=1)),
    # What data tells
    "an index beyond the end": Case(
        "index-out-of-range", LOOKUP, lambda exe: exe(V, np.array([0, 3])), targets=("cpu",)
    ),
    "an index before the start": Case(
        "index-out-of-range", LOOKUP, lambda exe: exe(V, np.array([-4])), targets=("cpu",)
    ),
    "a shape of more elements": Case("sizes-disagree", SHAPED, lambda exe: exe(V, np.array([2, 2]))),
    "a negative shape": Case("sizes-disagree", FILLED, lambda exe: exe(np.array([-1, 2]))),
    "more than memory holds": Case("out-of-memory", FILLED, lambda exe: exe(np.array([1 << 20, 1 << 20]))),
    "no elements, and strides that nothing counts": Case(
        "out-of-memory", FILLED, lambda exe: exe(np.array([0, 1 << 62]))
    ),
    "a position beyond a sequence": Case("sequence-position", ELEMENT, lambda exe: exe([V], np.array(1))),
    "a join of no arrays": Case(
        "empty-sequence",
        "g (seq(float[N]) s) => (float[M] y) { y = ConcatFromSequence<axis = 0>(s) }",
        lambda exe: exe([]),
    ),
    "the element of nothing": Case(
        "absent-optional",
        "g (optional(float[N]) s) => (float[N] y) { y = OptionalGetElement(s) }",
        lambda exe: exe(None),
    ),
    "pieces of another length": Case("split-size", PIECES, lambda exe: exe(V, np.array([3, 3]))),
    "a text that is no number": Case("text-not-a-number", TEXTS, lambda exe: exe(np.array(["1", "one"], object))),
    "a transform of length 0": Case("sizes-disagree", SIGNAL, lambda exe: exe(V.reshape(1, 3, 1), np.array(0))),
    "half a transform of complex numbers": Case(
        "sizes-disagree", SIGNAL, lambda exe: exe(np.ones((1, 3, 2), np.float32), np.array(3))
    ),
    "a negative key": Case("map-key", TABLE, lambda exe: exe({-1: np.float32(1)})),
    "another rank than is declared": Case(
        "declared-shape",
        "g (seq(float[]) s, int64 k) => (float[M, 2] y) { y = SequenceAt(s, k) }",
        lambda exe: exe([V], np.array(0)),
    ),
}


@cache
def executable(name: str, target: str) -> Executable:
    case = CASES[name]
    return onnxc.compile(model(case.text, header=HEADER), target, **case.options)  # type: ignore[arg-type]


def refusal(name: str, target: str) -> OnnxcError:
    with pytest.raises(OnnxcError) as caught:
        CASES[name].call(executable(name, target))
    return caught.value


RUNS = [(name, target) for name, case in CASES.items() for target in case.targets]


@pytest.mark.parametrize(("name", "target"), RUNS)
def test_an_invalid_call_is_refused_for_what_is_wrong(name: str, target: str) -> None:
    problem = refusal(name, target)
    assert problem.code == CASES[name].code
    assert str(problem).startswith(f"error[{problem.code}]: ")


@pytest.mark.parametrize("name", CASES)
def test_the_message_is_as_recorded(name: str) -> None:
    assert str(refusal(name, "cpu")) == read_messages(MESSAGES).get(name), f"look at the change, then run `{COMMAND}`"


def test_nothing_is_recorded_that_is_not_tested() -> None:
    assert list(read_messages(MESSAGES)) == list(CASES)


def test_ragged_lists_are_refused() -> None:
    """The text quotes NumPy, whose words differ from version to version."""
    with pytest.raises(
        OnnxcError, match=r'input "y" is a list that cannot be read \(.*\), expected f32\[M, 3\]'
    ) as caught:
        executable("an object", "cpu")(X, [[1.0], [1.0, 2.0]])
    assert caught.value.code == "input-type"


def test_an_executable_is_none_the_worse_for_it() -> None:
    for name in ("an object", "too few by position", "another fixed size"):
        refusal(name, "cpu")
    assert executable("an object", "cpu")(X, X).shape == (4, 3)


if __name__ == "__main__":
    write_messages(MESSAGES, {name: str(refusal(name, "cpu")) for name in CASES})
    sys.stdout.write(f"{len(CASES)} messages, {len({case.code for case in CASES.values()})} codes\n")
