"""A profile: what ran, where it came from, and that its times are those of the calls."""

import io
import json
import re

import numpy as np
import pytest
from rich.console import Console

import onnxc
from onnxc.command_line.report import report_parts
from onnxc.runtime.executable import Executable
from onnxc.runtime.native.launch_log import LaunchLog
from onnxc.runtime.profiling.graphs import kernel_and_node_graphs
from onnxc.runtime.profiling.limits import Bandwidth, Limits
from onnxc.runtime.profiling.profile import Profile
from onnxc.runtime.profiling.report_entries import factor_of
from onnxc.runtime.program import JsonValue
from tests.support.models import model_from_text

PRODUCTS = """
<ir_version: 10, opset_import: ["" : 21]>
products (float[N, 256] x) => (float[N, 256] y)
<float[256, 256] w = {WEIGHTS}> {
   [first] p = MatMul (x, w)
   [rectify] r = Relu (p)
   [second] q = MatMul (r, w)
   [sum] s = ReduceSum <keepdims = 1> (q)
   [scale] y = Mul (q, s)
}
"""
LOOP = """
<ir_version: 10, opset_import: ["" : 21]>
rounds (float[N, 64] x, int64 times) => (float[N, 64] y) {
   [go] go = Constant <value = bool {1}> ()
   [turn] y = Loop (times, go, x) <body = body (int64 i, bool more, float[N, 64] h) => (bool again, float[N, 64] g) {
      [keep] again = Identity (more)
      [wave] g = Sin (h)
   }>
}
"""
TEXTS = """
<ir_version: 10, opset_import: ["" : 20]>
texts (string[N] a, string[N] b, float[N] x) => (string[N] joined, float[N] y) {
   [join] joined = StringConcat (a, b)
   [wave] y = Sin (x)
}
"""
TEXTS_IN_ROUNDS = """
<ir_version: 10, opset_import: ["" : 20]>
texts (string[N] a, int64 times) => (string[N] y) {
   [go] go = Constant <value = bool {1}> ()
   [turn] y = Loop (times, go, a) <body = body (int64 i, bool more, string[N] h) => (bool again, string[N] g) {
      [keep] again = Identity (more)
      [join] g = StringConcat (h, h)
   }>
}
"""
X = np.linspace(-1, 1, 3 * 256, dtype=np.float32).reshape(3, 256)


@pytest.fixture(scope="module")
def products() -> Executable:
    weights = ", ".join(str(k % 7 - 3) for k in range(256 * 256))
    return onnxc.compile(model_from_text(PRODUCTS.replace("WEIGHTS", weights)), threads=2, cache=False)


@pytest.fixture(scope="module")
def profile(products: Executable) -> Profile:
    return products.profile(X, calls=9)


def test_a_kernel_names_the_nodes_that_it_came_from_and_what_decided(profile: Profile) -> None:
    first, second = [kernel for kernel in profile.kernels if kernel.kind == "contraction"]
    names = [re.findall(r'"(\w+)" \(', node)[0] for node in first.nodes]
    assert names == ["first", "rectify"]
    assert first.operators == ("ai.onnx.MatMul-13", "ai.onnx.Relu-14")
    assert re.findall(r'"(\w+)" \(', second.nodes[0]) == ["second"]
    assert (first.algorithm, "packed" in first.why) == ("panels", True)


def test_work_is_that_of_the_sizes_of_the_call(profile: Profile) -> None:
    first = next(kernel for kernel in profile.kernels if kernel.kind == "contraction")
    assert profile.sizes == {"N": 3}
    assert first.flops == 2 * 3 * 256 * 256 + 3 * 256
    # Weights, x, and the result.
    assert first.bytes == 4 * (256 * 256 + 3 * 256 + 3 * 256)
    assert first.flops_per_second == pytest.approx(first.flops / first.seconds)


