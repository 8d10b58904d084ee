"""RNN, GRU and LSTM against their equations, step by step and sequence by sequence."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from onnx import numpy_helper

import onnxc
from tests.operators.tensor_operators import run_operator
from tests.support.arrays import assert_close, assert_same
from tests.support.models import one_node_model

L, B, WIDTH, H = 4, 3, 2, 3
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0),
    "Affine": lambda x: 0.5 * x + 0.25,
    "LeakyRelu": lambda x: np.where(x < 0, 0.5 * x, x),
    "ThresholdedRelu": lambda x: np.where(x < 0.5, 0, x),
    "ScaledTanh": lambda x: 0.5 * np.tanh(0.25 * x),
    "HardSigmoid": lambda x: np.clip(0.5 * x + 0.25, 0, 1),
    "Elu": lambda x: np.where(x < 0, 0.5 * (np.exp(x) - 1), x),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Softplus": lambda x: np.log1p(np.exp(x)),
}
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def operands(operator: str, directions: int = 1, *, length: int = L, batch: int = B) -> dict[str, np.ndarray | None]:
    """Operands of every input, from a fixed stream."""
    random = np.random.default_rng(0)
    gates = GATES[operator]

    def draw(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    found: dict[str, np.ndarray | None] = {
        "X": draw(length, batch, WIDTH),
        "W": draw(directions, gates * H, WIDTH),
        "R": draw(directions, gates * H, H),
        "B": draw(directions, 2 * gates * H),
        "sequence_lens": None,
        "initial_h": draw(directions, batch, H),
    }
    if operator == "LSTM":
        found |= {"initial_c": draw(directions, batch, H), "P": draw(directions, 3 * H)}
    return found


def expected(operator: str, inputs: Mapping[str, np.ndarray | None], **options: object) -> tuple[np.ndarray, ...]:
    """Y and the last states, one sequence after another, in f64."""
    given = {name: None if value is None else value.astype(np.float64) for name, value in inputs.items()}
    x, w = (array for name in ("X", "W") if (array := given[name]) is not None)
    length, batch, _ = x.shape
    directions = w.shape[0]
    y = np.zeros((length, directions, batch, H))
    last = np.zeros((2, directions, batch, H))
    names = options.get("activations") or DEFAULTS[operator] * directions
    assert isinstance(names, list)
    functions = [ACTIVATIONS[name] for name in names]
    width = len(DEFAULTS[operator])
    for d in range(directions):
        is_backwards = options.get("direction") == "reverse" or d == 1
        for b in range(batch):
            lens = inputs["sequence_lens"]
            own = length if lens is None else int(lens[b])
            states = [np.zeros(H) if (s := given.get(k)) is None else s[d, b] for k in ("initial_h", "initial_c")]
            for t in reversed(range(own)) if is_backwards else range(own):
                own_functions = functions[d * width : (d + 1) * width]
                states = step(operator, x[t, b], states, of_direction(given, d), own_functions, options)
                y[t, d, b] = states[0]
            if own:
                last[:, d, b] = states
    results = (y, *last[: 2 if operator == "LSTM" else 1])
    return tuple(result.astype(np.float32) for result in results)


def of_direction(given: Mapping[str, np.ndarray | None], d: int) -> dict[str, np.ndarray | None]:
    return {name: None if value is None else value[d] for name, value in given.items() if name in "WRBP"}


def step(
    operator: str,
    x: np.ndarray,
    states: list[np.ndarray],
    p: Mapping[str, np.ndarray | None],
    functions: list[Callable[[np.ndarray], np.ndarray]],
    options: Mapping[str, object],
) -> list[np.ndarray]:
    """The equations of the operator's text, for one sequence."""
    w, r = p["W"], p["R"]
    assert w is not None
    assert r is not None
    h, c = states
    count = GATES[operator] * H
    wb, rb = (np.zeros(count), np.zeros(count)) if p["B"] is None else (p["B"][:count], p["B"][count:])
    bound = options.get("clip", np.inf)
    gates = [slice(k * H, (k + 1) * H) for k in range(GATES[operator])]
    clipped = [lambda v, f=f: f(np.clip(v, -bound, bound)) for f in functions]
    if operator == "RNN":
        return [clipped[0](w @ x + r @ h + wb + rb), c]
    if operator == "GRU":
        z, reset = (clipped[0](w[g] @ x + r[g] @ h + wb[g] + rb[g]) for g in gates[:2])
        g = gates[2]
        if options.get("linear_before_reset"):
            hidden = clipped[1](w[g] @ x + reset * (r[g] @ h + rb[g]) + wb[g])
        else:
            hidden = clipped[1](w[g] @ x + r[g] @ (reset * h) + rb[g] + wb[g])
        return [(1 - z) * hidden + z * h, c]
    peepholes = np.zeros(3 * H) if p["P"] is None else p["P"]
    pi, po, pf = peepholes[:H], peepholes[H : 2 * H], peepholes[2 * H :]
    total = w @ x + r @ h + wb + rb
    i, o, f, g = (total[gate] for gate in gates)
    enters = clipped[0](i + pi * c)
    stays = 1 - enters if options.get("input_forget") else clipped[0](f + pf * c)
    cell = stays * c + enters * clipped[1](g)
    return [clipped[0](o + po * cell) * functions[2](cell), cell]


def check(operator: str, inputs: dict[str, np.ndarray | None], way: str = "static", **options: object) -> None:
    outputs = 3 if operator == "LSTM" else 2
    wanted = expected(operator, inputs, **options)
    actual = run_operator(operator, inputs, opset=14, way=way, outputs=outputs, hidden_size=H, **options)
    for found, value in zip(actual, wanted, strict=True):
        assert_close(found, value, terms=8)


