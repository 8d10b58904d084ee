"""Models as ONNX Runtime's optimiser and quantiser save them, compiled for the CPU, against ONNX Runtime."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static

import onnxc
from benchmarks.models.small_llama import small_llama, small_llama_feeds
from tests.operators.microsoft.agreement import normal, run_theirs
from tests.support.signed_weights import SATURATES

LEVELS = onnxruntime.GraphOptimizationLevel

CNN = """<ir_version: 8, opset_import: ["": 17]>
cnn (float[N, 3, 12, 12] x) => (float[N, 10] y) {
  c = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
  r = Relu (c)
  d = Conv <pads = [1, 1, 1, 1]> (r, w2, b2)
  s = Add (d, r)
  t = Relu (s)
  p = GlobalAveragePool (t)
  f = Flatten (p)
  g = Gemm <transB = 1> (f, w3, b3)
  h = LeakyRelu <alpha = 0.1> (g)
  y = Gemm <transB = 1> (h, w4, b4)
}"""

TRANSFORMER = """<ir_version: 8, opset_import: ["": 14]>
transformer (float[N, S, 16] x) => (float[N, S, 16] y) {
  q0 = MatMul (x, wq)
  q = Add (q0, bias)
  k = MatMul (x, wk)
  v = MatMul (x, wv)
  kt = Transpose <perm = [0, 2, 1]> (k)
  scores = MatMul (q, kt)
  quarter = Constant <value = float {0.25}> ()
  scaled = Mul (scores, quarter)
  weights = Softmax <axis = -1> (scaled)
  mixed = MatMul (weights, v)
  sum = Add (x, mixed)
  mean = ReduceMean <axes = [-1]> (sum)
  centred = Sub (sum, mean)
  two = Constant <value = float {2}> ()
  squares = Pow (centred, two)
  variance = ReduceMean <axes = [-1]> (squares)
  epsilon = Constant <value = float {1e-5}> ()
  shifted = Add (variance, epsilon)
  deviation = Sqrt (shifted)
  normal = Div (centred, deviation)
  gain = Mul (normal, gamma)
  n = Add (gain, bias)
  u0 = MatMul (n, w1)
  u = Add (u0, b1)
  root = Constant <value = float {1.4142135381698608}> ()
  e0 = Div (u, root)
  e1 = Erf (e0)
  one = Constant <value = float {1}> ()
  e2 = Add (e1, one)
  e3 = Mul (u, e2)
  half = Constant <value = float {0.5}> ()
  e = Mul (e3, half)
  o = MatMul (e, w2)
  y = Add (n, o)
}"""

WEIGHTS = {
    "cnn": {
        "w1": (16, 3, 3, 3),
        "b1": (16,),
        "w2": (16, 16, 3, 3),
        "b2": (16,),
        "w3": (12, 16),
        "b3": (12,),
        "w4": (10, 12),
        "b4": (10,),
    },
    "transformer": {
        **dict.fromkeys(("wq", "wk", "wv"), (16, 16)),
        **dict.fromkeys(("bias", "gamma"), (16,)),
        "w1": (16, 32),
        "b1": (32,),
        "w2": (32, 16),
    },
}
FEEDS = {"cnn": {"x": normal(2, 3, 12, 12)}, "transformer": {"x": normal(2, 5, 16)}}


def model(name: str) -> ModelProto:
    built = onnx.parser.parse_model({"cnn": CNN, "transformer": TRANSFORMER}[name])
    for seed, (weight, shape) in enumerate(WEIGHTS[name].items()):
        scaled = normal(*shape, seed=seed) * np.float32(0.3)
        built.graph.initializer.append(numpy_helper.from_array(scaled, weight))
    return built


def optimised(source: Path, level: onnxruntime.GraphOptimizationLevel, folder: Path) -> ModelProto:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    return onnx.load(folder / "optimised.onnx")


def assert_agrees_compiled(saved: ModelProto, feeds: Mapping[str, np.ndarray], operators: set[str]) -> None:
    """The model has these operators of com.microsoft, and gives what ONNX Runtime gives."""
    assert operators <= {node.op_type for node in saved.graph.node}
    (expected,) = run_theirs(saved, feeds)
    actual = onnxc.compile(saved)(*feeds.values())
    assert isinstance(actual, np.ndarray)
    # A result that lies between two integers of a quantised product may round either way.
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2.0**-18 * np.abs(expected).max())


FUSED = {
    "cnn": {"FusedConv", "FusedGemm"},
    "transformer": {"FusedMatMul", "SkipLayerNormalization", "BiasGelu"},
}


@pytest.mark.parametrize("name", FUSED)
def test_the_extended_level(name: str, tmp_path: Path) -> None:
    onnx.save(model(name), tmp_path / "source.onnx")
    saved = optimised(tmp_path / "source.onnx", LEVELS.ORT_ENABLE_EXTENDED, tmp_path)
    assert_agrees_compiled(saved, FEEDS[name], FUSED[name])


def test_all_levels_where_there_are_no_convolutions(tmp_path: Path) -> None:
    onnx.save(model("transformer"), tmp_path / "source.onnx")
    saved = optimised(tmp_path / "source.onnx", LEVELS.ORT_ENABLE_ALL, tmp_path)
    assert_agrees_compiled(saved, FEEDS["transformer"], FUSED["transformer"])


class _Samples(CalibrationDataReader):
    def __init__(self, feeds: Mapping[str, np.ndarray]) -> None:
        self.samples: Iterator[Mapping[str, np.ndarray]] = iter([feeds])

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        return next(self.samples, None)


@pytest.fixture(autouse=True)
def _without_the_quantizers_warnings() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


QUANTIZED = {
    "cnn": {"QLinearConv", "QLinearAdd", "QLinearGlobalAveragePool", "QGemm", "QLinearLeakyRelu"},
    "transformer": {"QLinearMatMul", "QLinearAdd", "QLinearMul", "QLinearSoftmax"},
}


@pytest.mark.parametrize("level", [None, LEVELS.ORT_ENABLE_EXTENDED], ids=["saved", "extended"])
@pytest.mark.parametrize("name", QUANTIZED)
def test_static_quantisation_with_quantised_operators(
    name: str, level: onnxruntime.GraphOptimizationLevel | None, tmp_path: Path
) -> None:
    onnx.save(model(name), tmp_path / "source.onnx")
    target = tmp_path / "quantized.onnx"
    quantize_static(tmp_path / "source.onnx", target, _Samples(FEEDS[name]), quant_format=QuantFormat.QOperator)
    saved = onnx.load(target) if level is None else optimised(target, level, tmp_path)
    assert_agrees_compiled(saved, FEEDS[name], QUANTIZED[name])


@pytest.mark.parametrize("level", [None, LEVELS.ORT_ENABLE_EXTENDED], ids=["saved", "extended"])
def test_dynamic_quantisation(level: onnxruntime.GraphOptimizationLevel | None, tmp_path: Path) -> None:
    onnx.save(model("transformer"), tmp_path / "source.onnx")
    target = tmp_path / "quantized.onnx"
    quantize_dynamic(tmp_path / "source.onnx", target, reduce_range=SATURATES)
    saved = onnx.load(target) if level is None else optimised(target, level, tmp_path)
    operators = {"MatMulInteger"} if level is None else {"DynamicQuantizeMatMul", "MatMulIntegerToFloat"}
    assert_agrees_compiled(saved, FEEDS["transformer"], operators)


@pytest.fixture(scope="module")
def decoders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The small decoder as it is written, and as the optimiser saves it."""
    folder = tmp_path_factory.mktemp("decoders")
    onnx.save(small_llama(), folder / "source.onnx")
    onnx.save(optimised(folder / "source.onnx", LEVELS.ORT_ENABLE_ALL, folder), folder / "all.onnx")
    return {"source": folder / "source.onnx", "all": folder / "all.onnx"}


@pytest.mark.parametrize("form", ["source", "all"])
def test_a_decoder_with_weights_of_4_bits(form: str, decoders: Mapping[str, Path]) -> None:
    executable = onnxc.compile(decoders[form])
    for past in (0, 5):
        feeds = small_llama_feeds(2, past)
        expected = run_theirs(onnx.load(decoders[form]), feeds)
        actual = executable.run(None, {info.name: feeds[info.name] for info in executable.inputs})
        for ours, theirs in zip(actual, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=2.0**-18 * np.abs(theirs).max())
