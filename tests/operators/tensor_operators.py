"""Running one operator through the checker, the lowering and the interpreter, with what it knows stated three ways."""

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto, ValueInfoProto, helper, numpy_helper

from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Module

# static: every size a number; symbolic: every axis of the tensors a symbol of its own; data: that, and parameters such
# as shapes and axes are inputs whose elements only the call knows. In the first two they are constants.
WAYS = ("static", "symbolic", "data")

Inputs = Mapping[str, np.ndarray | None]


def i64(*values: int) -> np.ndarray:
    """A vector of 64-bit integers."""
    return np.array(values, np.int64)


def make_model(
    operator: str, inputs: Inputs, *, opset: int, way: str, parameters: Sequence[str], outputs: int, attributes: Mapping
) -> ModelProto:
    """A model of one node; an input that is None is left out."""
    names = [name if value is not None else "" for name, value in inputs.items()]
    results = [f"result{index}" for index in range(outputs)]
    given = {name: value for name, value in inputs.items() if value is not None}
    constants = [name for name in given if name in parameters and way != "data"]
    node = helper.make_node(operator, names, results, **attributes)
    graph = helper.make_graph(
        [node],
        "main",
        [
            _info(name, value, name in parameters or way == "static")
            for name, value in given.items()
            if name not in constants
        ],
        [helper.make_empty_tensor_value_info(name) for name in results],
        [numpy_helper.from_array(given[name], name) for name in constants],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def _info(name: str, value: np.ndarray, is_static: bool) -> ValueInfoProto:
    shape = value.shape if is_static else [f"{name}_{axis}" for axis in range(value.ndim)]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), shape)


def lower_operator(
    operator: str,
    inputs: Inputs,
    *,
    opset: int,
    way: str = "static",
    parameters: Sequence[str] = (),
    outputs: int = 1,
    **attributes: object,
) -> Module:
    """The module of one node whose operands are `inputs`, those in `parameters` as `way` says."""
    model = make_model(
        operator, inputs, opset=opset, way=way, parameters=parameters, outputs=outputs, attributes=attributes
    )
    return lower_model(check_model(read_model(model)))


def run_operator(
    operator: str,
    inputs: Inputs,
    *,
    opset: int,
    way: str = "static",
    parameters: Sequence[str] = (),
    outputs: int = 1,
    **attributes: object,
) -> tuple[np.ndarray, ...]:
    """The results of one node."""
    module = lower_operator(
        operator, inputs, opset=opset, way=way, parameters=parameters, outputs=outputs, **attributes
    )
    names = {parameter.producer.name for parameter in module.main.body.parameters}
    return interpret(module, {name: value for name, value in inputs.items() if name in names and value is not None})
