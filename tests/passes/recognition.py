"""What the tests of the recognising passes share: tidied before, counted after, and the same meaning."""

from collections import Counter
from collections.abc import Sequence

from onnxc.compiler.ir.module import Module, walk
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.ir.verifier import verify_module
from onnxc.compiler.passes.notes import collect_notes
from onnxc.compiler.passes.pipeline import Pass, run_pipeline
from onnxc.compiler.passes.simplify.canonicalize import canonicalize
from onnxc.compiler.passes.simplify.eliminate_common_subexpressions import eliminate_common_subexpressions
from onnxc.compiler.passes.simplify.fold_constants import fold_constants
from tests.passes.golden import Make, assert_same_meaning, built

TIDY: tuple[Pass, ...] = (canonicalize, fold_constants, canonicalize, eliminate_common_subexpressions)

TRIVIAL = ("constant", "broadcast", "reshape", "transpose", "iota", "sizes")


def recognized(
    transform: Pass, types: Sequence[TensorType], make: Make, sizes: Sequence[int] = (1, 3), odd: bool = True
) -> Module:
    """The module that `transform` makes of a tidy one, after asserting that it means the same."""
    before = run_pipeline(built(types, make), TIDY)
    after = transform(before)
    verify_module(after)
    assert_same_meaning(before, after, sizes, rounds=True, odd=odd)
    return after


def names(module: Module) -> list[str]:
    """The names of the ops that compute something, in order."""
    return [op.name for op in walk(module.main.body) if op.name not in TRIVIAL]


def count(module: Module, name: str) -> int:
    return Counter(op.name for op in walk(module.main.body))[name]


def reasons(transform: Pass, types: Sequence[TensorType], make: Make) -> list[str]:
    """Why `transform` refuses what it nearly matches."""
    before = run_pipeline(built(types, make), TIDY)
    with collect_notes() as notes:
        after = transform(before)
    assert names(after) == names(before)
    return sorted({note.reason for note in notes})
