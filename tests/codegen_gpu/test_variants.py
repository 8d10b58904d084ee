"""Which of two ways a call takes: one of them, whatever the sizes, and the one that is meant."""

import pytest

from onnxc.compiler.codegen_gpu.source.kernel_source import DeviceStep, KernelCode, KernelSource
from onnxc.compiler.codegen_gpu.variants import few_and_long
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import Dim, Size

SHARED, GENERAL = (
    KernelCode((DeviceStep(KernelSource(name, ()), (1, 1, 1), ()),), scratch) for name, scratch in (("s", 64), ("g", 0))
)


def _taken(code: KernelCode, **sizes: int) -> list[str]:
    """The texts of the steps of a call."""
    taken = []
    for step in code.steps:
        size = 0 if step.when is None else evaluate(step.when.size, sizes)
        if step.when is None or (size >= step.when.low and (step.when.high is None or size <= step.when.high)):
            taken.append(step.source.text)
    return taken


@pytest.mark.parametrize("rows", [0, 1, 4, 5, 10**9])
@pytest.mark.parametrize("columns", [0, 1, 99, 100, 10**9])
@pytest.mark.parametrize("known", ["", "rows", "columns", "both"])
def test_one_way_is_taken(rows: int, columns: int, known: str) -> None:
    count: Dim = rows if known in ("rows", "both") else Size.symbol("N")
    length: Dim = columns if known in ("columns", "both") else Size.symbol("M")
    code = few_and_long(SHARED, GENERAL, (count, 4), (length, 100))
    assert _taken(code, N=rows, M=columns) == ["s" if rows <= 4 and columns >= 100 else "g"]


def test_memory_is_for_either_way() -> None:
    assert few_and_long(SHARED, GENERAL, (Size.symbol("N"), 4), (100, 100)).scratch_bytes == 64
    assert few_and_long(SHARED, GENERAL, (5, 4), (100, 100)) == GENERAL
