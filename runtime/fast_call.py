"""The call of a program without loops and branches, as straight-line Python written for its inputs, steps and outputs.

The time outside of native code is most of a call of a small model. Loops over inputs, method calls and attribute
chains would be most of that: of 3.1 µs for one launch of one input and one output, about 0.7 µs are left; steps of
the host, of which a classifier with labels that are texts has one, took 18 µs by way of slots and symbols.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from textwrap import indent
from types import CodeType
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.arrays import READY_FLAGS
from onnxc.runtime.dtypes import DTYPES
from onnxc.runtime.errors import InputError, OnnxcError
from onnxc.runtime.native.launch import NativeLaunch, out_of_memory
from onnxc.runtime.native.workspaces import Workspace, WorkspacePool
from onnxc.runtime.program import (
    FRAME_SYMBOLS,
    Body,
    Host,
    Launch,
    Parameter,
    Release,
    Step,
    attribute_sizes,
)
from onnxc.runtime.records import record
from onnxc.runtime.steps import UNFIT, ObserveHost, host_error, prepared_host, ready_array, unfit_step
from onnxc.runtime.values import own_values

if TYPE_CHECKING:
    from onnxc.runtime.host.values import HostValue

__all__ = ["FastCall", "Shapes", "write_fast_call"]

Shapes = tuple[tuple[int, ...], ...]

Sizes = tuple[int, ...]

# A call with shapes among so many last seen is fast.
SHAPES_KEPT = 1024

# Programs of the same inputs, steps and outputs have the same text, whatever they compute. Python takes 0.6 ms for it.
CODES_KEPT = 64

_TEMPLATE = """
def call({parameters}):
    if not ({ready}):
        return None
    resolved = known.get(({shapes}))
    if resolved is None:
        return None
    ({resolved}) = resolved
    try:
        workspace = pop()
    except IndexError:
        workspace = take()
    counts = workspace.counts
    counts.calls += 1
    try:
{steps}
    except OnnxcError:
        push(workspace)
        raise{unfit}
    push(workspace)
    return ({results})
"""

# Of a program of launches alone no step raises these; what does is the handler of a signal, whose own they are.
_UNFIT_TEMPLATE = """
    except UNFIT as problem:
        push(workspace)
        raise unfit_step(problem) from problem"""

_LAUNCH_TEMPLATE = """\
{allocate}
if workspace.sizes is not n{k}:
    workspace.prepare(n{k}, n{k}.symbols, n{k}.arena_bytes)
{ready}
{refill}
is_ill = call{k}(workspace.block, {arrays})
counts.launches += 1
if is_ill:
    raise problem{k}(workspace)
{late}"""

_ALLOCATE_TEMPLATE = """\
({shapes}) = n{k}.shapes
({makers}) = n{k}.makers
try:
    {new}
except MemoryError as problem:
    raise out_of_memory(n{k}.shapes, dtypes{k}) from problem"""

_HOST_TEMPLATE = """\
try:
    ({outputs}) = n{k}({inputs})
