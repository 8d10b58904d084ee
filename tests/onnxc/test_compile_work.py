"""Small models that would take very long: compiled, or refused with a code; and compiling can be interrupted.

Each case is compiled in a process of its own. The time that the process may take is no measurement: without the bounds
none of the cases would end.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.onnx_ml_pb2 import NodeProto

import onnxc
from onnxc.compiler.limits import DEFAULT_LIMITS
from tests.support.models import value_info

HANG_SECONDS = 500
MEMORY_BYTES = 2 << 30
OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]


def model(
    nodes: Sequence[NodeProto],
    shapes: Mapping[str, Sequence[int | str] | None],
    constants: dict[str, Sequence[int]] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model of f32 inputs with the output y."""
    inputs = [value_info(name, np.float32, None if shape is None else list(shape)) for name, shape in shapes.items()]
    initializers = [numpy_helper.from_array(np.array(v, np.int64), name) for name, v in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, [value_info("y", np.float32, None)], initializers)
    return helper.make_model(graph, opset_imports=OPSETS, functions=functions, ir_version=9)


def doublings(count: int) -> onnx.ModelProto:
    """x joined with itself again and again, then summed."""
    names = ["x", *(f"c{k}" for k in range(count))]
    nodes = [helper.make_node("Concat", [name] * 2, [new], axis=0) for name, new in pairwise(names)]
    return model([*nodes, helper.make_node("ReduceSum", names[-1:], ["y"])], {"x": ["N"]})


def distinct_sizes(count: int) -> onnx.ModelProto:
    """Inputs of a size of its own each, joined."""
    names = [f"x{k}" for k in range(count)]
    return model([helper.make_node("Concat", names, ["y"], axis=0)], {name: [f"N_{name}"] for name in names})


def calls(levels: int, operator: str) -> onnx.ModelProto:
    """Functions that call the next twice: 2^levels nodes."""
    functions = []
    for level in range(levels):
        callee = {"op_type": operator} if level == levels - 1 else {"op_type": f"f{level + 1}", "domain": "own"}
        body = [helper.make_node(**callee, inputs=[a], outputs=[b]) for a, b in (("a", "m"), ("m", "b"))]
        functions.append(helper.make_function("own", f"f{level}", ["a"], ["b"], body, OPSETS))
    return model([helper.make_node("f0", ["x"], ["y"], domain="own")], {"x": ["N"]}, functions=functions)


def sums(count: int, last: str) -> onnx.ModelProto:
    """x + x, again and again, then another operator: 2^count ways from the result to x."""
    names = ["x", *(f"s{k}" for k in range(count))]
    nodes = [helper.make_node("Add", [name] * 2, [new]) for name, new in pairwise(names)]
    return model([*nodes, helper.make_node(last, names[-1:], ["y"])], {"x": ["N", "M"]})


def shifted(count: int) -> onnx.ModelProto:
    """pad(x, left) - pad(x, right), again and again: 2^count indices of x."""
    nodes: list[NodeProto] = []
    for k in range(count):
        last = "x" if k == 0 else f"c{k - 1}"
        nodes += [helper.make_node("Pad", [last, side], [f"{side}{k}"]) for side in ("left", "right")]
        nodes.append(helper.make_node("Sub", [f"left{k}", f"right{k}"], [f"c{k}"]))
    nodes.append(helper.make_node("Identity", [f"c{count - 1}"], ["y"]))
    return model(nodes, {"x": ["N"]}, {"left": [1, 0], "right": [0, 1]})


def powers(count: int, rank: int) -> onnx.ModelProto:
    """As many elements as a sum of `count` sizes to the power of `rank`, in one axis."""
    names = [f"x{k}" for k in range(count)]
    nodes = [
        helper.make_node("Concat", names, ["c"], axis=0),
        helper.make_node("Shape", ["c"], ["s"]),
        helper.make_node("Concat", ["s"] * rank, ["t"], axis=0),
        helper.make_node("Reshape", ["c", "r"], ["e"]),
        helper.make_node("Expand", ["e", "t"], ["b"]),
        helper.make_node("Flatten", ["b"], ["y"], name="flat", axis=0),
    ]
    return model(nodes, {name: [f"N_{name}"] for name in names}, {"r": [-1] + [1] * (rank - 1)})


