"""One operator of ONNX Runtime's domains, run by ONNX Runtime and by our interpreter; the results must agree."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnxruntime
from onnx import ModelProto, ValueInfoProto, helper, numpy_helper

from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.operator_domains import MICROSOFT, NCHWC
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.interpreter import interpret

Inputs = Mapping[str, np.ndarray | None]
Shape = Sequence[int | str]

# Of the largest magnitude expected. Sums of up to 100 terms differ by their order in the last 4 bits at most.
TOLERANCES = {"float64": 2.0**-46, "float32": 2.0**-18, "float16": 2.0**-8}


def make_model(
    operator: str,
    inputs: Inputs,
    *,
    outputs: Sequence[str] = ("y",),
    constants: Sequence[str] = (),
    shapes: Mapping[str, Shape] | None = None,
    domain: str = MICROSOFT,
    opset: int = 18,
    **attributes: object,
) -> ModelProto:
    """A model of one node; an input that is None is left out, and `shapes` are declared in place of the real ones."""
    given = {name: value for name, value in inputs.items() if value is not None}
    names = [name if name in given else "" for name in inputs]
    node = helper.make_node(operator, names, list(outputs), domain=domain, **attributes)
    infos = [_info(name, value, shapes) for name, value in given.items() if name not in constants]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs if name]
    weights = [numpy_helper.from_array(given[name], name) for name in constants]
    graph = helper.make_graph([node], "main", infos, results, weights)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1), helper.make_opsetid(NCHWC, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _info(name: str, value: np.ndarray, shapes: Mapping[str, Shape] | None) -> ValueInfoProto:
    shape = (shapes or {}).get(name, value.shape)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), shape)


def run_ours(model: ModelProto, inputs: Inputs) -> tuple[np.ndarray, ...]:
    """The results by the interpreter."""
    module = lower_model(check_model(read_model(model)))
    names = {parameter.producer.name for parameter in module.main.body.parameters}
    return interpret(module, {name: value for name, value in inputs.items() if name in names and value is not None})


def run_theirs(model: ModelProto, inputs: Inputs, shared: Mapping[str, str] | None = None) -> tuple[np.ndarray, ...]:
    """The results by ONNX Runtime on the CPU, as the node is written.

    shared: the inputs into whose memory outputs are written, by output; a few kernels ask for that.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = {info.name for info in session.get_inputs()}
    given = {name: value for name, value in inputs.items() if name in names and value is not None}
    return _bound(session, given, shared) if shared else tuple(session.run(None, given))


def _bound(
    session: onnxruntime.InferenceSession, given: Mapping[str, np.ndarray], shared: Mapping[str, str]
) -> tuple[np.ndarray, ...]:
    """The results where outputs have the memory of inputs."""
    binding = session.io_binding()
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value.copy()) for name, value in given.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for info in session.get_outputs():
        if info.name in shared:
            binding.bind_ortvalue_output(info.name, values[shared[info.name]])
        else:
            binding.bind_output(info.name)
    session.run_with_iobinding(binding)
    return tuple(np.array(result.numpy()) for result in binding.get_outputs())


def assert_agrees(
    operator: str,
    inputs: Inputs,
    *,
    shapes: Mapping[str, Shape] | None = None,
    steps: int = 0,
    **options: object,
) -> tuple[np.ndarray, ...]:
    """Our results, which are those of ONNX Runtime, with numbers as sizes and with `shapes`; integers up to `steps`."""
    expected = run_theirs(make_model(operator, inputs, **options), inputs)  # type: ignore[arg-type]
    for declared in (None, shapes) if shapes else (None,):
        actual = run_ours(make_model(operator, inputs, shapes=declared, **options), inputs)  # type: ignore[arg-type]
        assert_all_close(actual, expected, steps=steps)
    return expected


def assert_all_close(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray], *, steps: int = 0) -> None:
    """Equal types and shapes; floats within the tolerance of their type, integers within `steps`."""
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        tolerance = TOLERANCES.get(theirs.dtype.name)
        wide, wide_theirs = ours.astype(np.float64), theirs.astype(np.float64)
        largest = np.abs(wide_theirs[np.isfinite(wide_theirs)]).max(initial=0)
        np.testing.assert_allclose(wide, wide_theirs, rtol=0, atol=steps if tolerance is None else tolerance * largest)


def normal(*shape: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    """Normally distributed numbers."""
    return np.asarray(np.random.default_rng([seed, *shape]).standard_normal(shape), dtype)


def integers(low: int, high: int, *shape: int, dtype: type = np.uint8, seed: int = 0) -> np.ndarray:
    """Integers from `low` to below `high`."""
    return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(dtype)
