"""The engines that compute a case: onnxc's interpreter and CPU back end, onnx.reference, ONNX Runtime."""

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import onnxc
from tests.differential.case import Case
from tests.differential.kinds import NAMES_TO_NUMBERS

Status = Literal["computed", "refused", "failed", "skipped"]

# ONNX Runtime reads no newer IR; opsets newer than its own it may try.
ORT_IR_VERSION = 13
DTYPE_OF = {number: dtype for dtype, number in NAMES_TO_NUMBERS.items()}
# Types whose elements NumPy has only from ml_dtypes.
EXTENDED_NUMBERS = frozenset(
    number for dtype, number in NAMES_TO_NUMBERS.items() if dtype.type.__module__.startswith("ml_dtypes")
)
os.environ["ALLOW_RELEASED_ONNX_OPSET_ONLY"] = "0"


@dataclass(frozen=True)
class Answer:
    """The outputs in order, or why there are none."""

    status: Status
    outputs: list[object] | None = None
    message: str = ""


def onnxc_interpreter(case: Case) -> list[object]:
    return run_onnxc(case, "interpreter")


def onnxc_cpu(case: Case) -> list[object]:
    return run_onnxc(case, "cpu")


def run_onnxc(case: Case, target: str) -> list[object]:
    executable = onnxc.compile(case.model.SerializeToString(), target=target, threads=1)
    # The first call learns the sizes; later ones go another way.
    executable.run(case.feeds)
    outputs = executable.run(case.feeds)
    return [outputs[output.name] for output in case.model.graph.output]


def reference(case: Case) -> list[object]:
    return list(ReferenceEvaluator(case.model).run(None, dict(case.feeds)))


def ort(case: Case) -> list[object]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    model, feeds = without_extended(case)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs = session.run(None, feeds)
    numbers = [output.type.tensor_type.elem_type for output in case.model.graph.output]
    pairs = zip(outputs, numbers, strict=True)
    return [value.astype(DTYPE_OF[number]) if number in EXTENDED_NUMBERS else value for value, number in pairs]


def without_extended(case: Case) -> tuple[ModelProto, dict[str, object]]:
    """The model for ONNX Runtime: tensors of types that NumPy lacks are initializers, and cast to f32 at the end."""
    model = ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = max(4, min(model.ir_version, ORT_IR_VERSION))
    graph, feeds = model.graph, {}
    for name, value in case.feeds.items():
        if isinstance(value, np.ndarray) and is_extended(value):
            graph.initializer.append(numpy_helper.from_array(value, name))
        else:
            feeds[name] = value
    for output in graph.output:
        if output.type.tensor_type.elem_type in EXTENDED_NUMBERS:
            inner = output.name + "_of_node"
            node = graph.node[0]
            node.output[list(node.output).index(output.name)] = inner
            graph.node.append(helper.make_node("Cast", [inner], [output.name], to=TensorProto.FLOAT))
            output.type.tensor_type.elem_type = TensorProto.FLOAT
    return model, feeds


def is_extended(array: np.ndarray) -> bool:
    return array.dtype in NAMES_TO_NUMBERS and NAMES_TO_NUMBERS[array.dtype] in EXTENDED_NUMBERS


def has_extended(value: object) -> bool:
    return isinstance(value, list) and any(
        isinstance(element, np.ndarray) and is_extended(element) for element in value
    )


ENGINES: Mapping[str, Callable[[Case], list[object]]] = {
    "interpreter": onnxc_interpreter,
    "cpu": onnxc_cpu,
    "reference": reference,
    "ort": ort,
}


def answer(case: Case, engine: str) -> Answer:
    """What the engine makes of the case. An engine that is not ours may refuse what it does not know."""
    if engine == "ort" and any(map(has_extended, case.feeds.values())):
        return Answer("skipped", message="ONNX Runtime takes no arrays of this type")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return Answer("computed", [plain(value) for value in ENGINES[engine](case)])
        except Exception as problem:
            refused = engine in ("reference", "ort")
            return Answer("refused" if refused else "failed", message=f"{type(problem).__name__}: {problem}"[:600])


def plain(value: object) -> object:
    """Lists for every kind of sequence, arrays for NumPy's scalars."""
    if isinstance(value, (list, tuple)):
        return [plain(element) for element in value]
    if isinstance(value, np.generic):
        return np.asarray(value)
    if value is not None and not isinstance(value, (np.ndarray, dict, str, int, float)):
        raise TypeError(f"the output is a {type(value).__name__}")
    return value
