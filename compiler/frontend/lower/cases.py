"""Telling cases apart: what follows a node is tried in each case, and the cases that can be are joined.

Where one alone can be, it is the program, and the call checks that it is the case at hand. A trial ends at the first
thing that speaks against it, so that little is lowered in cases that cannot be.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from onnxc.compiler.diagnostics import DiagnosedModelError
from onnxc.compiler.frontend.case_split import MOST_AXES, CaseSplit, ConditionSplit, RankSplit
from onnxc.compiler.frontend.graph import GraphNode
from onnxc.compiler.frontend.joining.joined_branches import joined_branches
from onnxc.compiler.frontend.joining.joined_types import is_rankless, joined_element
from onnxc.compiler.frontend.joining.squeezed_ones import squeezed
from onnxc.compiler.frontend.lower.attempt import Attempt
from onnxc.compiler.frontend.lower.declared import of_declared_shape
from onnxc.compiler.frontend.lower.frame import Assumptions, Frame, GraphOutcome
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Block, Value
from onnxc.compiler.ir.types import ANY_SIZE, TensorType, Type
from onnxc.runtime.records import record

MOST_CONDITIONS = 3
"""How many conditions may stand one after another: each doubles what follows it; beyond, ranks are left to data.

Of the 2,033 official cases four tell cases apart: at most one condition and two ranks, one after another.
"""

MOST_RANKS = 8
"""How many operands of unknown rank may stand one after another: each is a recursion of the walk.

