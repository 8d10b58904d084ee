"""Sizes that a model declares of values between, where only data decides them: facts, which a call checks."""

import numpy as np
import pytest

import onnxc
from onnxc.runtime.errors import InputError
from onnxc.runtime.executable import Executable
from tests.operators.host_models import TARGETS
from tests.support.arrays import assert_same
from tests.support.models import model_from_text

X = np.array([1, 0, 2, 0, 3], np.float32)

BEHIND = {
    "NonZero": "g (float[M] x) => (int64[1, L] y) <int64[1, 3] v> { v = NonZero (x) y = Neg (v) }",
    "Reshape": """g (float[M] x, int64[2] s) => (float[K, L] y) <float[1, 5] v> {
        v = Reshape (x, s) y = Identity (v)
    }""",
    "If": """g (float[M] x, bool c) => (int64[1, L] y) <int64[1, 3] v> {
        v = If (c) <then_branch = t () => (int64[A, B] a) { a = NonZero (x) },
                    else_branch = e () => (int64[C, D] b) { n = Neg (x) b = NonZero (n) }>
        y = Neg (v)
    }""",
    "Loop": """g (float[M] x, int64 n) => (int64[A, B] y) <int64[2, 1] v> {
        t = Constant <value = bool {1}> () v = Loop (n, t) <body = b (int64 i, bool c) => (bool d, int64[1] r) {
            d = Constant <value = bool {1}> () one = Constant <value_ints = [1]> () r = Reshape (i, one)
        }>
        y = Neg (v)
    }""",
}
GIVEN = {"x": X, "s": np.array([1, 5]), "c": np.array(True), "n": np.array(2)}
WRONG = {"x": X[:3], "s": np.array([3, 1]), "c": np.array(False), "n": np.array(4)}
CHECKS = {"NonZero": "3 and 2", "Reshape": "1 and 3", "If": "3 and 2", "Loop": "2 and 4"}


def compiled(text: str, target: str = "cpu") -> Executable:
    return onnxc.compile(model_from_text(f'<ir_version: 10, opset_import: ["" : 21]>\n{text}'), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("operator", BEHIND)
def test_a_declared_size_is_a_fact_that_the_call_checks(operator: str, target: str) -> None:
    executable = compiled(BEHIND[operator], target)
    names = [info.name for info in executable.inputs]
    right = executable.run({name: GIVEN[name] for name in names})["y"]
    undeclared = compiled(BEHIND[operator].replace("[1, 3] v", "[P, Q] v").replace("[1, 5] v", "[P, Q] v"), target)
    assert_same(right, undeclared.run({name: GIVEN[name] for name in names})["y"])
    with pytest.raises(
        InputError, match=rf"axis . of v is declared .*here {CHECKS[operator]}.*\n.*{operator}-"
    ) as caught:
        executable.run({name: WRONG[name] for name in names})
    assert caught.value.code == "sizes-disagree"


def test_what_follows_has_the_declared_size() -> None:
    assert str(compiled(BEHIND["NonZero"]).outputs[0]) == "y: i64[1, 3]"
    assert str(compiled(BEHIND["Reshape"]).outputs[0]) == "y: f32[1, 5]"


@pytest.mark.parametrize("target", TARGETS)
def test_a_declared_name_is_the_size_that_an_input_has(target: str) -> None:
    executable = compiled("g (float[M] x) => (int64[1, L] y) <int64[1, M] v> { v = NonZero (x) y = Neg (v) }", target)
    assert str(executable.outputs[0]) == "y: i64[1, M]"
    assert_same(executable.run({"x": X[::2]})["y"], np.array([[0, -1, -2]]))
    with pytest.raises(InputError, match=r"axis 1 of v is declared M, and has another size \(here 5 and 3\)"):
        executable.run({"x": X})


@pytest.mark.parametrize("target", TARGETS)
def test_values_declared_by_one_name_have_one_size(target: str) -> None:
    text = """g (float[M] x, float[N] z) => (int64[1, L] y) <int64[1, K] v, int64[1, K] w> {
        v = NonZero (x) w = NonZero (z) y = Concat <axis = 1> (v, w)
    }"""
    executable = compiled(text, target)
    assert_same(executable.run({"x": X, "z": X[::2]})["y"], np.array([[0, 2, 4, 0, 1, 2]]))
    with pytest.raises(InputError, match=r"axis 1 of w is declared .*here 3 and 2"):
        executable.run({"x": X, "z": X[:3]})


@pytest.mark.parametrize("target", TARGETS)
def test_sizes_declared_of_outputs_are_no_facts(target: str) -> None:
    executable = compiled("g (float[M] x) => (int64[1, 4] y) { y = NonZero (x) }", target)
    assert_same(executable.run({"x": X})["y"], np.array([[0, 2, 4]]))
