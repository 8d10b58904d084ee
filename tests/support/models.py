"""Making small models for tests, and running them with ONNX Runtime."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnxruntime
from onnx import ModelProto, helper, numpy_helper, parser

Sizes = Sequence[int | str | None]


def model_from_text(text: str) -> ModelProto:
    """The model written in ONNX text form."""
    return parser.parse_model(text)


def one_node_model(
    operator: str,
    inputs: Mapping[str, tuple[np.dtype | type, Sizes]],
    outputs: Mapping[str, tuple[np.dtype | type, Sizes | None]],
    *,
    opset: int = 21,
    domain: str = "",
    constants: Mapping[str, np.ndarray] | None = None,
    **attributes: object,
) -> ModelProto:
    """A model of one node; its operands are `inputs`, then `constants`, an input named "" being left out."""
    tensors = constants or {}
    node = helper.make_node(operator, [*inputs, *tensors], list(outputs), operator.lower(), domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "main",
        [value_info(name, *kind) for name, kind in inputs.items() if name],
        [value_info(name, *kind) for name, kind in outputs.items() if name],
        [numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, opset)], ir_version=10)


def value_info(name: str, dtype: np.dtype | type, shape: Sizes | None) -> object:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, element, None if shape is None else list(shape))


def run_ort(model: ModelProto | str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs by name, as ONNX Runtime computes them on the CPU."""
    session = ort_session(model)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def ort_session(model: ModelProto | str, threads: int = 1) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    source = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
