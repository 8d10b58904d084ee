"""Trainers: initializations, algorithms in order, their bindings, state, and the model written back."""

import copy
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

import onnxc
from onnxc.compiler.trainer import Trainer
from onnxc.runtime.errors import InputError, ModelError, OnnxcError, UnsupportedError
from tests.support.models import model_from_text

HEADER = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]>\n'
TARGETS = ("interpreter", "cpu")

SCALED = "g (float[N] x) => (float[N] y) <float[1] w = {2}, float[1] b = {1}> { s = Mul (x, w) y = Add (s, b) }"
"""y = w x + b"""

STEP = """a (float[N] t) => (float loss, float[1] w1) <float rate = {0.5}> {
    d = Sub (y, t) q = Mul (d, d) loss = ReduceMean <keepdims = 0> (q)
    dw = ai.onnx.preview.training.Gradient <xs = ["w"], zs = ["x", "t"], y = "loss"> (w, x, t)
    c = Mul (rate, dw) w1 = Sub (w, c) }"""

Info = Mapping[str, str | Mapping[str, str]]


def training_model(main: str, *infos: Info) -> onnx.ModelProto:
    """A model with training information: `algorithm`, `initialization`, `updates` and `starts` of each."""
    model = model_from_text(HEADER + main)
    for info in infos:
        made = model.training_info.add()
        graphs = {"algorithm": made.algorithm, "initialization": made.initialization}
        pairs = {"updates": made.update_binding, "starts": made.initialization_binding}
        for name, value in info.items():
            if isinstance(value, str):
                graphs[name].CopyFrom(onnx.parser.parse_graph(value))
            else:
                for key, output in value.items():
                    pairs[name].add(key=key, value=output)
    return model


def trainer(main: str, *infos: Info, target: str = "interpreter") -> Trainer:
    return onnxc.compile_training(training_model(main, *infos), target)


def floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def refusal(error: type[OnnxcError], main: str, *infos: Info) -> str:
    """The code of the error that compiling raises."""
    with pytest.raises(error) as caught:
        trainer(main, *infos)
    return caught.value.code


# Steps


@pytest.mark.parametrize("target", TARGETS)
def test_a_step_updates_what_the_next_one_reads(target: str) -> None:
    made = trainer(SCALED, {"algorithm": STEP, "updates": {"w": "w1"}}, target=target)
    feed = {"x": floats(1, 1), "t": floats(5, 5)}
    # w + 1 is 3 at first, 2 too little; a step with the rate 1/2 moves w by that.
    assert made.step(feed) == {"loss": 4}
    assert made.step(feed) == {"loss": 0}
    assert made.state()["w"].tolist() == [4]
    assert made.evaluate({"x": floats(1, 2, 3)})["y"].tolist() == [5, 9, 13]


def test_what_an_algorithm_declares_with_a_default_may_be_passed() -> None:
    step = STEP.replace("(float[N] t)", "(float[N] t, float rate)")
    made = trainer(SCALED, {"algorithm": step, "updates": {"w": "w1"}})
    assert [str(info) for info in made.inputs] == ["x: f32[N]", "t: f32[N]", "rate: f32[] (optional)"]
    made.step({"x": floats(1), "t": floats(5), "rate": np.float32(0.25)})
    assert made.state()["w"].tolist() == [3]


@pytest.mark.parametrize("target", TARGETS)
def test_updates_are_made_at_once(target: str) -> None:
    swap = "a () => (float[1] v, float[1] u) { v = Identity (w) u = Identity (b) }"
    made = trainer(SCALED, {"algorithm": swap, "updates": {"w": "u", "b": "v"}}, target=target)
    made.step({"x": floats(0)})
    assert (made.state()["w"].tolist(), made.state()["b"].tolist()) == ([1], [2])


