"""Passes keep the meaning of programs: random ones compute the same before and after."""

import pytest
from hypothesis import HealthCheck, given, settings

from onnxc.compiler.ir.module import Module
from onnxc.compiler.ir.printer import print_module
from onnxc.compiler.ir.verifier import verify_module
from onnxc.compiler.passes.pipeline import Pass, run_pipeline, verify_step
from onnxc.compiler.passes.simplify.canonicalize import canonicalize
from onnxc.compiler.passes.simplify.eliminate_common_subexpressions import eliminate_common_subexpressions
from onnxc.compiler.passes.simplify.eliminate_dead_code import eliminate_dead_code
from onnxc.compiler.passes.simplify.fold_constants import fold_constants
from onnxc.compiler.passes.simplify.simplify_sizes import simplify_sizes
from tests.passes.golden import assert_same_meaning
from tests.passes.programs import programs

EXACT = (
    canonicalize,
    eliminate_common_subexpressions,
    eliminate_dead_code,
    fold_constants,
    simplify_sizes,
)
slowly = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("transform", EXACT, ids=lambda transform: transform.__name__)
@slowly
@given(module=programs())
def test_exact_passes_keep_every_bit(transform: Pass, module: Module) -> None:
    after = transform(module)
    verify_module(after)
    assert_same_meaning(module, after, (0, 1, 3), rounds=False)


@slowly
@given(module=programs())
def test_exact_passes_together_keep_every_bit(module: Module) -> None:
    after = run_pipeline(module, EXACT * 2, [verify_step])
    assert_same_meaning(module, after, (0, 1, 3), rounds=False)


@slowly
@given(module=programs())
def test_canonicalization_ends_and_is_the_same_every_time(module: Module) -> None:
    once = canonicalize(module)
    assert print_module(once) == print_module(canonicalize(module))
    # What is used once only after dead code has gone is seen by the next run.
    settled = canonicalize(canonicalize(once))
    assert print_module(canonicalize(settled)) == print_module(settled)