@pytest.mark.parametrize("operator", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize("lengths", [None, [4, 0, 2]])
def test_directions_and_lengths(operator: str, direction: str, way: str, lengths: list[int] | None) -> None:
    inputs = operands(operator, 2 if direction == "bidirectional" else 1)
    inputs["sequence_lens"] = None if lengths is None else np.array(lengths, np.int32)
    check(operator, inputs, way, direction=direction)


@pytest.mark.parametrize(
    ("operator", "options"),
    [
        ("RNN", {"clip": 0.5}),
        ("GRU", {"clip": 0.5}),
        ("LSTM", {"clip": 0.5}),
        ("GRU", {"linear_before_reset": 1}),
        ("LSTM", {"input_forget": 1}),
    ],
)
def test_options(operator: str, options: dict[str, object]) -> None:
    check(operator, operands(operator), **options)


@pytest.mark.parametrize("operator", GATES)
def test_everything_optional_may_be_absent(operator: str) -> None:
    inputs = operands(operator)
    for name in ("B", "initial_h", "initial_c", "P"):
        if name in inputs:
            inputs[name] = None
    check(operator, inputs)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_take_their_parameters(name: str) -> None:
    inputs = operands("RNN", 2)
    alpha, beta = [0.5] * 2, [0.25] * 2
    wanted = expected("RNN", inputs, activations=[name, name], direction="bidirectional")
    actual = run_operator(
        "RNN",
        inputs,
        opset=22,
        outputs=2,
        direction="bidirectional",
        activations=[name, name],
        activation_alpha=alpha,
        activation_beta=beta,
    )
    assert_close(actual[0], wanted[0], terms=8)


def test_parameters_go_to_the_functions_that_take_them() -> None:
    inputs = operands("RNN", 2)
    attributes = {"direction": "bidirectional", "activations": ["Tanh", "LeakyRelu"], "activation_alpha": [0.5]}
    wanted = expected("RNN", inputs, direction="bidirectional", activations=["Tanh", "LeakyRelu"])
    assert_close(run_operator("RNN", inputs, opset=14, outputs=2, **attributes)[0], wanted[0], terms=8)


@pytest.mark.parametrize("operator", GATES)
def test_layout_1_has_the_batch_first(operator: str) -> None:
    inputs = operands(operator, 2)
    wanted = expected(operator, inputs, direction="bidirectional")
    swapped = dict(inputs)
    for name in ("X", "initial_h", "initial_c"):
        value = swapped.get(name)
        if value is not None:
            swapped[name] = value.swapaxes(0, 1).copy()
    outputs = len(wanted)
    actual = run_operator(operator, swapped, opset=14, outputs=outputs, direction="bidirectional", layout=1)
    assert_close(actual[0], wanted[0].transpose(2, 0, 1, 3).copy(), terms=8)
    for found, value in zip(actual[1:], wanted[1:], strict=True):
        assert_close(found, value.swapaxes(0, 1).copy(), terms=8)


@pytest.mark.parametrize("operator", GATES)
@pytest.mark.parametrize(("length", "batch"), [(0, 2), (2, 0), (1, 1)])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_sizes_of_nothing(operator: str, length: int, batch: int, way: str) -> None:
    inputs = operands(operator, length=length, batch=batch)
    check(operator, inputs, way)


@pytest.mark.parametrize(
    ("operator", "opsets"), [("RNN", (1, 7, 14, 22)), ("GRU", (1, 3, 7, 14, 22)), ("LSTM", (1, 7, 14, 22))]
)
def test_versions_agree(operator: str, opsets: tuple[int, ...]) -> None:
    inputs = operands(operator)
    wanted = expected(operator, inputs)
    for opset in opsets:
        actual = run_operator(operator, inputs, opset=opset, outputs=len(wanted))
        assert_close(actual[0], wanted[0], terms=8)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_floats(dtype: type[np.generic]) -> None:
    inputs = operands("LSTM")
    wanted = expected("LSTM", inputs)
    typed = {name: None if value is None else value.astype(dtype) for name, value in inputs.items()}
    actual = run_operator("LSTM", typed, opset=14, outputs=3)
    for found, value in zip(actual, wanted, strict=True):
        # What is expected is computed in f32 for both.
        assert_close(found, value.astype(dtype), terms=8, accumulator=np.float16 if dtype == np.float16 else np.float32)


def test_a_sequence_of_no_steps_has_no_last_state() -> None:
    inputs = operands("RNN", length=0)
    assert_same(run_operator("RNN", inputs, opset=14, outputs=2)[1], np.zeros((1, B, H), np.float32))


@pytest.mark.parametrize("fed", ["X", "XW", "XR"])
def test_constant_weights_beside_inputs_of_symbolic_sizes_compile(fed: str) -> None:
    given = operands("GRU") | {"initial_h": None}
    wanted, last = expected("GRU", given)
    arrays = {name: given[name] for name in "XWRB"}
    infos = {name: (np.float32, [f"{name}{axis}" for axis in range(3)]) for name in fed}
    model = one_node_model("GRU", infos, {"Y": (np.float32, None), "Y_h": (np.float32, None)})
    model.graph.node[0].input[:] = list("XWRB")
    model.graph.initializer.extend(numpy_helper.from_array(arrays[name], name) for name in "WRB" if name not in fed)
    y, y_h = onnxc.compile(model)(*(arrays[name] for name in fed))
    assert_close(y, wanted, terms=8)
    assert_close(y_h, last, terms=8)
