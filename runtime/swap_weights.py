"""Other weights for a compiled model: the same artifact, with other bytes where inputs have their defaults.

A weight keeps its type and shape, so neither the program nor the code knows of it.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from onnxc.runtime.arrays import describe, import_array, plain_mapping
from onnxc.runtime.artifact import Artifact
from onnxc.runtime.dtypes import DTYPES
from onnxc.runtime.errors import InputError, UnsupportedError
from onnxc.runtime.native.aligned_memory import allocate_aligned
from onnxc.runtime.program import Parameter, Program
from onnxc.runtime.random_state import RANDOM_STATE
from onnxc.runtime.signature import default_shape

__all__ = ["swap_weights"]

_ADVICE = (
    "compile with freeze_params=False, which makes weights of floats and of integers of at most 8 bits; "
    "booleans, texts and what decides shapes are weights where the model declares them as inputs"
)


def swap_weights(artifact: Artifact, values: Mapping[str, object]) -> Artifact:
    """The artifact with these values as the defaults of the inputs that they name; its file is not changed.

    Raises InputError for a name that is none of them, and for another type or shape.
    """
    expected = "a mapping from names to arrays"
    if not isinstance(values, Mapping):
        raise InputError(f"with_weights takes {expected}, {describe(values)} came", code="weights-mapping")
    given = plain_mapping(values, "what with_weights takes", expected, "weights-mapping")
    arrays = {_weight(artifact.program, str(name)): value for name, value in given.items()}
    imported = [(parameter, _fitting(parameter, value)) for parameter, value in arrays.items()]
    weights = allocate_aligned(artifact.weights.nbytes)
    weights[...] = artifact.weights
    for parameter, array in imported:
        assert parameter.default is not None, parameter
        region = weights[parameter.default : parameter.default + array.nbytes]
        region.view(array.dtype).reshape(array.shape)[...] = array
    before = artifact.provenance.get("swapped_weights", ())
    names = {*(before if isinstance(before, list | tuple) else ()), *given}
    provenance = {**artifact.provenance, "swapped_weights": sorted(map(str, names))}
    return replace(artifact, weights=weights, provenance=provenance, file=None)


def _weight(program: Program, name: str) -> Parameter:
    """The input of this name, which has a default."""
    weights = {parameter.name: parameter for parameter in program.inputs if _is_weight(parameter)}
    if name not in weights:
        known = ", ".join(weights) or f"none: {_ADVICE}"
        raise InputError(f"there is no weight {name!r} to swap; there are {known}", code="unknown-weight")
    if weights[name].dtype == "string":
        message = f"weight {name!r} holds texts, which take another number of bytes each time"
        raise UnsupportedError(message, code="unsupported-option")
    return weights[name]


def _is_weight(parameter: Parameter) -> bool:
    return parameter.default is not None and parameter.name != RANDOM_STATE


def _fitting(parameter: Parameter, value: object) -> np.ndarray:
    """The value as an array that takes the place of the default."""
    array = import_array(value, DTYPES[parameter.dtype], f'weight "{parameter.name}"', parameter.text)
    shape = default_shape(parameter)
    if array.shape != shape:
        message = f'weight "{parameter.name}" is {describe(array)}, expected {parameter.text}'
        raise InputError(message, code="weight-shape")
    assert array.nbytes == prod(shape) * DTYPES[parameter.dtype].itemsize, parameter
    return array
