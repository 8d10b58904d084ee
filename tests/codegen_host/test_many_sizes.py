"""Models with hundreds of sizes that data decides: their code grows as they do, not as the square of it."""

import re
from collections.abc import Callable

import numpy as np
import onnx
import pytest

import onnxc
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.sizes import emit_estimate, emit_size
from onnxc.compiler.ir.dims import Dim, Size, mod
from onnxc.runtime.errors import UnsupportedError


def of_classes(count: int) -> onnx.ModelProto:
    """As detectors end: of each class the scores above a bound, their positions joined."""
    lines, joined = [], []
    for k in range(count):
        lines += [
            f"s{k} = Gather<axis = 0>(scores, i{k})",
            f"above{k} = Greater(s{k}, bound)",
            f"indices{k} = NonZero(above{k})",
            f"at{k} = Transpose<perm = [1, 0]>(indices{k})",
            f"kept{k} = GatherND(s{k}, at{k})",
            f"twice{k} = Add(kept{k}, kept{k})",
        ]
        joined.append(f"twice{k}")
    constants = ", ".join(f"int64 i{k} = {{{k}}}" for k in range(count))
    body = "\n".join(lines)
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[{count}, n] scores) => (float[m] y)'
        f"<{constants}, float bound = {{0.0}}> {{ {body}\ny = Concat<axis = 0>({', '.join(joined)}) }}"
    )


def instructions_of(count: int) -> int:
    with pytest.raises(UnsupportedError, match="code-too-large") as refused:
        onnxc.compile(of_classes(count), cache=False, limits={"code_instructions": 1})
    stated = re.search(r"the number of instructions is (\d+)", str(refused.value))
    assert stated is not None, refused.value
    return int(stated[1])


def test_code_grows_as_the_sizes_do() -> None:
    few, some, many = (instructions_of(count) for count in (8, 24, 40))
    assert many - some <= 1.2 * (some - few)


def test_each_size_is_its_own() -> None:
    executable = onnxc.compile(of_classes(24))
    scores = np.random.default_rng(0).standard_normal((24, 9)).astype(np.float32)
    for rows in (scores, scores[:, :1], scores[:, :0], -abs(scores)):
        y = executable.run({"scores": rows})["y"]
        np.testing.assert_array_equal(y, 2 * rows[rows > 0])


@pytest.mark.parametrize("emit", [emit_estimate, emit_size])
def test_code_of_a_size_grows_with_what_is_different_in_it(emit: Callable[..., object]) -> None:
    dim: Dim = Size.symbol("N")
    f = FunctionBuilder("f", [("i64", "n")], returns="i64")
    for _ in range(12):
        dim = mod(2 * dim + 7, dim + 1)
    emit(dim, {"N": f.parameters[0]}, f)
    assert f.length <= 12 * 20
