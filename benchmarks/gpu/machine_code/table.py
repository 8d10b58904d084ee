"""The row of a model: what its kernels have, what it breaks, and how long it takes to compile, as Markdown."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.gpu.machine_code.code import MATRIX
from benchmarks.gpu.machine_code.compiled_model import CompiledModel, Request, TakenKernel
from benchmarks.gpu.machine_code.lines import (
    broken_by_kernel,
    broken_by_model,
    is_large_product,
    is_stem,
    lacks_grouped,
    stages_of,
)
from onnxc.compiler.target import Target

__all__ = ["HEAD", "Row", "broken_text", "row_of", "row_text"]

HEAD = (
    "model", "precision", "sizes", "kernels", "registers", "stack", "multiplied by", "large, not in groups", "stages",
    "narrow loads", "of the stem", "handed over", "cold s", "planned s", "warm s", "broken",
)  # fmt: skip

NAMED = 3
"""So many nodes of a kernel are named."""


@dataclass(frozen=True)
class Row:
    """The cells below `HEAD` but the last one, and what is broken: the kernel, or None for the model, and the text."""

    cells: tuple[str, ...]
    broken: tuple[tuple[TakenKernel | None, str], ...]


def row_of(request: Request, model: CompiledModel, target: Target) -> Row:
    """The row of a model."""
    kernels = model.kernels
    by_kind = Counter(kind for kernel in kernels for kind in kernel.code.matrix)
    stages = [stages for kernel in kernels if (stages := stages_of(kernel)) is not None]
    cells = (
        *request_cells(request),
        str(len(kernels)),
        str(max((kernel.device.registers for kernel in kernels), default=0)),
        str(max((kernel.device.stack_bytes for kernel in kernels), default=0)),
        ", ".join(f"{kind} {by_kind[kind]}" for kind in MATRIX if by_kind[kind]),
        str(sum(is_large_product(kernel) and lacks_grouped(kernel, target) for kernel in kernels)),
        str(min(stages)) if stages else "",
        str(sum(kernel.code.narrow_loads > 0 and not is_stem(kernel) for kernel in kernels)),
        str(sum(kernel.code.narrow_loads > 0 and is_stem(kernel) for kernel in kernels)),
        str(sum(kernel.code.handings_over > 0 for kernel in kernels)),
        *(f"{seconds:.1f}" for seconds in (model.cold_s, model.planned_s, model.warm_s)),
    )
    of_kernels = ((kernel, text) for kernel in kernels for text in broken_by_kernel(kernel, target))
    return Row(cells, (*of_kernels, *((None, text) for text in broken_by_model(model))))


def request_cells(request: Request) -> tuple[str, ...]:
    """What a row is of."""
    sizes = ",".join(f"{name}={size}" for name, size in request.sizes.items())
    return request.name, request.precision, sizes or "symbolic"


def row_text(cells: Sequence[str]) -> str:
    """A row of Markdown."""
    return f"| {' | '.join(cells)} |"


def broken_text(kernel: TakenKernel | None, text: str) -> str:
    """What is broken, and where."""
    if kernel is None:
        return text
    nodes = ", ".join(kernel.nodes[:NAMED])
    more = f" and {len(kernel.nodes) - NAMED} more" if len(kernel.nodes) > NAMED else ""
    planned = kernel.planned
    return f"{kernel.device.key[:12]} {planned.kind} ({planned.schedule.brief}) of {nodes}{more}: {text}"
