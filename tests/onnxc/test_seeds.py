"""`run(seed=)`: what draws without a seed of its own gives other numbers, in each call and round as it is asked."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, helper

import onnxc
import onnxc.compat.onnxruntime as ort
from onnxc.runtime.errors import InputError, OnnxcError
from onnxc.runtime.executable import Executable
from onnxc.runtime.random_state import mixed_words, seed_words
from tests.sharding.annotated import CONFIG, annotate, graph_model, set_stage
from tests.support.models import model_from_text

HEAD = '<ir_version: 8, opset_import: ["": 18]>'

# Uniform, not normal: the last bits of a logarithm are not the same for every target.
DRAWS = f"""{HEAD}
main (float[N] x, bool c) => (float[N] drawn, float[N] fixed,
      float[2] branch, float[K, R, 2] rounds, float[3, 2] scan) {{
    drawn = RandomUniformLike (x)
    fixed = RandomUniformLike <seed = 2.0> (x)
    branch = If (c) <
        then_branch = yes () => (float[2] a) {{ a = RandomUniform <shape = [2]> () }},
        else_branch = no () => (float[2] b) {{ b = RandomUniform <shape = [2]> () }}>
    n = Constant <value = int64 {{3}}> ()
    t = Constant <value = bool {{1}}> ()
    rounds = Loop (n, t) <body = outer (int64 i, bool k) => (bool kept, float[R, 2] inner) {{
        kept = Identity (k)
        inner = Loop (n, k) <body = nested (int64 j, bool l) => (bool lasts, float[2] d) {{
            lasts = Identity (l)
            d = RandomUniform <shape = [2]> ()
        }}>
    }}>
    e = Constant <value = float[3] {{0, 0, 0}}> ()
    scan = Scan <num_scan_inputs = 1, body = each (float element) => (float[2] s) {{
        s = RandomUniform <shape = [2]> ()
    }}> (e)
}}"""
BEFORE = np.float32([0.0400849, 0.202036202, 0.549089372, 0.156532109, 0.125099361])
FEED = {"x": np.zeros(5, np.float32), "c": np.array(True)}


def drawn(exe: Executable, seed: int | None, feed: dict[str, np.ndarray] = FEED) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in exe.run(feed, seed=seed).items()}


def expect_equal(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> None:
    for name, value in left.items():
        np.testing.assert_array_equal(value, right[name], err_msg=name, strict=True)


@pytest.fixture(scope="module")
def exe() -> Executable:
    return onnxc.compile(model_from_text(DRAWS))


def test_a_seed_decides_every_draw_but_those_that_have_their_own(exe: Executable) -> None:
    three, four, none = drawn(exe, 3), drawn(exe, 4), drawn(exe, None)
    expect_equal(three, drawn(exe, 3))
    for name in ("drawn", "branch", "rounds", "scan"):
        values = [each[name].ravel() for each in (three, four, none, drawn(exe, 0))]
        assert len(np.unique(np.concatenate(values))) == len(np.unique(none[name])) + 3 * values[0].size, name
    np.testing.assert_array_equal(three["fixed"], none["fixed"])


def test_without_a_seed_calls_and_rounds_draw_the_same(exe: Executable) -> None:
    none = drawn(exe, None)
    # The numbers that the model gave before calls had seeds.
    np.testing.assert_array_equal(none["drawn"], BEFORE)
    assert (none["rounds"] == none["rounds"][0, 0]).all()
    for index, value in enumerate(exe(*FEED.values())):
        np.testing.assert_array_equal(np.asarray(value), [*none.values()][index])


def test_branches_have_their_own_numbers(exe: Executable) -> None:
    other = drawn(exe, 3, {**FEED, "c": np.array(False)})["branch"]
    assert not np.isin(other, drawn(exe, 3)["branch"]).any()


def test_the_interpreter_threads_files_and_open_weights_draw_the_same(exe: Executable, tmp_path: Path) -> None:
    model, path = model_from_text(DRAWS), tmp_path / "m.onnxc"
    exe.save(path)
    others = [onnxc.load(path), onnxc.compile(model, target="interpreter")]
    others += [onnxc.compile(model, threads=1), onnxc.compile(model, freeze_params=False)]
    for other in others:
        assert [info.name for info in other.inputs] == ["x", "c"]
        for seed in (None, 7, 2**64 - 1):
            expect_equal(drawn(other, seed), drawn(exe, seed))


def test_elements_of_a_map_and_batches_of_an_old_scan_draw_their_own() -> None:
    mapped = onnxc.compile(model_from_text(f"""{HEAD}
        main (seq(float[2]) s) => (seq(float[2]) y) {{
            y = SequenceMap (s) <body = each (float[2] e) => (float[2] d) {{ d = RandomUniformLike (e) }}>
        }}"""))  # fmt: skip
    first, second = mapped.run({"s": [np.zeros(2, np.float32)] * 2}, seed=1)["y"]
    assert len(np.unique([first, second])) == 4
    old = onnxc.compile(model_from_text("""<ir_version: 3, opset_import: ["": 8]>
        main (float[2, 3, 1] x) => (float[2, 3, 1] y) {
            y = Scan <num_scan_inputs = 1, body = each (float[1] e) => (float[1] d) {
                d = RandomUniformLike (e)
            }> ("", x)
        }"""))  # fmt: skip
    assert len(np.unique(old.run({"x": np.zeros((2, 3, 1), np.float32)}, seed=1)["y"])) == 6


def two_products() -> ModelProto:
    nodes = [
        helper.make_node("RandomUniformLike", ["x"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["h"]),
        helper.make_node("RandomUniformLike", ["h"], ["q"]),
        helper.make_node("Floor", ["h"], ["whole"]),
        helper.make_node("Add", ["whole", "q"], ["y"]),
    ]
    return graph_model(nodes, {"x": ["N", 4]}, {"y": ["N", 4], "q": ["N", 4]}, {"w": np.eye(4, dtype=np.float32)}, 2)


def columns() -> ModelProto:
    model = two_products()
    annotate(model.graph.node[1], "w", {1: 2}, (0, 1))
    return model


def stages() -> ModelProto:
    model = two_products()
    for ordinal, node in enumerate(model.graph.node):
        set_stage(node, int(ordinal > 1))
    return model


@pytest.mark.parametrize("divided", [columns, stages])
def test_devices_draw_what_one_draws(divided: Callable[[], ModelProto], tmp_path: Path) -> None:
    model = divided()
    feed = {"x": np.zeros((5, 4), np.float32)}
    one, several = onnxc.compile(two_products()), onnxc.compile(model, config=CONFIG)
    made = [several]
    if divided is columns:
        several.save(tmp_path / "m.onnxc")
        made.append(onnxc.load(tmp_path / "m.onnxc", devices="cpu:2"))
    for other in made:
        assert [info.name for info in other.inputs] == ["x"]
        for seed in (None, 5):
            expect_equal(drawn(one, seed, feed), drawn(other, seed, feed))


@pytest.mark.parametrize("seed", [-1, 2**64, True, 1.0, "3"])
def test_a_seed_is_an_integer_of_64_bits(seed: int, exe: Executable) -> None:
    with pytest.raises(InputError, match="seed-range"):
        exe.run(FEED, seed=seed)
    with pytest.raises(InputError, match="seed-range"):
        onnxc.compile(model_from_text(f"{HEAD} m (float[N] x) => (float[N] y) {{ y = Neg (x) }}")).run({}, seed=seed)


def test_no_seed_has_the_words_of_no_seed() -> None:
    unlucky = -0x9E3779B97F4A7C15 % 2**64
    assert not mixed_words(unlucky).any()
    assert seed_words(unlucky).any()


def test_the_random_state_is_no_input_and_no_weight(exe: Executable) -> None:
    words = {"onnxc:random_state": np.ones(2, np.uint32)}
    with pytest.raises(InputError, match="unknown-input"):
        exe.run({**FEED, **words})
    with pytest.raises(InputError, match="unknown-weight"):
        exe.with_weights(words)
    with pytest.raises(InputError, match="input-count"):
        exe(*FEED.values(), *words.values())
    taken = f'{HEAD} m (uint32[2] "onnxc:random_state") => (float[2] y) {{ y = RandomUniform <shape = [2]> () }}'
    with pytest.raises(OnnxcError, match="reserved-name"):
        onnxc.compile(model_from_text(taken))


def test_sessions_of_onnx_runtime_draw_by_the_seed_of_their_making(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxc.compat.onnxruntime.seeds._chosen", {})
    data = model_from_text(f"{HEAD} m () => (float[2] y) {{ y = RandomUniform <shape = [2]> () }}").SerializeToString()
    unseeded = ort.InferenceSession(data)
    ort.set_seed(-4)
    left, right = ([ort_run(session) for _ in range(2)] for session in (ort.InferenceSession(data) for _ in range(2)))
    assert left == right
    assert left[0] != left[1]
    assert ort_run(unseeded) == ort_run(unseeded) != left[0]


def ort_run(session: ort.InferenceSession) -> list[float]:
    (y,) = session.run(None, {})
    return [float(value) for value in np.asarray(y)]