def test_times_add_up_to_the_call(profile: Profile) -> None:
    assert sum(kernel.seconds for kernel in profile.kernels) == pytest.approx(profile.kernel_seconds)
    whole = profile.kernel_seconds + profile.host_seconds + profile.between_seconds
    assert whole == pytest.approx(profile.recorded_seconds)
    assert sum(part.seconds for part in profile.between) == pytest.approx(profile.between_seconds)
    assert profile.accounted_share == pytest.approx(whole / profile.call_seconds)
    # A clock that counts in steps of 10 ns may see no time in a kernel of as much.
    assert all(0 <= kernel.least_seconds <= kernel.seconds > 0 for kernel in profile.kernels)
    for totals in (profile.by_node(), profile.by_operator()):
        assert sum(total.seconds for total in totals) == pytest.approx(profile.kernel_seconds)
    assert {total.name for total in profile.by_operator()} >= {"ai.onnx.MatMul-13", "ai.onnx.ReduceSum-13"}


def test_events_lie_within_the_call_and_launches_follow_one_another(profile: Profile) -> None:
    launches = [event for event in profile.events if event.kind == "launch"]
    assert [event.launch for event in launches] == [kernel.launch for kernel in profile.kernels]
    ends = [event.start_us + event.length_us for event in launches]
    assert all(end <= after.start_us + 0.5 for end, after in zip(ends, launches[1:], strict=False))
    assert launches[0].start_us >= -0.5


def test_calls_are_what_they_were(products: Executable, profile: Profile) -> None:
    before = products.stats.calls
    np.testing.assert_array_equal(products(X), products.run({"x": X})["y"])
    assert products.stats.calls == before + 2
    assert profile.lost_records == 0


def test_measured_times_join_the_report(products: Executable) -> None:
    found = products.profile(x=X, calls=2)
    report = products.report()
    assert isinstance(report, dict)
    launches = report["launches"]
    assert [launch["measured"]["seconds"] for launch in launches] == [kernel.seconds for kernel in found.kernels]
    assert "measured us" in report._repr_html_()
    assert json.loads(json.dumps(report))["launches"][0]["measured"]["calls"] == 2


def test_a_loop_counts_each_round() -> None:
    exe = onnxc.compile(model_from_text(LOOP), threads=1, cache=False)
    found = exe.profile(np.ones((2, 64), np.float32), np.array(7), calls=3)
    (wave,) = [kernel for kernel in found.kernels if "ai.onnx.Sin-7" in kernel.operators]
    assert wave.executions == 7
    assert wave.flops == 7 * 2 * 64


def test_steps_on_the_host_are_timed() -> None:
    exe = onnxc.compile(model_from_text(TEXTS), threads=1, cache=False)
    texts = np.array(["a", "b"], object)
    found = exe.profile(texts, texts, np.ones(2, np.float32), calls=4)
    (step,) = found.host
    assert '"join"' in step.node
    assert (step.executions, step.seconds > 0, found.host_seconds) == (1, True, step.seconds)
    assert [event.kind for event in found.events].count("host") == 1


def test_a_step_on_the_host_is_timed_in_each_round_of_a_loop() -> None:
    exe = onnxc.compile(model_from_text(TEXTS_IN_ROUNDS), threads=1, cache=False)
    profile = exe.profile(np.array(["a"], object), np.array(3), calls=2)
    joined = [step.executions for step in profile.host if '"join"' in step.node]
    assert joined == [3]


def test_what_is_outside_of_kernels_is_listed_by_where_in_the_call_it_is(profile: Profile) -> None:
    listed = [(part.name, part.executions) for part in profile.between]
    steps_between = len(profile.kernels) - 1
    assert listed == [("entering the call", 1), ("between kernels", steps_between), ("leaving the call", 1)]
    assert all(part.seconds > 0 for part in profile.between)
    assert [part.share for part in profile.between] == pytest.approx(
        [part.seconds / profile.recorded_seconds for part in profile.between]
    )


def test_a_recorded_call_goes_the_way_of_an_ordinary_one(products: Executable, monkeypatch: pytest.MonkeyPatch) -> None:
    def goes_step_by_step(*_: object) -> None:
        raise AssertionError("an ordinary call of this model is straight-line code")

    monkeypatch.setattr("onnxc.runtime.profiling.recorded_calls.run_body", goes_step_by_step)
    assert products.profile(X, calls=2, warmup=0).kernels


