"""How each type that an operator's schema allows runs on the CPU, found out by planning models of one node.

`python -m tests.support.type_support` tries all of them, which takes minutes, and writes type_support.json beside it.
"""

import json
import multiprocessing
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from onnxc.compiler.driver import run_stages
from onnxc.compiler.options import CompileOptions, make_options
from onnxc.compiler.planning.kernel_plan import Collective, HostStep, KernelPlan, Region, Segment, regions_of
from onnxc.runtime.errors import OnnxcError
from tests.differential.case import Pair, drawable, make_case, schemas
from tests.support.coverage import HOW, TYPE_SUPPORT

SEED = 0
TRIES = 3

"""Ops outside native code that compute nothing themselves."""


def supported_types(pair: Pair) -> dict[str, str]:
    """How the operator version runs with each type of its first type parameter, at the best of a few draws."""
    constraints = schemas()[pair].type_constraints
    types = sorted(constraints[0].allowed_type_strs) if constraints else [""]
    found: dict[str, str] = dict.fromkeys(map(short, types), "none")
    for number in range(TRIES * len(types)):
        if number >= len(types) and not {"known", "none"} & set(found.values()):
            break
        kind, how = planned(pair, number)
        found[kind] = min(found[kind], how, key=[*HOW].index)
    return found


def short(kind: str) -> str:
    """float for tensor(float), other types as they are."""
    return kind.removeprefix("tensor(").removesuffix(")") if kind.startswith("tensor(") else kind


def planned(pair: Pair, number: int) -> tuple[str, str]:
    """The type that a case draws for the first type parameter, and how its plan runs."""
    case = make_case(pair, number, SEED)
    constraints = schemas()[pair].type_constraints
    kind = short(case.types[constraints[0].type_param_str]) if constraints else ""
    try:
        plan = dict(stages_to_plan(case.model.SerializeToString()))["plan"]
    except OnnxcError:
        return kind, "none"
    assert isinstance(plan, KernelPlan), plan
    places = set(work_places(plan.body))
    return kind, {0: "known", 1: next(iter(places), "")}.get(len(places), "native and host")


def stages_to_plan(model: bytes) -> Iterator[tuple[str, object]]:
    for name, noun in run_stages(model, cpu()):
        yield name, noun
        if name == "plan":
            return


@cache
def cpu() -> CompileOptions:
    return make_options("cpu")


def work_places(body: Region) -> Iterator[str]:
    """Where the steps of a plan compute: native, host."""
    for step in body.steps:
        if isinstance(step, Segment):
            yield from ["native"] * bool(step.launches)
        elif isinstance(step, HostStep | Collective):
            yield "host"
        for inner in regions_of(step):
            yield from work_places(inner)


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
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        found = dict(pool.imap_unordered(described, pairs))
    lines = [f"{json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found)]
    TYPE_SUPPORT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write_support(drawable())