@pytest.mark.parametrize("target", TARGETS)
def test_variables_may_change_places_without_a_node_and_share_a_value(target: str) -> None:
    exchange = {"algorithm": "a () => (float[1] w, float[1] b) {}", "updates": {"w": "b", "b": "w"}}
    both = {"algorithm": "a () => (float[1] v) { v = Add (w, b) }", "updates": {"w": "v", "b": "v"}}
    made = trainer(SCALED, exchange, both, target=target)
    made.step({"x": floats(0)}, algorithm=0)
    assert (made.state()["w"].tolist(), made.state()["b"].tolist()) == ([1], [2])
    made.step({"x": floats(0)}, algorithm=1)
    assert (made.state()["w"].tolist(), made.state()["b"].tolist()) == ([3], [3])


def test_algorithms_run_in_order_on_what_those_before_have_changed() -> None:
    first = {"algorithm": "a () => (float[1] u) { u = Add (w, w) }", "updates": {"w": "u"}}
    second = {"algorithm": "a () => (float[1] u, float[1] seen) { seen = Identity (w) u = Mul (w, b) }",
              "updates": {"b": "u"}}  # fmt: skip
    made = trainer(SCALED, first, second)
    assert made.step({"x": floats(0)})["seen"].tolist() == [4]
    assert made.state()["b"].tolist() == [4]
    made.step({"x": floats(0)}, algorithm=1)
    assert (made.state()["w"].tolist(), made.state()["b"].tolist()) == ([4], [16])
    with pytest.raises(InputError, match="below 2") as caught:
        made.step({"x": floats(0)}, algorithm=2)
    assert caught.value.code == "unknown-algorithm"


def test_ordinals_and_seeds_may_be_integers_of_numpy() -> None:
    made = trainer(SCALED, {"algorithm": "a () => (float[1] u) { u = Add (w, w) }", "updates": {"w": "u"}})
    made.initialize(np.uint32(7))
    made.step({"x": floats(0)}, algorithm=np.int64(0))
    assert made.state()["w"].tolist() == [4]
    assert made.state()["onnxc:random_state"][0] == 7
    for call in (lambda: made.initialize(True), lambda: made.step({"x": floats(0)}, algorithm="0")):  # type: ignore[arg-type]
        with pytest.raises(InputError, match="expected an integer") as caught:
            call()
        assert caught.value.code == "option-type"


def test_initializers_of_two_algorithms_may_have_one_name() -> None:
    count = {"algorithm": "a () => (float[1] u) <float[1] n = {0}> { u = Add (n, b) }", "updates": {"n": "u"}}
    made = trainer(SCALED, count, count)
    made.step({"x": floats(0)})
    made.step({"x": floats(0)}, algorithm=1)
    assert made.variables == ("training_info[0].n", "training_info[1].n")
    assert [made.state()[name].tolist() for name in made.variables] == [[1], [2]]


def test_an_output_of_the_model_may_be_an_update() -> None:
    main = "g (float[1] x) => (float[1] y) <float[1] mean = {8}> { s = Add (x, mean) h = Mul (s, k) y = Identity (h) }"
    main = main.replace("<float[1] mean", "<float[1] k = {0.5}, float[1] mean")
    made = trainer(main, {"updates": {"mean": "y"}})
    assert made.step({"x": floats(4)}) == {}
    assert made.evaluate({"x": floats(0)})["y"].tolist() == [3]


def test_graphs_within_an_algorithm_see_the_model() -> None:
    step = """a (bool c) => (float[1] u) { u = If (c) <then_branch = t () => (float[1] p) { p = Add (w, b) },
              else_branch = e () => (float[1] q) { q = Identity (w) }> }"""
    made = trainer(SCALED, {"algorithm": step, "updates": {"w": "u"}})
    made.step({"x": floats(0), "c": np.array(True)})
    made.step({"x": floats(0), "c": np.array(False)})
    assert made.state()["w"].tolist() == [3]