except (InputError, MemoryError) as problem:
    raise host_error(step{k}, problem) from None"""


@record(eq=False)
class FastCall:
    """`call` takes one value for each input.

    It gives None where one of them is not ready for the steps, or their shapes together are not `known`. `resolve` says
    what the values of the symbols decide for each step.
    """

    call: "Callable[..., tuple[HostValue, ...] | None]"
    known: dict[Shapes, tuple[object, ...]]
    resolve: Callable[[Sizes], tuple[object, ...]]

    def learn(self, shapes: Shapes, sizes: Sizes) -> None:
        """Makes `call` work at these shapes, which have been checked; those learned first are forgotten first."""
        resolved = self.resolve(sizes)
        if len(self.known) >= SHAPES_KEPT:
            self.known.pop(next(iter(self.known)), None)
        self.known[shapes] = resolved


def write_fast_call(
    body: Body,
    parameters: Sequence[Parameter],
    launches: Mapping[Launch, NativeLaunch],
    constants: Mapping[int, np.ndarray],
    workspaces: WorkspacePool[Workspace],
    observed: ObserveHost | None = None,
) -> FastCall | None:
    """The call of a program of this body; None where it has other steps, sizes from data, or other inputs than tensors.

    constants: the value of each slot that holds one from the start. observed: what functions
    of the host become where somebody watches them.
    """
    steps = [step for step in body.steps if not isinstance(step, Release)]
    if not _is_straight(body, steps) or any(parameter.dtype not in DTYPES for parameter in parameters):
        return None
    known: dict[Shapes, tuple[object, ...]] = {}
    names: dict[str, object] = {
        **_COMMON_NAMES, "known": known, "take": workspaces.take, "pop": workspaces.free.pop,
        "push": workspaces.free.append, **{f"v{slot}": value for slot, value in constants.items()},
        **{f"v{slot}_dtype": DTYPES[p.dtype] for slot, p in zip(body.parameters, parameters, strict=True)},
    }  # fmt: skip
    texts: list[str] = []
    resolvers: list[Callable[[Sizes], object]] = []
    from_host = {slot for step in steps if isinstance(step, Host) for slot in step.outputs}
    for k, step in enumerate(steps):
        if isinstance(step, Launch):
            launch = launches[step]
            texts.append(_launch_text(k, launch, from_host))
            names |= _launch_names(k, launch)
            resolvers.append(launch.at)
        elif isinstance(step, Host):
            texts.append(_HOST_TEMPLATE.format(k=k, outputs=_listed(step.outputs), inputs=_listed(step.inputs)))
            names[f"step{k}"] = step
            resolvers.append(prepared_host(step, constants, observed))
    results, owning = _results(body, steps)
    source = _TEMPLATE.format(
        **_arguments(body.parameters, parameters),
        resolved="".join(f"n{k}, " for k in range(len(texts))),
        steps=indent("\n".join([*texts, owning]).strip() or "pass", " " * 8),
        unfit=_UNFIT_TEMPLATE if from_host else "",
        results=results,
    )
    exec(_code(source), names)
    call = names["call"]
    assert callable(call), source
    return FastCall(call, known, lambda sizes: tuple([resolve(sizes) for resolve in resolvers]))


@lru_cache(CODES_KEPT)
def _code(source: str) -> CodeType:
    return compile(source, "<fast call>", "exec")


def _is_straight(body: Body, steps: Sequence[Step]) -> bool:
    """Whether the steps are launches and functions of the host whose sizes the inputs decide, and no slot changes."""
    known, written = {binding.symbol for binding in body.bindings}, set(body.parameters)
    written |= {constant.slot for constant in body.constants}
    has_late_sizes = False
    for step in steps:
        if not isinstance(step, Launch | Host) or not written.issuperset(step.inputs):
            return False
        if has_late_sizes and (isinstance(step, Launch) or attribute_sizes(step.attributes)):
            return False
        if not written.isdisjoint(step.outputs) or len(set(step.outputs)) < len(step.outputs):
            return False
        written |= set(step.outputs)
        bound = step.binds if isinstance(step, Launch) else [binding.symbol for binding in step.bindings]
        has_late_sizes |= not known.issuperset(bound)
    return written.issuperset(body.results)


def _launch_text(k: int, launch: NativeLaunch, from_host: set[int]) -> str:
    step = launch.step
    early = [step.outputs[ordinal] for ordinal in launch.early]
    allocate = _ALLOCATE_TEMPLATE.format(
        k=k,
        shapes="".join(f"v{slot}_shape, " for slot in early),
        makers="".join(f"v{slot}_maker, " for slot in early),
        new="; ".join(f"v{slot} = v{slot}_maker(v{slot}_shape, v{slot}_dtype)" for slot in early),
    )
    # Functions of the host may give views, such as a transposed one.
    ready = [f"v{slot} = ready_array(v{slot})" for slot in dict.fromkeys(step.inputs) if slot in from_host]
    symbols = f"workspace.words[{FRAME_SYMBOLS}:{launch.first_array}]"
    late = f"({_listed([step.outputs[ordinal] for ordinal in step.late])}) = late_outputs{k}({symbols}, workspace)"
    return _LAUNCH_TEMPLATE.format(
        k=k,
        allocate=allocate if early else "",
        ready="\n".join(ready),
        arrays=_listed([*step.inputs, *early]),
        refill="workspace.heap.refill()" if step.late else "",
        late=late if step.late else "",
    )


def _launch_names(k: int, launch: NativeLaunch) -> dict[str, object]:
    """What the text of a launch calls by a name of its own."""
    early = [launch.step.outputs[ordinal] for ordinal in launch.early]
    return {
        f"call{k}": launch.call, f"problem{k}": launch.problem, f"late_outputs{k}": launch.late_outputs,
        f"dtypes{k}": launch.dtypes,
        **{f"v{slot}_dtype": dtype for slot, dtype in zip(early, launch.dtypes, strict=True)},
    }  # fmt: skip


def _results(body: Body, steps: Sequence[Step]) -> tuple[str, str]:
    """The results, sharing memory with nothing, and what comes before them.

    What a launch alone has written is new. A parameter or constant is copied: a model that hands an array on took
    15 µs by way of the steps, and so takes 3. What functions of the host made, or have had, is looked at.
    """
    launched = {slot for step in steps if isinstance(step, Launch) for slot in step.outputs}
    hosted = {slot for step in steps if isinstance(step, Host) for slot in (*step.inputs, *step.outputs)}
    results, owned = [], []
    for k, slot in enumerate(body.results):
        if slot in launched - hosted and body.results.count(slot) == 1:
            results.append(f"v{slot}, ")
        elif slot in launched or slot in hosted - {*body.parameters, *(constant.slot for constant in body.constants)}:
            owned.append((f"r{k}", f"v{slot}"))
            results.append(f"r{k}, ")
        else:
            results.append(f"v{slot}.copy(), ")
    if not owned:
        return "".join(results), ""
    targets, sources = (", ".join(side) for side in zip(*owned, strict=True))
    return "".join(results), f"({targets},) = own_values(({sources},), ({_listed(body.parameters)}))"


def _arguments(slots: Sequence[int], parameters: Sequence[Parameter]) -> dict[str, str]:
    """The parts of the template that look at the inputs."""
    ready = " and ".join(
        f"(v{slot} := ready_texts(v{slot})) is not None"
        if parameter.dtype == "string"
        # What was pickled has a type of its own, which is equal.
        else f"type(v{slot}) is ndarray and ((t := v{slot}.dtype) is v{slot}_dtype or t == v{slot}_dtype)"
        f" and v{slot}.flags.num & {READY_FLAGS} == {READY_FLAGS}"
        for slot, parameter in zip(slots, parameters, strict=True)
    )
    shapes = "".join(f"v{slot}.shape, " for slot in slots)
    return {"parameters": _listed(slots), "ready": ready or "True", "shapes": shapes}


def _listed(slots: Iterable[int]) -> str:
    return "".join(f"v{slot}, " for slot in slots)


def _ready_texts(value: object) -> np.ndarray | None:
    """An array of texts as `str` objects; None for what is none, or holds other objects."""
    if type(value) is not np.ndarray:
        return None
    if value.dtype.kind == "U":
        return value.astype(object, order="C")
    is_texts = value.dtype.kind == "O" and list(map(type, value.ravel().tolist())).count(str) == value.size
    return value if is_texts else None


_COMMON_NAMES: Mapping[str, object] = {
    "InputError": InputError, "OnnxcError": OnnxcError, "UNFIT": UNFIT, "host_error": host_error,
    "ndarray": np.ndarray, "out_of_memory": out_of_memory, "own_values": own_values,
    "ready_array": ready_array, "ready_texts": _ready_texts, "unfit_step": unfit_step,
}  # fmt: skip
