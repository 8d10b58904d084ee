"""Pipelines: passes in order, observers, and notes."""

import pytest

from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.ir.rewriter import Refusal, Rewriter, rewrite, rule
from onnxc.compiler.ir.verifier import InvalidModule
from onnxc.compiler.passes.notes import Note, collect_notes, note, note_refusal
from onnxc.compiler.passes.pipeline import Log, Pass, Step, run_pipeline, verify_step
from onnxc.compiler.passes.pipelines import OPTIMIZE, target_pipeline
from onnxc.compiler.passes.simplify.canonicalize import canonicalize
from onnxc.compiler.passes.simplify.eliminate_dead_code import eliminate_dead_code
from tests.passes.golden import built, f32, text_of

MODULE = built((f32(4),), lambda b, x: b.neg(b.neg(x)))


@rule("neg")
def hesitate(op: Op, build: Rewriter) -> Refusal:
    """-x stays"""
    return Refusal("it hesitates")


def hesitant(module: Module) -> Module:
    """A pass that refuses."""
    return rewrite(module, [hesitate], note_refusal)


def breaking(module: Module) -> Module:
    """A pass with a defect: its module returns what it does not make."""
    del module
    return _broken()


def _broken() -> Module:
    module = built((f32(4),), lambda b, x: b.neg(x))
    object.__setattr__(module.main.body, "ops", ())
    return module


def test_passes_run_in_order_and_observers_see_each() -> None:
    seen: list[Step] = []
    after = run_pipeline(MODULE, (canonicalize, eliminate_dead_code), [seen.append])
    assert [step.name for step in seen] == ["canonicalize", "eliminate_dead_code"]
    assert seen[0].before is MODULE
    assert seen[0].after is seen[1].before
    assert seen[1].after is after
    assert all(step.elapsed_ns > 0 for step in seen)
    assert text_of(after) == text_of(built((f32(4),), lambda b, x: x))


def test_an_empty_pipeline_changes_nothing() -> None:
    assert run_pipeline(MODULE, ()) is MODULE


def test_a_pass_that_changed_nothing_runs_again_only_behind_one_that_did() -> None:
    seen: list[Step] = []
    passes = (eliminate_dead_code, canonicalize, eliminate_dead_code, eliminate_dead_code, canonicalize)
    run_pipeline(MODULE, passes, [seen.append])
    assert [step.name for step in seen] == [
        *("eliminate_dead_code", "canonicalize", "eliminate_dead_code", "canonicalize"),
    ]


LOOP = """module "m" {
function main(%x: f32[N]) -> ("y") where N in [0, ...] {
  %0 = constant {value = i64[] 3} : i64[]
  %1 = constant {value = bool[] true} : bool[]
  %2 = exp %x : f32[N]
  guard {left = N, message = "no", relation = "at_least", right = 1}
  %3 = while %0, %1, %x, %2 {carried = 1, scans = 0, symbol = "n"} : f32[N]
    block(%i: i64[], %c: f32[N], %a: f32[N]) {
      %4 = add %c, %a : f32[N]
      %5 = constant {value = bool[] true} : bool[]
      return %5, %4
    }
  return %3
}
}"""


@pytest.mark.parametrize("run", dict.fromkeys(OPTIMIZE), ids=lambda run: run.__name__)
def test_a_pass_gives_back_the_module_that_it_leaves_as_it_is(run: Pass) -> None:
    module = run_pipeline(parse_module(LOOP), OPTIMIZE)
    assert [op.name for op in module.main.body.ops][-1] == "while"
    assert run(module) is module


def test_a_broken_module_is_found_after_the_pass_that_broke_it() -> None:
    with pytest.raises(InvalidModule, match="after breaking"):
        run_pipeline(MODULE, (canonicalize, breaking, eliminate_dead_code), [verify_step])


def test_what_was_declined_is_logged_once_with_its_place() -> None:
    log = Log()
    run_pipeline(MODULE, (hesitant, canonicalize), [log])
    assert [name for name, _ in log.timings] == ["hesitant", "canonicalize"]
    assert log.notes == [("hesitant", Note("hesitate", "it hesitates", None))]
    assert str(log.notes[0][1]) == "hesitate: it hesitates"


def test_notes_without_a_listener_go_nowhere() -> None:
    note("a", "b")
    with collect_notes() as outer:
        with collect_notes() as inner:
            note("a", "b")
        note("c", "d")
    assert (len(inner), len(outer)) == (1, 1)


def test_pipelines_are_tuples_of_passes_named_as_their_files() -> None:
    pipelines = (target_pipeline("cpu"), target_pipeline("cuda", "tf32"), target_pipeline("cuda", "bf16"))
    for transform in (*OPTIMIZE, *sum(pipelines, ())):
        assert transform.__module__.startswith("onnxc.compiler.passes.")
        assert transform.__module__.endswith(f".{transform.__name__}")
        assert (transform.__doc__ or "").strip()


def test_precision_comes_before_layouts_and_after_what_is_taken_apart() -> None:
    names = [transform.__name__ for transform in target_pipeline("cpu", "fp16")]
    apart = ["host_triton_calls", "decompose_attention", "decompose_rotary", "count_non_zero", "chirp_transforms"]
    apart.append("rows_of_batches")
    apart += ["decompose_byte_blocks"]
    assert names[: names.index("lower_precision")] == apart
    names = [transform.__name__ for transform in target_pipeline("cuda", "bf16")]
    apart = ["host_native_calls", "take_bounds", "decompose_attention", "decompose_rotary", "decompose_byte_blocks"]
    apart += ["count_non_zero", "decompose_without_kernels", "rows_of_batches", "lower_precision"]
    assert names[: names.index("choose_layout_through_norms")] == apart
    assert target_pipeline("cuda", "tf32") == target_pipeline("cuda")
