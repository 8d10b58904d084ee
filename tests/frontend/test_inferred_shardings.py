"""Shardings held against inferred types, and what is merely odd about devices."""

import onnx
import pytest

import onnxc
from tests.frontend.function_texts import own
from tests.frontend.invalid.devices import NEWER, Division, sharded, then
from tests.frontend.model_texts import first_node, model

INFERRED = "g (float[N, 4] x) => (float[N, 4] z) { y = Relu(x) z = Neg(y) }"
UNANNOTATED = "g (float[N, 4] x) => (float[A, B] z) { y = Relu(x) z = Neg(y) }"
SEQUENCE = "g (float[N, 4] x) => (float[A, B] z) { y = SequenceConstruct(x) z = ConcatFromSequence<axis = 0>(y) }"


def codes(text: str, *divisions: Division, device: tuple[int, ...] = (0, 1)) -> list[tuple[str, str]]:
    edit = sharded(*divisions, tensor="y", device=device)
    found = onnxc.check(model(text, edit, NEWER))
    return [(finding.severity, finding.code) for finding in found]


@pytest.mark.parametrize(
    ("division", "code"),
    [
        ((2, [(None, 2)]), "sharding-axis"),
        ((-3, [(None, 2)]), "sharding-axis"),
        ((2**40, [(None, 2)]), "sharding-axis"),
        ((1, [(99, 2)]), "sharding-factors"),
        ((1, [(2, 2), (3, 1)]), "sharding-factors"),
        ((-1, [(8, 2)]), "sharding-factors"),
        ((1, [(3, 1), (None, 2)]), "sharding-factors"),
        ((1, [("ZZZ", 2)]), "sharding-size-name"),
    ],
)
@pytest.mark.parametrize("text", [INFERRED, UNANNOTATED])
def test_shardings_are_held_against_inferred_types(text: str, division: Division, code: str) -> None:
    assert codes(text, division) == [("error", code)]


def test_an_axis_of_an_inferred_rank_is_divided_once() -> None:
    divisions: tuple[Division, ...] = ((0, [(None, 2)]), (-2, [(None, 2)]))
    assert codes(UNANNOTATED, *divisions, device=(0, 1, 2, 3)) == [("error", "sharding-axis")]


def test_axes_of_a_sequence_are_not_divided() -> None:
    assert codes(SEQUENCE, (0, [(None, 2)])) == [("error", "sharding-axis")]
    assert codes(SEQUENCE) == []


@pytest.mark.parametrize("division", [(0, [("N", 2)]), (1, [(4, 2)]), (-1, [(2, 2), (None, 1)]), (0, [(None, 2)])])
def test_shardings_that_fit_inferred_types_are_legal(division: Division) -> None:
    assert codes(INFERRED, division) == []


@pytest.mark.parametrize("option", ["compile", "interpret"])
def test_a_model_with_bad_shardings_is_not_compiled(option: str) -> None:
    wrong = model(INFERRED, sharded((7, [(None, 2)]), tensor="y"), NEWER)
    with pytest.raises(onnxc.ModelError, match="sharding-axis"):
        onnxc.compile(wrong, target="cpu" if option == "compile" else "interpreter")


@pytest.mark.parametrize(("stages", "is_odd"), [((1, 0), True), ((0, 1), False), ((1, 1), False)])
def test_a_stage_that_reads_from_a_later_one_is_odd(stages: tuple[int, int], is_odd: bool) -> None:
    def staged(m: onnx.ModelProto) -> None:
        m.configuration.add(name="pp", num_devices=2)
        for node, stage in zip(m.graph.node, stages, strict=True):
            node.device_configurations.add(configuration_id="pp", pipeline_stage=stage)

    found = [(finding.severity, finding.code) for finding in onnxc.check(model(INFERRED, staged, NEWER))]
    assert found == ([("warning", "pipeline-order")] if is_odd else [])


def test_a_device_that_a_group_lists_twice_is_odd() -> None:
    edit = sharded(device=(-1,), groups=((-1, (0, 1, 0)),))
    found = [(finding.severity, finding.code) for finding in onnxc.check(model(INFERRED, edit, NEWER))]
    assert found == [("warning", "sharding-group")]


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_what_is_ignored_is_said(target: str) -> None:
    annotated = model(INFERRED, sharded((0, [(None, 2)])), NEWER)
    with pytest.warns(onnxc.ModelWarning, match=r"ignored-configuration.*'tp'"):
        exe = onnxc.compile(annotated, target=target)
    report = exe.report()
    assert target == "interpreter" or (isinstance(report, dict) and report["ignored_configurations"] == ["tp"])


def test_a_configuration_that_no_node_names_is_not_ignored(recwarn: pytest.WarningsRecorder) -> None:
    report = onnxc.compile(model(INFERRED, lambda m: m.configuration.add(name="tp", num_devices=2), NEWER)).report()
    assert isinstance(report, dict)
    assert "ignored_configurations" not in report
    assert not recwarn.list


def test_shardings_of_a_function_are_those_of_its_expansion() -> None:
    text = """g (float[N, 4] x) => (float[N, 4] y) { y = own.f(x) }
        OWN f (a) => (b) { t = Relu(a) b = Neg(t) }"""

    def inner(m: onnx.ModelProto) -> None:
        m.configuration.add(name="tp", num_devices=2)
        spec = m.functions[0].node[1].device_configurations.add(configuration_id="tp").sharding_spec
        spec.add(tensor_name="t", device=[0, 1]).sharded_dim.add(axis=5).simple_sharding.add(num_shards=2)

    def outer(m: onnx.ModelProto) -> None:
        m.configuration.add(name="tp", num_devices=2)
        spec = first_node(m).device_configurations.add(configuration_id="tp").sharding_spec
        spec.add(tensor_name="y", device=[0, 1]).sharded_dim.add(axis=1).simple_sharding.add(num_shards=2)

    def newer(m: onnx.ModelProto) -> None:
        m.ir_version = 11

    (finding,) = onnxc.check(own(text, then(newer, inner)))
    assert finding.code == "sharding-axis"
    assert onnxc.check(own(text, then(newer, outer))) == ()


def test_a_sharding_of_what_a_call_leaves_out_says_nothing() -> None:
    text = """g (float[N, 4] x) => (float[N, 4] y) { y = own.f(x) }
        OWN f (a, c) => (b) { b = own.h(a, c) }
        OWN h (p, q) => (r) { r = Clip(p, q) }"""

    def edit(m: onnx.ModelProto) -> None:
        m.ir_version = 11
        m.configuration.add(name="tp", num_devices=2)
        said = m.functions[0].node[0].device_configurations.add(configuration_id="tp")
        said.sharding_spec.add(tensor_name="c", device=[0, 1])
        said.sharding_spec.add(tensor_name="a", device=[0, 1])

    assert onnxc.check(own(text, edit)) == ()
