"""Running small models with values of every type: in ONNX text form, or one node of any domain.

TARGETS are the interpreter, which says what a model means, and this machine, where host steps stand between kernels.
"""

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto, ValueInfoProto, helper, parser

import onnxc

TARGETS = ("interpreter", "cpu")
ML = "ai.onnx.ml"


def run_text(text: str, inputs: Mapping[str, object], target: str = "interpreter") -> tuple[object, ...]:
    """The outputs of a model in text form; without a header, of opset 21."""
    header = '<ir_version: 10, opset_import: ["" : 21]>\n'
    model = parser.parse_model(text if text.lstrip().startswith("<") else header + text)
    return run_model(model, inputs, target)


def run_model(model: ModelProto, inputs: Mapping[str, object], target: str = "interpreter") -> tuple[object, ...]:
    """The outputs in order."""
    executable = onnxc.compile(model, target)
    # The first call learns the sizes; later ones go another way.
    executable.run(inputs)
    outputs = executable.run(inputs)
    return tuple(outputs[info.name] for info in executable.outputs)


def run_ml(
    operator: str,
    inputs: Mapping[str, object],
    *,
    version: int = 1,
    outputs: int = 1,
    symbolic: bool = False,
    domain: str = ML,
    target: str = "interpreter",
    **attributes: object,
) -> tuple[object, ...]:
    """The outputs of one node whose operands are `inputs`, arrays or maps; `symbolic`: of sizes that the call tells."""
    names = [f"result{index}" for index in range(outputs)]
    node = helper.make_node(operator, list(inputs), names, domain=domain, **attributes)
    infos = [_info(name, value, symbolic) for name, value in inputs.items()]
    graph = helper.make_graph([node], "main", infos, [ValueInfoProto(name=name) for name in names])
    opsets = [helper.make_opsetid(domain, version), helper.make_opsetid("", 21)][: 2 if domain else 1]
    return run_model(helper.make_model(graph, opset_imports=opsets, ir_version=10), inputs, target)


def _info(name: str, value: object, symbolic: bool) -> ValueInfoProto:
    if isinstance(value, np.ndarray):
        shape = [f"{name}_{axis}" for axis in range(value.ndim)] if symbolic else value.shape
        return helper.make_tensor_value_info(name, _element_type(value.dtype), shape)
    assert isinstance(value, dict), value
    key, element = next(iter(value.items()))
    inner = helper.make_tensor_type_proto(_element_type(np.asarray(element).dtype), [])
    kind = 8 if isinstance(key, str) else 7
    return helper.make_value_info(name, helper.make_map_type_proto(kind, inner))


def _element_type(dtype: np.dtype) -> int:
    return 8 if dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(dtype)


def texts(*values: str) -> np.ndarray:
    """A vector of texts."""
    return np.array(values, object)