def test_a_step_that_fails_changes_nothing() -> None:
    step = "a (int64[1] n) => (float[M] u) { u = Expand (w, n) }"
    made = trainer(SCALED, {"algorithm": step, "updates": {"w": "u"}})
    with pytest.raises(InputError) as caught:
        made.step({"x": floats(0), "n": np.array([3])})
    assert (caught.value.code, made.state()["w"].tolist()) == ("training-update-shape", [2])
    made.step({"x": floats(0), "n": np.array([1])})
    with pytest.raises(InputError, match="there is no input 'z'"):
        made.step({"x": floats(0), "z": floats(0)})
    with pytest.raises(InputError, match='input "n" is missing'):
        made.step({"x": floats(0)})
    with pytest.raises(InputError, match="a list came"):
        made.evaluate([floats(0)])  # type: ignore[arg-type]


def test_an_input_that_is_missing_is_told_before_any_algorithm_runs() -> None:
    first = {"algorithm": "a () => (float[1] u) { u = Add (w, w) }", "updates": {"w": "u"}}
    second = {"algorithm": "c (float[1] n) => (float[1] v) { v = Add (b, n) }", "updates": {"b": "v"}}
    made = trainer(SCALED, first, second)
    before = {key: value.tolist() for key, value in made.state().items()}
    with pytest.raises(InputError, match=r'input "n" is missing; the inputs are x: f32\[\w*\], n: f32\[1\]') as caught:
        made.step({"x": floats(0)})
    assert (caught.value.code, str(caught.value).count("random_state")) == ("missing-input", 0)
    assert {key: value.tolist() for key, value in made.state().items()} == before
    made.step({"x": floats(0)}, algorithm=0)
    assert made.state()["w"].tolist() == [4]
    with pytest.raises(InputError, match='input "x" is missing'):
        made.evaluate({})


# Initializations and the random state

DRAWN = {
    "initialization": """i () => (float[1] first, float[1] zero) <float[1] zero = {0}> {
        first = RandomNormal <shape = [1], mean = 100.0> () }""",
    "starts": {"w": "first", "b": "zero"},
}


def test_an_initialization_sets_variables_of_the_model_and_the_algorithm() -> None:
    start = {
        "algorithm": "a () => (float[1] u) <float[1] n = {7}> { u = Add (n, n) }",
        "initialization": "i () => (float[1] c) { c = Constant <value = float[1] {5}> () }",
        "starts": {"n": "c"},
        "updates": {"n": "u"},
    }
    made = trainer(SCALED, DRAWN, start)
    made.step({"x": floats(0)})
    assert (made.state()["w"].tolist(), made.state()["n"].tolist()) == ([2], [14])
    made.initialize()
    assert 90 < made.state()["w"][0] < 110
    assert (made.state()["b"].tolist(), made.state()["n"].tolist()) == ([0], [5])


@pytest.mark.parametrize("target", TARGETS)
def test_draws_differ_from_step_to_step_and_follow_the_seed(target: str) -> None:
    noise = """a () => (float[1] u, float[8] kept, float[2] fixed) {
        ones = ConstantOfShape <value = float[1] {1}> (eight) kept = Dropout (ones, half, yes)
        fixed = RandomUniform <shape = [2], seed = 3.0> ()
        n = RandomNormal <shape = [1]> () u = Add (w, n) }"""
    main = SCALED.replace("<float[1] w", "<int64[1] eight = {8}, float half = {0.5}, bool yes = {1}, float[1] w")
    made = trainer(main, {**DRAWN, "algorithm": noise, "updates": {"w": "u"}}, target=target)

    def steps(seed: int) -> list[list[object]]:
        made.initialize(seed)
        drawn = [made.step({"x": floats(0)}) for _ in range(3)]
        return [[*(out[name].tobytes() for name in ("kept", "fixed") for out in drawn), made.state()["w"].item()]]

    (first,), (again,), (other,) = steps(1), steps(1), steps(2)
    assert first == again
    assert len({*first[:3]}) == 3
    assert len({*first[3:6]}) == 1
    assert other[6] != first[6]


