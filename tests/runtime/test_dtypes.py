"""The names of element types, which the compiler and the runtime must mean alike."""

import pytest

from onnxc.compiler.ir import dtypes
from onnxc.runtime.dtypes import DTYPES, dtype_name


def test_the_compiler_and_the_runtime_have_the_same_types() -> None:
    assert {name: dtype.numpy for name, dtype in dtypes.DTYPES.items()} == DTYPES


@pytest.mark.parametrize("name", [name for name in DTYPES if name != "string"])
def test_names_lead_back(name: str) -> None:
    assert dtype_name(DTYPES[name]) == name
