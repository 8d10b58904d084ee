"""How each type that an operator's schema allows runs on the CPU, found out by planning models of one node.

`python -m tests.support.type_support` tries all of them in 2 minutes of a core, and writes type_support.json beside it;
`python -m tests.support.type_support Cast Pad` tries these operators anew and keeps what was written of the others.
"""

import json
import multiprocessing
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from onnxc.compiler.driver import run_stages
from onnxc.compiler.options import CompileOptions, make_options
from onnxc.compiler.planning.kernel_plan import Collective, HostStep, KernelPlan, Region, Routine, Segment, regions_of
from onnxc.runtime.errors import OnnxcError
from tests.differential.case import Pair, drawable, first_type, make_case, schemas
from tests.support.coverage import HOW, TYPE_SUPPORT, type_support

SEED = 0
# After 3 draws, 50 types of 20 operators that compute something had left nothing to do at run time, as their operands
# were drawn as constants or their sizes as 1.
TRIES = 8


def supported_types(pair: Pair) -> dict[str, str]:
    """How the operator version runs with each type of its first type parameter, at the best of a few draws.

    Only a type that was refused, or that left nothing to do at run time, is drawn again.
    """
    constraints = schemas()[pair].type_constraints
    types = sorted(constraints[0].allowed_type_strs) if constraints else [""]
    ways = dict.fromkeys(map(short, types), "none")
    for number in range(TRIES * len(types)):
        kind = short(first_type(pair, number, SEED)) if constraints else ""
        if ways[kind] in ("known", "none"):
            ways[kind] = min(ways[kind], planned(pair, number), key=[*HOW].index)
    return ways


def short(kind: str) -> str:
    """float for tensor(float), other types as they are."""
    return kind.removeprefix("tensor(").removesuffix(")") if kind.startswith("tensor(") else kind


def planned(pair: Pair, number: int) -> str:
    """How the plan of a case runs."""
    case = make_case(pair, number, SEED)
    try:
        plan = dict(stages_to_plan(case.model.SerializeToString()))["plan"]
    except OnnxcError:
        return "none"
    assert isinstance(plan, KernelPlan), plan
    ways = set(ways_of_work(plan.body))
    return {0: "known", 1: next(iter(ways), "")}.get(len(ways), "native and host")


def stages_to_plan(model: bytes) -> Iterator[tuple[str, object]]:
    for name, noun in run_stages(model, cpu()):
        yield name, noun
        if name == "plan":
            return


@cache
def cpu() -> CompileOptions:
    return make_options("cpu")


def ways_of_work(body: Region) -> Iterator[str]:
    """Where the steps of a plan compute: native, host. Routines are native in all that they hold."""
    for step in body.steps:
        if isinstance(step, Segment):
            yield from ["native"] * bool(step.launches)
        elif isinstance(step, Routine):
            yield "native"
        elif isinstance(step, HostStep | Collective):
            yield "host"
        for inner in regions_of(step):
            yield from ways_of_work(inner)


def identity(pair: Pair) -> str:
    domain, name, since = pair
    return f"{domain or 'ai.onnx'}.{name}-{since}"


def grouped(found: Mapping[str, str]) -> dict[str, list[str]]:
    """The types that run in each way, the best way first."""
    return {how: types for how in HOW if (types := [kind for kind, own in found.items() if own == how])}


def described(pair: Pair) -> tuple[str, dict[str, list[str]]]:
    """The name of an operator version, and the types that run in each way."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return identity(pair), grouped(supported_types(pair))


def write_support(pairs: Sequence[Pair]) -> None:
    """Writes what is true of these operator versions now; what was written of others stays."""
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        support = {**type_support(), **dict(pool.imap_unordered(described, pairs))}
    lines = [f"{json.dumps(name)}: {json.dumps(support[name])}" for name in sorted(support)]
    TYPE_SUPPORT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    operators = sys.argv[1:]
    write_support([pair for pair in drawable() if not operators or pair[1] in operators])
