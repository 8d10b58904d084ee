"""Models of one node, converted to another version of ai.onnx, and run before and after."""

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from onnx import ModelProto, checker, numpy_helper

import onnxc
from tests.support.models import model_from_text

__all__ = ["assert_same_in", "model_of", "run"]

TEXT_NAMES = {"float32": "float", "float64": "double"}
TOLERANCES = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-12}


def model_of(
    version: int,
    node: str,
    inputs: Sequence[np.ndarray],
    constants: Mapping[str, np.ndarray] | None = None,
    *,
    known: Collection[int] | None = None,
) -> ModelProto:
    """A model of one node, whose operands are named by letters: those of `constants`, and the inputs in order.

    known: the axes of which sizes are declared, counted from either end; of the others they are symbols. None declares
    them all. Outputs are those on the left of `node`, or y.
    """
    weights = constants or {}
    operands = node[node.rindex("(") :]
    given = [*dict.fromkeys(char for char in operands if char.isalpha() and char not in weights)]
    typed = ", ".join(_declared(name, x, known) for name, x in zip(given, inputs, strict=True))
    found = re.fullmatch(r"([a-z]\w*(?:, \w+)*) = (.*)", node)
    results, call = found.groups() if found is not None else ("y", node)
    text = f'<ir_version: 10, opset_import: ["" : {version}]> g ({typed}) => ({results}) {{ {results} = {call} }}'
    model = model_from_text(text)
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    return ModelProto.FromString(onnxc.infer(model).SerializeToString())


def _declared(name: str, x: np.ndarray, known: Collection[int] | None) -> str:
    sizes = [
        str(size) if known is None or axis in known or axis - x.ndim in known else f"{name}{axis}"
        for axis, size in enumerate(x.shape)
    ]
    shape = f"[{', '.join(sizes)}]" if sizes else ""
    return f"{TEXT_NAMES.get(x.dtype.name, x.dtype.name)}{shape} {name}"


def run(model: object, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What the interpreter computes."""
    outputs = onnxc.compile(model, target="interpreter")(*inputs)  # type: ignore[arg-type]
    return [np.asarray(each) for each in (outputs if isinstance(outputs, tuple) else (outputs,))]


def assert_same_in(target: int, model: ModelProto, inputs: Sequence[np.ndarray], *, signs: bool = True) -> None:
    """The model in the version `target` is legal, and gives the values, types and shapes that it gave.

    signs: of zeros too, which sums may lose.
    """
    older = ModelProto.FromString(onnxc.convert_version(model, target).SerializeToString())
    if all(info.type.tensor_type.HasField("shape") for info in older.graph.output):
        checker.check_model(older)
    assert [opset.version for opset in older.opset_import] == [target]
    for computed, expected in zip(run(older, inputs), run(model, inputs), strict=True):
        assert (computed.dtype, computed.shape) == (expected.dtype, expected.shape)
        if expected.dtype.kind != "f":
            np.testing.assert_array_equal(computed, expected)
            continue
        tolerance = TOLERANCES[expected.dtype.name]
        np.testing.assert_allclose(computed, expected, rtol=tolerance, atol=tolerance)
        if signs:
            np.testing.assert_array_equal(np.signbit(computed[expected == 0]), np.signbit(expected[expected == 0]))
