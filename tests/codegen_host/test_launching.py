"""How much LLVM does for functions that launch kernels."""

from itertools import pairwise

import numpy as np
import onnx
import pytest

import onnxc
from onnxc.compiler.codegen_host import compile_objects
from onnxc.compiler.codegen_host.effort import Effort, effort_of
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.compiler.target import Target


def cumulative_sums(count: int) -> onnx.ModelProto:
    """Each of them a launch."""
    names = ["x", *(f"s{k}" for k in range(1, count)), "y"]
    body = "\n".join(f"{b} = CumSum({a}, axis)" for a, b in pairwise(names))
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, m] x) => (float[n, m] y)'
        f"<int64 axis = {{1}}> {{ {body} }}"
    )


@pytest.mark.parametrize(("launches", "effort"), [(1, "most"), (50, "least")])
def test_a_segment_of_many_launches_takes_the_least_effort(
    launches: int, effort: Effort, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []

    def noted(text: str, target: Target) -> bytes:
        compiled.append(text)
        return compile_object(text, target)

    monkeypatch.setattr(compile_objects, "compile_object", noted)
    executable = onnxc.compile(cumulative_sums(launches), cache=False)
    assert [effort_of(text) for text in compiled if "define i64 @segment0(" in text] == [effort]
    x = np.float32([[0, 1, -1, 0], [0, 0, 0, 2]])
    want = x
    for _ in range(launches):
        want = want.cumsum(axis=1, dtype=np.float32)
    np.testing.assert_array_equal(executable.run({"x": x})["y"], want)