def squares(count: int) -> onnx.ModelProto:
    """A tensor of (N + M + K)^(2^count) elements."""
    nodes = [helper.make_node("Concat", ["x", "w", "z"], ["c0"], axis=0), helper.make_node("Neg", ["one"], ["f"])]
    for k in range(count):
        nodes.append(helper.make_node("Shape", [f"c{k}"], [f"s{k}"]))
        nodes.append(helper.make_node("Mul", [f"s{k}", f"s{k}"], [f"t{k}"]))
        nodes.append(helper.make_node("Expand", ["g", f"t{k}"], [f"c{k + 1}"]))
    nodes.insert(1, helper.make_node("Cast", ["one"], ["g"], to=1))
    nodes.append(helper.make_node("Neg", [f"c{count}"], ["y"]))
    return model(nodes, {"x": ["N"], "w": ["M"], "z": ["K"]}, {"one": [1]})


def picked_sums(count: int) -> onnx.ModelProto:
    """Rows that indices pick, added to themselves again and again."""
    names = ["c", *(f"s{k}" for k in range(count - 1)), "y"]
    nodes = [helper.make_node("Add", [name] * 2, [new]) for name, new in pairwise(names)]
    gather = helper.make_node("Gather", ["x", "rows"], ["c"], axis=0)
    return model([gather, *nodes], {"x": ["N", "M"]}, {"rows": [0, 2, 1]})


CASES: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "12 doublings": (lambda: doublings(12), "compiled"),
    "62 doublings": (lambda: doublings(62), "compiled"),
    "256 distinct sizes": (lambda: distinct_sizes(256), "compiled"),
    "62 sums": (lambda: sums(62, "Neg"), "compiled"),
    "62 sums of picked rows": (lambda: picked_sums(62), "compiled"),
    "62 sums below a sum": (lambda: sums(62, "ReduceSum"), "compiled"),
    "62 sums below a softmax": (lambda: sums(62, "Softmax"), "compiled"),
    "20 shifts": (lambda: shifted(20), "compiled"),
    "calls of 2^16 nodes": (lambda: calls(16, "Sigmoid"), "expansion-too-large"),
    "calls of 2^19 nodes": (lambda: calls(19, "Relu"), "expansion-too-large"),
    "squares of sums": (lambda: squares(8), "compiled"),
}

SLOW_CASES: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "calls of many launches": (lambda: calls(12, "Softmax"), "compiled"),
    "calls of many ops": (lambda: calls(12, "Sigmoid"), "compiled"),
    "calls of too many ops": (lambda: calls(13, "Sigmoid"), "model-too-complex"),
    "more launches": (lambda: calls(13, "LogSoftmax"), "compiled"),
    "launches that share what they read": (lambda: calls(13, "Hardmax"), "compiled"),
    "many sizes that data decides": (lambda: calls(10, "Unique"), "compiled"),
    "more sizes that data decides": (lambda: calls(11, "Unique"), "model-too-complex"),
}


def outcome_of(made: onnx.ModelProto) -> str:
    """ "compiled" or the code of the error, in a process of its own."""
    command = [sys.executable, "-m", "tests.support.compile_one"]
    data = made.SerializeToString()
    done = subprocess.run(command, input=data, capture_output=True, timeout=HANG_SECONDS, check=True)
    outcome, peak_bytes = done.stdout.decode().split()
    assert int(peak_bytes) < MEMORY_BYTES
    return outcome


@pytest.mark.parametrize(("make", "outcome"), CASES.values(), ids=CASES)
def test_a_small_model_is_compiled_or_refused(make: Callable[[], onnx.ModelProto], outcome: str) -> None:
    assert outcome_of(make()) == outcome


@pytest.mark.slow
@pytest.mark.parametrize(("make", "outcome"), SLOW_CASES.values(), ids=SLOW_CASES)
def test_what_is_near_the_limits_is_compiled_or_refused(make: Callable[[], onnx.ModelProto], outcome: str) -> None:
    assert outcome_of(make()) == outcome


def test_many_parts_are_joined_in_order() -> None:
    sizes = [k % 3 for k in range(70)]
    feeds = {f"x{k}": np.full(size, k, np.float32) for k, size in enumerate(sizes)}
    (y,) = onnxc.compile(distinct_sizes(70)).run(feeds).values()
    np.testing.assert_array_equal(y, np.concatenate(list(feeds.values())))


def test_doublings_add_up() -> None:
    (y,) = onnxc.compile(doublings(12)).run({"x": np.array([1.0, 2.0], np.float32)}).values()
    assert y == 3 * 2**12


def test_shifts_that_are_written_in_between_have_the_same_values() -> None:
    made = shifted(12)
    x = np.arange(5, dtype=np.float32)
    compiled, meant = (onnxc.compile(made, target).run({"x": x})["y"] for target in ("cpu", "interpreter"))
    np.testing.assert_array_equal(compiled, meant)


def test_many_launches_are_several_functions() -> None:
    made = calls(7, "Softmax")
    x = np.array([0.0, 1.0, 3.0], np.float32)
    compiled, meant = (onnxc.compile(made, target).run({"x": x})["y"] for target in ("cpu", "interpreter"))
    np.testing.assert_allclose(compiled, meant, rtol=1e-6)


