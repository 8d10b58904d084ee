"""Fourier transforms, windows and mel weights; random numbers."""

import numpy as np

from tests.differential.draw import Draw, Parameter, Parts, i64
from tests.differential.kinds import NAMES_TO_NUMBERS, kind_of
from tests.differential.recipes.registry import recipe


@recipe("DFT")
def dft(d: Draw) -> Parts:
    shape = list(d.shape(2, 3, empty=False))
    is_complex = d.flag()
    inverse = d.int(0, 1) if is_complex else 0
    onesided = 0 if is_complex else d.int(0, 1)
    axis = d.int(0 if d.since < 20 else -len(shape), len(shape) - 1)
    if axis < 0:
        axis -= 1
        if axis < -len(shape):
            axis = -2
    x = d.tensor("T1", (*shape, 2 if is_complex else 1), -3, 3)
    size = x.shape[axis]
    length = Parameter(np.array(d.int(1, size + 2), d.dtype("T2"))) if d.flag(0.4) else None
    named = ({"inverse": inverse} if inverse or d.flag() else {}) | (
        {"onesided": onesided} if onesided or d.flag() else {}
    )
    if d.since < 20:
        return Parts([x, length] if length else [x], named | {"axis": axis}, accumulates=True)
    return Parts([x, length, Parameter(np.array(axis, np.int64))], named, accumulates=True)


@recipe("STFT")
def stft(d: Draw) -> Parts:
    length = d.int(8, 20)
    frame = d.int(2, 7)
    is_complex = d.flag(0.3)
    x = d.tensor("T1", (d.int(1, 2), length, 2 if is_complex else 1), -3, 3)
    step = Parameter(np.array(d.int(1, 4), d.dtype("T2")))
    window = Parameter(d.tensor("T1", (frame,), 0, 1)) if d.flag(0.7) else None
    size = Parameter(np.array(frame, d.dtype("T2"))) if window is None or d.flag() else None
    named = {"onesided": 0} if is_complex else d.attributes(onesided=d.int(0, 1))
    return Parts([x, step, window, size] if size else [x, step, window], named, accumulates=True)


@recipe("HannWindow", "HammingWindow", "BlackmanWindow")
def window(d: Draw) -> Parts:
    # A symmetric window of one element is 0 / 0.
    size = Parameter(np.array(d.pick([0, *range(2, 13)]), d.dtype("T1")))
    named = d.attributes(periodic=d.int(0, 1))
    if d.flag(0.7):
        return Parts([size], named | {"output_datatype": NAMES_TO_NUMBERS[d.dtype("T2")]})
    return Parts([size], named, kinds={0: "tensor(float)"})


@recipe("MelWeightMatrix")
def mel_weight_matrix(d: Draw) -> Parts:
    ints = [np.array(value, d.dtype("T1")) for value in (d.int(2, 8), d.pick([8, 16, 32]), d.pick([4000, 8192, 16000]))]
    edges = [np.array(value, d.dtype("T2")) for value in (d.pick([0.0, 60.0]), d.pick([1000.0, 2000.0]))]
    inputs = [Parameter(value) for value in (*ints, *edges)]
    if d.flag(0.7):
        return Parts(inputs, {"output_datatype": NAMES_TO_NUMBERS[d.dtype("T3")]})
    return Parts(inputs, kinds={0: "tensor(float)"})


@recipe("RandomNormal", "RandomUniform")
def random(d: Draw) -> Parts:
    named = d.attributes(low=-1.0, high=d.real(1, 3), mean=d.real(-1, 1), scale=d.real(0.5, 2), seed=3.0)
    if d.flag(0.7):
        return Parts(
            [], named | {"shape": list(d.shape(0, 3)) or [2], "dtype": NAMES_TO_NUMBERS[d.dtype("T")]}, draws=True
        )
    return Parts([], named | {"shape": [2, 3]}, kinds={0: "tensor(float)"}, draws=True)


@recipe("RandomNormalLike", "RandomUniformLike", "Bernoulli")
def random_like(d: Draw) -> Parts:
    x = d.tensor("T1", d.shape(0, 3), 0, 1)
    named = d.attributes(low=-1.0, high=d.real(1, 3), mean=d.real(-1, 1), scale=d.real(0.5, 2), seed=3.0)
    kind = kind_of(x)
    if kind in d.schema.type_constraints[1].allowed_type_strs and d.flag(0.4):
        return Parts([x], named, kinds={0: kind}, draws=True)
    return Parts([x], named | {"dtype": NAMES_TO_NUMBERS[d.dtype("T2")]}, draws=True)


@recipe("Multinomial")
def multinomial(d: Draw) -> Parts:
    x = d.tensor("T1", (d.int(1, 3), d.int(1, 4)), -3, 1)
    named = d.attributes(sample_size=d.int(1, 5), seed=2.0)
    if d.flag(0.7):
        return Parts([x], named | {"dtype": NAMES_TO_NUMBERS[d.dtype("T2")]}, draws=True)
    return Parts([x], named, kinds={0: "tensor(int32)"}, draws=True)


OPTIMIZERS = {"Adagrad": 1, "Momentum": 1, "Adam": 2}


@recipe(*OPTIMIZERS, domain="ai.onnx.preview.training")
def optimizer(d: Draw) -> Parts:
    count = d.int(1, 2)
    shapes = [d.shape(0, 3) for _ in range(count)]
    groups = 2 + OPTIMIZERS[d.schema.name]
    inputs = [d.tensor("T3", shape, 0.1 if group >= 2 else -2, 2) for group in range(groups) for shape in shapes]
    named = d.attributes(
        alpha=0.9, beta=0.75, epsilon=1e-3, norm_coefficient=0.01, norm_coefficient_post=0.02, decay_factor=0.1,
        mode=d.pick(["standard", "nesterov"]),
    )  # fmt: skip
    rate = np.array(d.real(0.01, 1), d.dtype("T1"))
    steps = i64(d.int(0, 3))
    return Parts([rate, steps, *inputs], named, (groups - 1) * count, accumulates=True, precision="float32")