The work is bounded elsewhere. Four in a row whose results are declared take 1,115 of it, and 0.1 s.
"""

MOST_ELEMENTS = 8
"""How long a shape, or a list of axes, of unknown length may be. Each more is a copy of all that follows."""

TOO_MANY = "there are more cases than are told apart"

Lower = Callable[[Frame], GraphOutcome]
"""Lowers a node, and all that follows it in its graph."""

Join = Callable[[Sequence[Block], Builder, str], Sequence[Value]]
"""The values that come from one of several blocks; a ModelError cites the rule."""


@record
class Trial:
    """What became of a case: `frame` holds its names, its ops and what was found, `results` are those of the graph."""

    frame: Frame
    results: GraphOutcome

    @property
    def objection(self) -> str | None:
        """Why the case cannot be, or None where it can."""
        return self.frame.attempt.objection

    def block(self) -> Block:
        """The ops of the case."""
        assert not isinstance(self.results, ConditionSplit), self.results
        return self.frame.ir.block((), [result for result in self.results if result is not None])


def may_split_by_condition(frame: Frame) -> bool:
    """Whether one more condition may be told apart."""
    return len(frame.assumptions.conditions) < MOST_CONDITIONS and not frame.session.is_spent


def may_split_by_rank(frame: Frame) -> bool:
    """Whether one more operand of unknown rank may be told apart."""
    return len(frame.assumptions.values) < MOST_RANKS and not frame.session.is_spent


def lower_cases(split: CaseSplit, node: GraphNode, frame: Frame, lower: Lower) -> GraphOutcome:
    """The outputs of the graph where `node` asks for cases; `lower` lowers the node and all after it."""
    if isinstance(split, RankSplit):
        return _lower_ranks(split, node, frame, lower)
    return _lower_either(split, node, frame, lower)


def _lower_either(split: ConditionSplit, node: GraphNode, frame: Frame, lower: Lower) -> GraphOutcome:
    """Where a condition decides: both cases, or the one that can be. Where none can, all that speaks against one."""
    trials = {}
    for holds in (True, False):
        assumptions = frame.assumptions.with_condition(split.key, holds)
        trials[holds] = _tried(frame, frame.ir.nested(), assumptions, lower)
    if frame.session.is_spent:
        return lower(frame)
    possible = [holds for holds, trial in trials.items() if trial.objection is None]
    if len(possible) == 2:
        return _joined([trials[True], trials[False]], node, frame, partial(joined_branches, split.condition))
    if not possible:
        return lower(replace(frame, assumptions=frame.assumptions.with_condition(split.key, holds=True)))
    (holds,) = possible
    _expect_condition(split.condition, holds, str(trials[not holds].objection), frame.ir)
    return _adopted(trials[holds], frame)


def _lower_ranks(split: RankSplit, node: GraphNode, frame: Frame, lower: Lower) -> GraphOutcome:
    """Where a rank or a size decides: all cases that can be. Where none can, the node cannot be lowered yet.

    Where it is shapes declared of outputs that speak against all of them, these speak against none.
    """
    work = frame.session.work_left
    trials = _possible_ranks(split, frame, lower)
    if not trials and not frame.attempt.is_trial:
        doubting = replace(frame, attempt=Attempt(trusts_outputs=False))
        trials = _possible_ranks(split, doubting, lower)
    if frame.session.is_spent:
        return _impossible(f"{split.reason}, and {TOO_MANY}", node, frame, lower, work)
    if not trials:
        return _impossible(split.reason, node, frame, lower, work)
    if len(trials) == 1:
        (only,) = trials.values()
        return _adopted(only, frame)
    return _joined([*trials.values()], node, frame, partial(_one_of_ranks, split, [*trials]))


def _possible_ranks(split: RankSplit, frame: Frame, lower: Lower) -> dict[int, Trial]:
    """By rank or size, the cases that nothing speaks against, as far as there is time to tell them apart.

    For types alone, no more than are needed to tell these.
    """
    trials: dict[int, Trial] = {}
    for count in _counts(split):
        nested = frame.ir.nested()
        assumptions = frame.assumptions.with_value(split.value, _taken(split, count, nested))
        trial = _tried(frame, nested, assumptions, lower)
        if frame.session.is_spent:
            break
        if trial.objection is None:
            trials[count] = trial
        if len(trials) > 1 and frame.session.only_types and _are_settled(trials.values()):
            break
    return trials


def _are_settled(trials: Iterable[Trial]) -> bool:
    """Whether no further case changes a type that was found: each is one of all ranks, or of several element types."""
    joined: dict[tuple[str, str], Type | None] = {}
    for case in chain.from_iterable(trial.frame.attempt.types for trial in trials):
        before = joined.setdefault((case.path, case.name), case.type)
        joined[case.path, case.name] = None if before is None else joined_element(before, case.type)
    return all(type is None or is_rankless(type) for type in joined.values())


def _tried(frame: Frame, ir: Builder, assumptions: Assumptions, lower: Lower) -> Trial:
    """A case lowered into a block of its own."""
    attempt = Attempt(is_trial=True, trusts_outputs=frame.attempt.trusts_outputs)
    scope, named = dict(frame.scope), dict(frame.named)
    own = replace(frame, scope=scope, named=named, ir=ir, attempt=attempt, assumptions=assumptions, is_inlined=False)
    return Trial(own, lower(own))


def _adopted(trial: Trial, frame: Frame) -> GraphOutcome:
    """The outputs of the only case that can be, which goes on in the block around it."""
    frame.ir.adopt(trial.frame.ir)
    frame.scope.update(trial.frame.scope)
    frame.named.update(trial.frame.named)
    frame.attempt.keep(trial.frame.attempt)
    return trial.results


def _joined(trials: Sequence[Trial], node: GraphNode, frame: Frame, join: Join) -> GraphOutcome:
    """The outputs of whichever case it is at the call."""
    for trial in trials:
        frame.attempt.keep(trial.frame.attempt)
    if any(None in trial.results for trial in trials if not isinstance(trial.results, ConditionSplit)):
        # Something before is of an operator of others.
        return (None,) * len(frame.graph.outputs)
    try:
        return join([trial.block() for trial in trials], frame.ir, f"ONNX {node.operator}")
    except DiagnosedModelError as problem:
        frame.attempt.findings += problem.diagnostics
        return (None,) * len(frame.graph.outputs)


def _impossible(reason: str, node: GraphNode, frame: Frame, lower: Lower, work: int) -> GraphOutcome:
    """No outputs, as the node cannot be lowered yet; for types alone, what follows from those that are declared."""
    if frame.goes_on:
        frame.session.give_up(frame.key_of(node), work)
        return lower(frame)
    frame.note_unsupported(node.location, reason)
    return (None,) * len(frame.graph.outputs)


# The ops that tell cases apart


def _counts(split: RankSplit) -> Sequence[int]:
    """The ranks, or the sizes of the axis, that are told apart."""
    if split.rank is not None:
        return (split.rank,)
    if split.axis is not None:
        return range(MOST_ELEMENTS + 1)
    source = squeezed(split.value)
    return range(MOST_AXES + 1) if source is None else source.ranks


def _taken(split: RankSplit, count: int, ir: Builder) -> Value:
    """The tensor with its unknown rank, or the unknown size of its axis, taken to be `count`, which the call checks."""
    value = split.value
    if split.is_element:
        return ir.host("only_element", (value,), (TensorType(value.tensor.dtype, ()),), {})[0]
    if split.axis is None:
        return of_declared_shape(value, TensorType(value.tensor.dtype, (ANY_SIZE,) * count), ir)
    size = value.shape[split.axis]
    ir.guard(size, count, "equal", f"{split.reason}: it is none of those that are told apart")
    axis = split.axis % value.rank
    return ir.with_shape(value, [*value.shape[:axis], count, *value.shape[axis + 1 :]])


def _one_of_ranks(
    split: RankSplit, counts: Sequence[int], blocks: Sequence[Block], ir: Builder, rule: str
) -> Sequence[Value]:
    """The results of the block for the rank or size that is at hand."""
    return _chosen(_count(split, counts, ir), counts, blocks, ir, rule)


def _chosen(actual: Value, counts: Sequence[int], blocks: Sequence[Block], ir: Builder, rule: str) -> Sequence[Value]:
    """The results of the block for the count that is `actual`; of the last one where it is none of the others."""
    last = blocks[1]
    if len(blocks) > 2:
        nested = ir.nested()
        last = nested.block((), _chosen(actual, counts[1:], blocks[1:], nested, rule))
    return joined_branches(ir.equal(actual, counts[0]), (blocks[0], last), ir, rule)


def _count(split: RankSplit, counts: Sequence[int], ir: Builder) -> Value:
    """i64[]: the rank, which the call checks to be one of `counts`, or the size of the axis, that is at hand."""
    if split.axis is not None:
        return ir.size(split.value.shape[split.axis])
    source = squeezed(split.value)
    if source is not None:
        return source.rank(ir)
    return ir.host("rank_of", (split.value,), (TensorType(I64, ()),), {"ranks": tuple(counts)})[0]


def _expect_condition(condition: Value, holds: bool, reason: str, ir: Builder) -> None:
    """At the call: an InputError unless the condition is the case that can be; `reason` speaks against the other."""
    (actual,) = ir.read_sizes(ir.reshape(ir.cast(condition, I64), (1,)), "condition")
    ir.guard(actual, int(holds), "equal", f"the condition of an If cannot be {not holds}: {reason}")