def test_the_kernels_of_a_profile_are_linked_with_the_nodes_of_the_model(products: Executable) -> None:
    graphs = kernel_and_node_graphs(products.report(), ["x"], ["y"])
    assert isinstance(graphs, dict)
    nodes = graphs["nodes"]["boxes"]
    linked = [{nodes[k][1] for k in links} for links in graphs["links"] if links]
    assert set().union(*linked) == {"first", "rectify", "second", "sum", "scale"}
    assert {"first", "rectify"} in linked
    assert (nodes[0][:2], nodes[-1][:2]) == (["input", "x"], ["output", "y"])


def test_the_memory_of_a_profile_is_that_of_a_call(products: Executable) -> None:
    memory = products.profile(X, calls=1).memory
    assert memory is not None
    assert memory.launches == len(products.report()["launches"])  # type: ignore[arg-type, call-overload, index]
    assert memory.arena_bytes == products.stats.arena_bytes
    assert 0 < memory.peak_bytes <= memory.arena_bytes
    assert {(held.kind, held.name, held.bytes) for held in memory.held} >= {
        ("input", "x", X.nbytes), ("output", "y", X.nbytes),
    }  # fmt: skip


def test_a_log_without_room_says_how_much_it_lost() -> None:
    log = LaunchLog(capacity=2)
    log._words[0] = 5
    taken = log.take()
    assert (taken.rows.shape, taken.lost) == ((2, 4), 3)
    assert log.take().rows.shape == (0, 4)


@pytest.mark.parametrize("factor", ["4", None, {}, 0, -4.0, 10**400, float("inf"), float("nan")])
def test_a_factor_that_a_report_cannot_mean_is_one(factor: JsonValue) -> None:
    assert (factor_of({"many": factor}, "many"), factor_of([factor], "many")) == (1.0, 1.0)
    assert [factor_of({"many": known}, "many") for known in (4, 0.5)] == [4.0, 0.5]


def test_the_roofline_is_that_of_the_smallest_set_that_holds_the_bytes() -> None:
    limits = Limits(1, 1e9, (Bandwidth(1000, 100e6), Bandwidth(10_000, 10e6)))
    assert limits.seconds(flops=0, nbytes=1000) == (1e-5, "memory")
    assert limits.seconds(flops=0, nbytes=2000) == (2e-4, "memory")
    assert limits.seconds(flops=0, nbytes=1_000_000) == (0.1, "memory")
    assert limits.seconds(flops=1e9, nbytes=8) == (1.0, "operations")
    assert limits.seconds(flops=1e9, nbytes=8, of_a_lane=4.0) == (0.25, "operations")
    assert Limits(1, None, limits.bandwidths).seconds(1e9, 1000) == (1e-5, "memory")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"calls": 0}, "call-count"),
        ({"calls": True}, "call-count"),
        ({"warmup": -1}, "call-count"),
        ({"calls": "many"}, "call-count"),
    ],
)
def test_numbers_of_calls_that_are_none(products: Executable, arguments: dict[str, object], code: str) -> None:
    with pytest.raises(onnxc.InputError) as refused:
        products.profile(X, **arguments)
    assert refused.value.code == code


def test_inputs_are_checked_as_in_a_call(products: Executable) -> None:
    with pytest.raises(onnxc.InputError) as refused:
        products.profile(X[:, :5])
    assert refused.value.code == "input-shape"
    with pytest.raises(onnxc.InputError) as missing:
        products.profile()
    assert missing.value.code == "input-count"


def test_the_interpreter_has_no_kernels_to_profile() -> None:
    exe = onnxc.compile(model_from_text(TEXTS), "interpreter")
    texts = np.array(["a"], object)
    with pytest.raises(onnxc.UnsupportedError) as refused:
        exe.profile(texts, texts, np.ones(1, np.float32))
    assert refused.value.code == "no-profile"


def test_the_table_of_a_report_has_a_column_of_measured_times(products: Executable) -> None:
    products.profile(X, calls=1)
    console = Console(width=200, record=True, file=io.StringIO())
    for part in report_parts(products.report()):
        console.print(part)
    assert "measured us" in console.export_text()
