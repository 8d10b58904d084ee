"""Two targets asked the same: whether they give the same values, or refuse with the same code.

The native one is given memory that ends at forbidden pages; an access outside of it ends the process.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnxc.compiler.driver import run_stages
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.module import Module
from onnxc.compiler.options import make_options
from onnxc.runtime.errors import OnnxcError
from onnxc.runtime.executable import Executable
from onnxc.runtime.host.values import HostValue
from onnxc.runtime.sparse_tensor import SparseTensor
from tests.fuzz.guarded import Side, guarded_copy, guarded_output
from tests.fuzz.rounding import otherwise_rounded
from tests.fuzz.unread import values_without_unread
from tests.fuzz.values import draw_feed
from tests.support.tolerance import error_bound, outside, unit

Feed = Mapping[str, object]

# How many draws of sizes and values a model gets.
DRAWS = 3

# How many times the movement that other rounding was seen to make is no difference: few runs do not find the largest.
UNSEEN = 16.0

LARGEST_WRITTEN = 1 << 28
"""Outputs of so many bytes at most are written into guarded memory too: a worker has memory for a few of them."""

PART_BYTES = 1 << 24
"""Arrays are compared in parts of so many bytes."""

# What a call is refused with where memory is short is the machine's, not the model's.
MACHINE_CODES = ("out-of-memory",)

# A call with sizes beyond any memory, with an index that is out of range, which native code tells at its end, or with
# an optional that is absent, or a shape that is not the declared one, where a host step wants it, may be wrong in other
# ways too, of which the targets meet different ones first.
FIRST_MET_CODES = (*MACHINE_CODES, "impossible-size", "index-out-of-range", "absent-optional", "declared-shape")

# What is picked where there is nothing, and what has another shape than an operator wants, may be gone from native
# code, where it decides nothing.
UNREAD_CODES = ("index-out-of-range", "sequence-position", "declared-shape")


class Disagreement(Exception):
    """What two targets say to the same inputs is not the same."""


@dataclass(frozen=True)
class Refused:
    """A call that raised an error of ours."""

    code: str


Answer = Sequence[HostValue] | Refused


@dataclass(frozen=True)
class Subject:
    """A model as both targets have it; `is_drawn` tells that random numbers decide its values."""

    data: bytes
    interpreter: Executable
    native: Executable
    is_drawn: bool


def expect_agreement(subject: Subject, seed: int) -> int:
    """Feeds the model some draws, and returns how many it took; raises Disagreement."""
    random = np.random.default_rng(seed)
    taken = 0
    for _ in range(DRAWS):
        feed = draw_feed(subject.interpreter.inputs, random)
        if feed is not None:
            expect_same_answers(subject, feed, random)
            taken += 1
    return taken


def expect_same_answers(subject: Subject, feed: Feed, random: np.random.Generator) -> None:
    """Both targets on one feed: the native one with inputs against a page behind them, then before them."""
    expected = ask(subject.interpreter, feed)
    actual = ask(subject.native, guarded_feed(feed, "behind"))
    if not subject.is_drawn:
        compare_answers(subject, feed, expected, actual, random)
    again = ask(subject.native, guarded_feed(feed, "before"))
    expect_repeated(subject, "again", actual, again)
    if not isinstance(actual, Refused) and all(isinstance(value, np.ndarray) for value in actual):
        if sum(value.nbytes for value in actual if isinstance(value, np.ndarray)) > LARGEST_WRITTEN:
            return
        for side in ("before", "behind"):
            expect_repeated(subject, "with out=", actual, ask_into(subject.native, feed, actual, side))


def ask(executable: Executable, feed: Feed) -> Answer:
    """The outputs in order, or the code of the refusal."""
    return _answer(lambda: tuple(executable.run(feed).values()))


def ask_into(executable: Executable, feed: Feed, like: Sequence[HostValue], side: Side) -> Answer:
    """As `ask`, where the outputs are written into guarded memory."""
    # An output may be listed twice. One that may be absent can be an array, and is none of those that are written.
    infos = {info.name: info for info in executable.outputs}
    out = {
        name: guarded_output(value, side) if value.dtype.kind != "O" else np.empty_like(value)
        for (name, info), value in zip(infos.items(), like, strict=True)
        if isinstance(value, np.ndarray) and info.dtype is not None
    }
    return _answer(lambda: tuple(executable.run(guarded_feed(feed, side), out=out).values()))


def ask_optimized(subject: Subject, feed: Feed) -> Answer:
    """What the interpreter says of the program that native code is made of, without what decides nothing."""
    module = next(noun for stage, noun in run_stages(subject.data, make_options()) if stage == "optimize")
    assert isinstance(module, Module), module
    return _answer(lambda: values_without_unread(module, feed))


def _answer(call: Callable[[], Sequence[HostValue]]) -> Answer:
    try:
        return call()
    except OnnxcError as refused:
        if refused.code == "unfit-step":
            raise AssertionError("the steps do not fit one another") from refused
        return Refused(refused.code)


def guarded_feed(feed: Feed, side: Side) -> Feed:
    """The feed with its tensors of numbers in guarded memory."""
    return {
        name: guarded_copy(value, side) if isinstance(value, np.ndarray) and value.dtype.kind != "O" else value
        for name, value in feed.items()
    }


def expect_repeated(subject: Subject, how: str, first: Answer, second: Answer) -> None:
    """The same call gives the same bits, wherever its memory is."""
    if isinstance(first, Refused) or isinstance(second, Refused):
        same = first == second or bool({code_of(first), code_of(second)} & set(MACHINE_CODES))
    else:
        same = subject.is_drawn or all(map(same_bits, first, second))
    if not same:
        raise Disagreement(f"{how}: {describe(first)}, then {describe(second)}")


def same_bits(one: object, other: object) -> bool:
    """Whether two values are the same to the bit; the values inside of others are looked at only where they print."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.dtype.kind != "O":
        return (one.dtype, one.shape) == (other.dtype, other.shape) and _memory(one) == _memory(other)
    return repr(one) == repr(other)