@pytest.mark.parametrize(
    ("limit", "code"), [("lowered_ops", "model-too-complex"), ("code_instructions", "code-too-large")]
)
def test_work_is_bounded_by_limits(limit: str, code: str) -> None:
    made = calls(3, "Softmax")
    assert onnxc.compile(made, limits={limit: getattr(DEFAULT_LIMITS, limit)}).outputs
    with pytest.raises(onnxc.UnsupportedError, match=f"the limit {limit} is 3, and ") as caught:
        onnxc.compile(made, limits={limit: 3})
    assert caught.value.code == code


def test_work_for_many_ranks_names_the_inputs_without_a_shape() -> None:
    nodes = [helper.make_node("PRelu", ["a", "b"], ["s"]), helper.make_node("PRelu", ["s", "c"], ["y"])]
    made = model(nodes, {"a": None, "b": None, "c": None})
    with pytest.raises(onnxc.UnsupportedError, match=r'"a", "b", "c" may have any rank.* shapes= ') as caught:
        onnxc.compile(made, limits={"code_instructions": 10_000})
    assert caught.value.code == "code-too-large"
    compiled = onnxc.compile(made, shapes={"a": ["N", 3], "b": [3], "c": [1]})
    x, slope = np.full((2, 3), -1, np.float32), np.full(3, 2, np.float32)
    np.testing.assert_array_equal(compiled(x, slope, np.full(1, 4, np.float32)), np.full((2, 3), -8, np.float32))


def test_a_size_that_is_too_complex_names_its_node() -> None:
    with pytest.raises(onnxc.UnsupportedError, match=r"at most 20000 are supported\n") as caught:
        onnxc.compile(powers(8, 7))
    assert caught.value.code == "size-too-complex"
    assert str(caught.value).endswith('\n  --> graph "main", node 5 "flat" (ai.onnx.Flatten-13)')


def doubled(size: int | str, count: int) -> onnx.ModelProto:
    """A value of one axis joined with itself, again and again."""
    names = [*(f"x{k}" for k in range(count)), "y"]
    nodes = [helper.make_node("Concat", [before, before], [name], axis=0) for before, name in pairwise(names)]
    return model(nodes, {"x0": [size]})


@pytest.mark.parametrize(("size", "code", "node"), [("N", "size-too-complex", 255), (1, "impossible-size", 62)])
def test_a_value_doubled_without_end_names_the_node_that_is_too_large(size: int | str, code: str, node: int) -> None:
    with pytest.raises(onnxc.OnnxcError) as caught:
        onnxc.compile(doubled(size, 1100))
    assert caught.value.code == code
    assert f"node {node} " in str(caught.value)


def test_what_can_only_be_empty_is_compiled() -> None:
    compiled = onnxc.compile(doubled("N", 70))
    assert compiled(np.zeros(0, np.float32)).shape == (0,)
    with pytest.raises(onnxc.OnnxcError, match=str(2**70)) as caught:
        compiled(np.zeros(1, np.float32))
    assert caught.value.code == "out-of-memory"


@pytest.mark.parametrize("limit", ["lowered_ops", "code_instructions"])
def test_work_beyond_a_limit_names_the_node_of_the_most(limit: str) -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("LSTM", ["n", "w", "r"], ["", "l"], name="most", hidden_size=4),
        helper.make_node("Neg", ["l"], ["y"]),
    ]
    made = model(nodes, {"x": ["N", "B", 3], "w": [1, 16, 3], "r": [1, 16, 4]})
    with pytest.raises(onnxc.UnsupportedError, match=rf'the limit {limit} is 3.*\n  --> .* "most" .*: \d+ of them$'):
        onnxc.compile(made, limits={limit: 3})


def test_nodes_that_the_model_stores_are_not_counted_as_added() -> None:
    assert onnxc.compile(calls(1, "Relu"), limits={"expanded_nodes": 1}).outputs
    with pytest.raises(onnxc.ModelError, match=r'limits=\{"expanded_nodes": \.\.\.\} raises it'):
        onnxc.compile(calls(3, "Relu"), limits={"expanded_nodes": 1})


@pytest.mark.parametrize(("number", "exception"), [("SIGINT", "KeyboardInterrupt"), ("SIGALRM", "Late")])
def test_an_exception_of_a_signal_handler_comes_out_while_llvm_works(number: str, exception: str) -> None:
    command = [sys.executable, "-m", "tests.support.interrupt_llvm", number]
    done = subprocess.run(command, capture_output=True, timeout=HANG_SECONDS, check=True)
    assert done.stdout.decode().split() == [exception, "True", "0"], done.stderr.decode()
