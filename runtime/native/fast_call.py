"""The call of a program that is one launch, as straight-line Python written for its number of inputs and outputs.

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

__all__ = ["FastCall", "Shapes", "write_fast_call"]

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


@dataclass(frozen=True, eq=False)
class FastCall:
    """`call` takes one value for each input.

    It gives None where one of them is not ready for native code, or their shapes together are not `known`.
    """

    call: Callable[..., tuple[np.ndarray, ...] | None]
    known: dict[Shapes, LaunchSizes]

    def learn(self, shapes: Shapes, sizes: LaunchSizes) -> None:
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
        parameters=", ".join(inputs),
        ready=" and ".join(
            f"type({x}) is ndarray and {x}.dtype is {x}_dtype and {x}.flags.num & {READY_FLAGS} == {READY_FLAGS}"
            for x in inputs
        )
        or "True",
        shapes="".join(f"{x}.shape, " for x in inputs),
        output_shapes=f"({''.join(f'{y}_shape, ' for y in early)})",
        allocate="; ".join(f"{y} = empty({y}_shape, {y}_dtype)" for y in early) or "pass",
        store="; ".join(f"words[{place}] = {ADDRESS.format(x)}" for place, x in stored) or "pass",
        status=status,
        late=f"{''.join(f'{outputs[k]}, ' for k in launch.step.late)} = late_outputs({symbols}, workspace)"
        if launch.step.late
        else "pass",
        results="".join(f"{outputs[k]}, " for k in results),
    )
    known: dict[Shapes, LaunchSizes] = {}
    names: dict[str, object] = {
        "ndarray": np.ndarray, "empty": np.empty, "memory": memory,
        "late_outputs": launch.late_outputs, "known": known, "entry": launch.entry,
        "problem_of": launch.problem, "out_of_memory": out_of_memory,
        "dtypes": launch.dtypes, "take": workspaces.take,
        "pop": workspaces.free.pop, "push": workspaces.free.append,
    }  # fmt: skip
    names |= {f"{x}_dtype": dtype for x, dtype in zip(inputs, input_dtypes, strict=True)}
    names |= {f"{y}_dtype": dtype for y, dtype in zip(early, launch.dtypes, strict=True)}
    exec(compile(source, "<fast call>", "exec"), names)
    call = names["call"]
    assert callable(call), source
    return FastCall(call, known)