def _memory(array: np.ndarray) -> memoryview:
    """The bytes of an array, which may be most of the memory that a worker has: they are not copied."""
    return memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def compare_answers(
    subject: Subject, feed: Feed, expected: Answer, actual: Answer, random: np.random.Generator
) -> None:
    """Raises Disagreement where rounding does not explain the difference."""
    if code_of(expected) in UNREAD_CODES and not isinstance(actual, Refused):
        if all(isinstance(value, np.ndarray) and not value.size for value in actual):
            # No element wants what is picked.
            return
        expected = ask_optimized(subject, feed)
    if isinstance(expected, Refused) or isinstance(actual, Refused):
        compare_refusals(expected, actual)
        return
    steps = [unit(value.dtype) for value in feed.values() if isinstance(value, np.ndarray)]
    terms = max([value.size for value in feed.values() if isinstance(value, np.ndarray)], default=1)
    reasons = [difference(e, a, terms if any(steps) else 1) for e, a in zip(expected, actual, strict=True)]
    if not any(reasons):
        return
    module = lower_model(check_model(read_model(subject.data)))
    runs = otherwise_rounded(module, feed, random)
    if any(run is None for run in runs):
        return
    for index, (e, a, reason) in enumerate(zip(expected, actual, reasons, strict=True)):
        if reason and not is_rounding(e, a, [run[index] for run in runs if run is not None]):
            raise Disagreement(f"output {index}: {reason}")


def compare_refusals(expected: Answer, actual: Answer) -> None:
    codes = (code_of(expected), code_of(actual))
    excused = MACHINE_CODES if None in codes else FIRST_MET_CODES
    if codes[0] == codes[1] or set(codes) & set(excused):
        return
    raise Disagreement(f"interpreter: {describe(expected)}, cpu: {describe(actual)}")


def code_of(answer: Answer) -> str | None:
    return answer.code if isinstance(answer, Refused) else None


def difference(expected: HostValue, actual: HostValue, terms: int) -> str | None:
    """What two values differ in beyond the bound for a sum of `terms`; None where they do not."""
    if isinstance(expected, SparseTensor) and isinstance(actual, SparseTensor):
        parts = ((expected.values, actual.values), (expected.indices, actual.indices))
        same = expected.shape == actual.shape and not any(difference(e, a, terms) for e, a in parts)
        return None if same else f"expected {expected}, got {actual}"
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return None if type(expected) is type(actual) and repr(expected) == repr(actual) else "other values inside"
    if (expected.dtype, expected.shape) != (actual.dtype, actual.shape):
        return f"expected {expected.dtype}{list(expected.shape)}, got {actual.dtype}{list(actual.shape)}"
    if not expected.size:
        # Beside a size of 0 others may be so large that NumPy has no such array of wider elements.
        return None
    if not expected.dtype.hasobject and _same_bits(expected, actual):
        # Wider copies of large outputs have no room.
        return None
    if not unit(expected.dtype):
        wrong = np.asarray(expected != actual)
    else:
        wrong = outside(actual, expected, error_bound(expected, terms=terms))
    if not wrong.any():
        return None
    at = tuple(int(index) for index in np.argwhere(wrong)[0])
    return f"{wrong.sum()} of {wrong.size} differ, first at {at}: expected {expected[at]}, got {actual[at]}"


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays of one type and shape have the same bytes."""
    a, b = (np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in (a, b))
    return all(np.array_equal(a[at : at + PART_BYTES], b[at : at + PART_BYTES]) for at in range(0, a.size, PART_BYTES))


def is_rounding(expected: HostValue, actual: HostValue, runs: Sequence[HostValue]) -> bool:
    """Whether the difference is one that other rounding makes too, as `runs` show."""
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return any(repr(run) != repr(expected) for run in runs)
    arrays = [run for run in runs if isinstance(run, np.ndarray)]
    if any(run.shape != expected.shape for run in arrays):
        return True
    if (expected.dtype, expected.shape) != (actual.dtype, actual.shape):
        return False
    if not unit(expected.dtype):
        unsettled = np.any([run != expected for run in arrays], axis=0)
        return bool(((expected == actual) | unsettled).all())
    with np.errstate(all="ignore"):
        wide = [np.abs(run.astype(np.complex128) - expected.astype(np.complex128)) for run in arrays]
    moved = np.max(wide, axis=0)
    # Where some run overflows, or not, or to something else, nothing is known of the value.
    unsettled = np.any([_overflow(run) != _overflow(expected) for run in arrays], axis=0)
    wrong = outside(actual, expected, UNSEEN * np.where(np.isfinite(moved), moved, 0.0))
    return not (wrong & ~unsettled).any()


def _overflow(array: np.ndarray) -> np.ndarray:
    """What each element is that is not finite, 0 for those that are."""
    kinds = [np.isnan(array), np.isposinf(array.real), np.isneginf(array.real), ~np.isfinite(array)]
    return np.select(kinds, [1, 2, 3, 4], 0)


def describe(answer: object) -> str:
    return repr(answer)[:200].replace("\n", " ")
