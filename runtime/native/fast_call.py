"""The call of a program that is one launch or none, as straight-line Python written for its inputs and outputs.

The time before native code starts is most of a call of a small model. Loops over inputs, method calls and attribute
chains would be most of that: of 3.1 µs for one input and one output, this leaves about 1.1 µs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from onnxc.runtime.addresses import ADDRESS, memory
from onnxc.runtime.arrays import READY_FLAGS
from onnxc.runtime.dtypes import DType
from onnxc.runtime.native.launch import LaunchSizes, NativeLaunch, out_of_memory
from onnxc.runtime.native.workspaces import Workspace, WorkspacePool
from onnxc.runtime.program import FRAME_SYMBOLS

__all__ = ["FastCall", "Shapes", "write_copying_call", "write_fast_call"]

Shapes = tuple[tuple[int, ...], ...]

# A call with shapes among so many last seen is fast.
SHAPES_KEPT = 1024

_TEMPLATE = """
def call({parameters}):
    if not ({ready}):
        return None
    sizes = known.get(({shapes}))
    if sizes is None:
        return None
    {output_shapes} = sizes.shapes
    try:
        {allocate}
    except MemoryError as problem:
        raise out_of_memory(sizes.shapes, dtypes) from problem
    try:
        workspace = pop()
    except IndexError:
        workspace = take()
    if workspace.sizes is not sizes:
        workspace.prepare(sizes, sizes.symbols, sizes.arena_bytes)
    words = workspace.words
    {store}
    entry(workspace.frame)
    workspace.counts.calls += 1
    if words[{status}]:
        reason = problem_of(workspace)
        push(workspace)
        raise reason
    try:
        {late}
    finally:
        push(workspace)
    return ({results})
"""

_COPYING_TEMPLATE = """
def call({parameters}):
    if not ({ready}) or ({shapes}) not in known:
        return None
    try:
        workspace = pop()
    except IndexError:
        workspace = take()
    workspace.counts.calls += 1
    push(workspace)
    return ({results})
"""


@dataclass(frozen=True, eq=False)
class FastCall:
    """`call` takes one value for each input.

    It gives None where one of them is not ready for native code, or their shapes together are not `known`.
    """

    call: Callable[..., tuple[np.ndarray, ...] | None]
    known: dict[Shapes, LaunchSizes | None]

    def learn(self, shapes: Shapes, sizes: LaunchSizes | None) -> None:
        """Makes `call` work at these shapes, which have been checked; those learned first are forgotten first."""
        if len(self.known) >= SHAPES_KEPT:
            self.known.pop(next(iter(self.known)), None)
        self.known[shapes] = sizes


def write_fast_call(
    launch: NativeLaunch,
    input_dtypes: Sequence[DType],
    order: Sequence[int],
    results: Sequence[int],
    workspaces: WorkspacePool[Workspace],
    status: int,
) -> FastCall:
    """The call of a program of this launch alone; `status` is the word of a workspace where the status block begins.

    Input k of the launch is input `order[k]` of the program; result k of the program is output `results[k]` of the
    launch.
    """
    inputs = [f"x{k}" for k in range(len(input_dtypes))]
    outputs = [f"y{k}" for k in range(len(launch.step.outputs))]
    early = [outputs[k] for k in launch.early]
    stored = zip(launch.array_words, [*(inputs[k] for k in order), *early], strict=True)
    symbols = f"words[{FRAME_SYMBOLS}:{launch.first_array}]"
    source = _TEMPLATE.format(
        **_arguments(inputs),
        output_shapes=f"({''.join(f'{y}_shape, ' for y in early)})",
        allocate="; ".join(f"{y} = empty({y}_shape, {y}_dtype)" for y in early) or "pass",
        store="; ".join(f"words[{index}] = {ADDRESS.format(x)}" for index, x in stored) or "pass",
        status=status,
        late=f"{''.join(f'{outputs[k]}, ' for k in launch.step.late)} = late_outputs({symbols}, workspace)"
        if launch.step.late
        else "pass",
        results="".join(f"{outputs[k]}, " for k in results),
    )
    names: dict[str, object] = {
        "empty": np.empty, "memory": memory, "late_outputs": launch.late_outputs, "entry": launch.entry,
        "problem_of": launch.problem, "out_of_memory": out_of_memory, "dtypes": launch.dtypes,
    }  # fmt: skip
    names |= {f"{y}_dtype": dtype for y, dtype in zip(early, launch.dtypes, strict=True)}
    return _compiled(source, names | dict(zip(_dtype_names(inputs), input_dtypes, strict=True)), workspaces)


def write_copying_call(
    input_dtypes: Sequence[DType], results: Sequence[int | np.ndarray], workspaces: WorkspacePool[Workspace]
) -> FastCall:
    """The call of a program without steps: each result is a copy of an input, by its ordinal, or of a constant.

    A model that hands an array on took 15 us by way of the steps, and so takes 3.
    """
    inputs = [f"x{k}" for k in range(len(input_dtypes))]
    constants = {f"c{k}": result for k, result in enumerate(results) if isinstance(result, np.ndarray)}
    sources = [inputs[result] if isinstance(result, int) else f"c{k}" for k, result in enumerate(results)]
    copies = "".join(f"{source}.copy(), " for source in sources)
    names: dict[str, object] = {**constants, **dict(zip(_dtype_names(inputs), input_dtypes, strict=True))}
    return _compiled(_COPYING_TEMPLATE.format(**_arguments(inputs), results=copies), names, workspaces)


def _arguments(inputs: Sequence[str]) -> dict[str, str]:
    """The parts of a template that look at the inputs."""
    ready = (
        f"type({x}) is ndarray and {x}.dtype is {dtype} and {x}.flags.num & {READY_FLAGS} == {READY_FLAGS}"
        for x, dtype in zip(inputs, _dtype_names(inputs), strict=True)
    )
    shapes = "".join(f"{x}.shape, " for x in inputs)
    return {"parameters": ", ".join(inputs), "ready": " and ".join(ready) or "True", "shapes": shapes}


def _dtype_names(inputs: Sequence[str]) -> list[str]:
    return [f"{x}_dtype" for x in inputs]


def _compiled(source: str, names: dict[str, object], workspaces: WorkspacePool[Workspace]) -> FastCall:
    """The function of a source in which `names` mean these values."""
    known: dict[Shapes, LaunchSizes | None] = {}
    names |= {"ndarray": np.ndarray, "known": known, "take": workspaces.take}
    names |= {"pop": workspaces.free.pop, "push": workspaces.free.append}
    exec(compile(source, "<fast call>", "exec"), names)
    call = names["call"]
    assert callable(call), source
    return FastCall(call, known)