@pytest.mark.parametrize("target", TARGETS)
def test_a_state_that_is_loaded_goes_on_with_the_same_bits(target: str, tmp_path: Path) -> None:
    noise = "a () => (float[1] u) { n = RandomNormal <shape = [1]> () u = Add (w, n) }"
    info = {**DRAWN, "algorithm": noise, "updates": {"w": "u"}}
    made, other = trainer(SCALED, info, target=target), trainer(SCALED, info, target=target)
    made.initialize(5)
    made.step({"x": floats(0)})
    np.savez(tmp_path / "state.npz", **made.state())
    made.step({"x": floats(0)})
    with np.load(tmp_path / "state.npz") as state:
        other.load_state(state)
    assert other.state()["w"].tobytes() != made.state()["w"].tobytes()
    other.step({"x": floats(0)})
    assert {name: value.tobytes() for name, value in other.state().items()} == {
        name: value.tobytes() for name, value in made.state().items()
    }


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"q": floats(1)}, "state-mapping"),
        ({"w": None}, "state-mapping"),
        ({"w": floats(1, 2)}, "state-shape"),
        ({"w": np.zeros(1, np.int64)}, "input-dtype"),
        ({"onnxc:random_state": np.zeros(3, np.int64)}, "state-shape"),
    ],
)
def test_a_state_must_be_that_of_these_variables(change: Mapping[str, np.ndarray | None], code: str) -> None:
    made = trainer(SCALED, DRAWN)
    state = {name: value for name, value in {**made.state(), **change}.items() if value is not None}
    with pytest.raises(InputError) as caught:
        made.load_state(state)
    assert caught.value.code == code
    assert made.state()["w"].tolist() == [2]
    with pytest.raises(InputError, match="a list came"):
        made.load_state([])  # type: ignore[arg-type]
    with pytest.raises(InputError) as caught:
        made.initialize(-1)
    assert caught.value.code == "seed-range"


@pytest.mark.parametrize("external", [None, "weights.bin"])
def test_the_model_is_written_with_its_variables(external: str | None, tmp_path: Path) -> None:
    count = "a () => (float[1] u, int64 m) <int64 n = {0}, int64 one = {1}> { u = Add (w, b) m = Add (n, one) }"
    made = trainer(SCALED, {"algorithm": count, "updates": {"w": "u", "n": "m"}})
    made.step({"x": floats(0)})
    made.save_model(tmp_path / "m.onnx", external_data=external)
    again = onnxc.compile_training(tmp_path / "m.onnx", "interpreter")
    assert (again.state()["w"].tolist(), again.state()["n"].tolist()) == ([3], 1)
    assert onnxc.compile(tmp_path / "m.onnx", "interpreter")(floats(2)).tolist() == [7]
    onnx.checker.check_model(tmp_path / "m.onnx")


# What is refused

U = "a () => (float[1] u) { u = Add (w, b) }"


@pytest.mark.parametrize(
    ("info", "code"),
    [
        ({"algorithm": U, "updates": {"s": "u"}}, "training-binding-key"),
        ({"algorithm": U, "updates": {"w": "s"}}, "training-binding-value"),
        ({"algorithm": U.replace("float[1] u", "float[2] v, float[1] u").replace("Add (w, b)", "Add (w, b) v = Concat "
          "<axis = 0> (u, u)"), "updates": {"w": "v"}}, "training-binding-type"),
        ({"algorithm": "a () => (double[1] u) { u = Cast <to = 11> (w) }", "updates": {"w": "u"}},
         "training-binding-type"),
        ({"initialization": "i () => (float z) { z = Constant <value = float {0}> () }", "starts": {"w": "z"}},
         "training-binding-type"),
        ({"starts": {"w": "z"}}, "training-without-initialization"),
    ],
)  # fmt: skip
def test_bindings_must_fit(info: Info, code: str) -> None:
    assert refusal(ModelError, SCALED, info) == code
    assert code in [finding.code for finding in onnxc.check(training_model(SCALED, info))]


