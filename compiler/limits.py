"""How far a model may go: bounds that keep a hostile model from taking all memory or all time.

The defaults are far above what real models need. Whoever trusts a model may raise them, `onnxc.compile(model,
limits={"expanded_nodes": 10_000_000})`; each is checked, and has a diagnostic of its own.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from typing import TypeVar

from onnxc.compiler.option_types import expect_integer, expect_mapping
from onnxc.runtime.errors import InputError, UnsupportedError
from onnxc.runtime.records import record

__all__ = ["DEFAULT_LIMITS", "Limits", "expect_within", "limited_to", "limits_in_force", "make_limits", "raising"]

T = TypeVar("T")

# Python's stack bounds what recursion over graphs can take.
_DEEPEST = 100


@record
class Limits:
    """The greatest of each that is accepted.

    nesting_depth: levels of graphs in graphs and calls in calls, together. At most 100.
    type_depth: levels of types in types, as in a sequence of maps. At most 100.
    functions: functions of the model.
    expanded_nodes: nodes that expanding every call of a function adds to those that the model stores.
    name_bytes: the length of a name in UTF-8.
    tensor_rank: axes of a tensor. At most 64.
    tensor_elements: elements of a tensor, as declared or stored.
    dense_bytes: what a sparse tensor takes made dense.
    folding_work: elementary operations of constant folding in all; beyond it ops stay for the run.
    folding_bytes: what the constants may take that folding makes; beyond it ops stay for the run.
    lowered_ops: ops of the intermediate representation that the nodes become.
    code_instructions: instructions of all functions for a processor, before LLVM works on them.
    loop_rounds: rounds of a loop that a condition ends; a call that goes beyond them is given up.
    findings_per_code: findings of one kind that are told apart.
    """

    nesting_depth: int = 60
    type_depth: int = 16
    functions: int = 10_000
    # Checking and lowering a node takes about 1 ms.
    expanded_nodes: int = 20_000
    name_bytes: int = 16_384
    tensor_rank: int = 64
    tensor_elements: int = 1 << 48
    dense_bytes: int = 1 << 30
    folding_work: int = 1 << 29
    folding_bytes: int = 1 << 33
    # The passes and planning take about 1 ms an op; real models have some thousands.
    lowered_ops: int = 50_000
    # LLVM takes about 0.1 ms an instruction; ResNet-50 has 29 000.
    code_instructions: int = 400_000
    # A round takes some 5 ns or more: beyond it nobody waits for an answer.
    loop_rounds: int = 1 << 34
    findings_per_code: int = 100


DEFAULT_LIMITS = Limits()

_IN_FORCE: ContextVar[Limits] = ContextVar("limits", default=DEFAULT_LIMITS)

_MOST = {"nesting_depth": _DEEPEST, "type_depth": _DEEPEST, "tensor_rank": 64}


def make_limits(limits: Limits | Mapping[str, int] | None) -> Limits:
    """The limits that a caller asks for: the defaults, save those named.

    Raises InputError.
    """
    if limits is None:
        return DEFAULT_LIMITS
    if isinstance(limits, Limits):
        limits = {field.name: getattr(limits, field.name) for field in fields(Limits)}
    known = [field.name for field in fields(Limits)]
    chosen: dict[str, int] = {}
    for name, given in expect_mapping("limits", limits).items():
        if name not in known:
            raise InputError(f"limits names {name!r}, known are {', '.join(known)}", code="unknown-limit")
        value = chosen[name] = expect_integer(f"limits[{name!r}]", given)
        most = _MOST.get(name)
        if value < 1 or (most is not None and value > most):
            wanted = "at least 1" if most is None else f"1 to {most}"
            raise InputError(f"limits[{name!r}] is {value}, expected {wanted}", code="limit-range")
    return Limits(**chosen)


@contextmanager
def limited_to(limits: Limits) -> Iterator[None]:
    """Within this the passes, which are functions of a module alone, keep to `limits`."""
    token = _IN_FORCE.set(limits)
    try:
        yield
    finally:
        _IN_FORCE.reset(token)


def limits_in_force() -> Limits:
    """The limits of the innermost `limited_to`, else the defaults."""
    return _IN_FORCE.get()


def expect_within(limit: str, count: int, what: str, code: str, parts: Mapping[T, int]) -> None:
    """Raises UnsupportedError where `count`, which `what` is, goes beyond the limit of that name in force.

    parts: how much of it comes from each node, None for what comes from no node; the error names that of the most.
    """
    most: int = getattr(limits_in_force(), limit)
    if count <= most:
        return
    largest = max((node for node in parts if node is not None), key=parts.__getitem__, default=None)
    where = "" if largest is None else f"\n  --> {largest}: {parts[largest]} of them"
    raise UnsupportedError(f"{what} is {count}; {raising(limit, most)}{where}", code=code)


def raising(limit: str, most: int) -> str:
    """What a message says of a limit that is exceeded."""
    return f'the limit {limit} is {most}, and limits={{"{limit}": ...}} raises it'