def test_two_updates_of_one_initializer_are_a_warning() -> None:
    info = {"algorithm": U, "updates": {"w": "u"}}
    (finding,) = onnxc.check(training_model(SCALED, info, info))
    assert (finding.code, finding.severity) == ("shared-training-variable", "warning")


def test_a_variable_of_texts_is_refused() -> None:
    main = SCALED.replace("<float[1] w", '<string[1] n = {"a"}, float[1] w')
    swap = {"algorithm": "a () => (string[1] u) { u = Identity (n) }", "updates": {"n": "u"}}
    assert refusal(UnsupportedError, main, swap) == "unsupported-training-variable"


def test_what_has_no_derivative_is_named_with_its_node() -> None:
    square = onnxc.custom_operator(
        "Square",
        "mine",
        inputs=["x"],
        outputs=["y"],
        host="numpy:square",
        types=lambda node: [(node.input("x").dtype, node.input("x").shape)],
    )
    main = SCALED.replace("y = Add (s, b)", "y = mine.Square (s)")
    model = training_model(main, {"algorithm": STEP, "updates": {"w": "w1"}})
    model.opset_import.add(domain="mine", version=1)
    with pytest.raises(UnsupportedError) as caught:
        onnxc.compile_training(model, "interpreter", operators=[square])
    assert "custom_operator has no derivative" in str(caught.value)
    assert "node 1 (mine.Square-1)" in str(caught.value)


def test_options_that_cannot_be() -> None:
    model = training_model(SCALED, DRAWN)
    with pytest.raises(UnsupportedError) as unsupported:
        onnxc.compile_training(model, "cuda:sm_90")
    assert unsupported.value.code == "unsupported-training-target"
    with pytest.raises(InputError) as wrong:
        onnxc.compile_training(model_from_text(HEADER + SCALED))
    assert wrong.value.code == "no-training-information"
    with pytest.raises(InputError, match="dims names 'Q'"):
        onnxc.compile_training(model, "interpreter", dims={"Q": 3})


def test_algorithms_may_not_repeat_a_model_without_bounds() -> None:
    info = {"algorithm": U, "updates": {"w": "u"}}
    with pytest.raises(ModelError) as caught:
        onnxc.compile_training(training_model(SCALED, info, info), limits={"expanded_nodes": 1})
    assert caught.value.code == "expansion-too-large"


def test_what_an_operator_of_others_gives_is_not_held_against_a_variable() -> None:
    unknown = {"algorithm": "a () => (float[1] u) { u = other.Unknown (w) }", "updates": {"w": "u"}}
    model = training_model(SCALED, unknown)
    model.opset_import.add(domain="other", version=1)
    assert "training-binding-type" not in [finding.code for finding in onnxc.check(model)]


def test_a_variable_may_have_the_name_of_the_random_state() -> None:
    main = SCALED.replace("<float[1] w", '<float[1] "onnxc:random_state" = {5}, float[1] w')
    step = {"algorithm": 'a () => (float[1] u) { u = Add (w, "onnxc:random_state") }',
            "updates": {"onnxc:random_state": "u"}}  # fmt: skip
    made = trainer(main, step)
    made.step({"x": floats(0)})
    assert made.variables == ("onnxc:random_state_1",)
    assert (made.state()["onnxc:random_state_1"].tolist(), made.state()["onnxc:random_state"].tolist()) == ([7], [0, 1])


@pytest.mark.parametrize("work", [pickle.dumps, copy.deepcopy, copy.copy])
@pytest.mark.parametrize("target", TARGETS)
def test_a_trainer_is_not_copied_its_state_is(target: str, work: Callable[[Trainer], object]) -> None:
    made = trainer(SCALED, {"algorithm": STEP, "updates": {"w": "w1"}}, target=target)
    with pytest.raises(UnsupportedError, match="load_state") as caught:
        work(made)
    assert caught.value.code == "no-artifact"
