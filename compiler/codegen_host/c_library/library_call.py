"""The one native call that a C library is made of, as its entry points need to know it.

A plan that is more than one native call has no such form: what keeps it from that is listed, with the nodes.
"""

import re
from collections.abc import Iterator

from onnxc.compiler.codegen_host.assemble import NativeCode
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.kernel_plan import (
    Collective,
    GuardStep,
    HostStep,
    KernelPlan,
    Routine,
    Segment,
    walk_steps,
)
from onnxc.runtime.engine import is_direct, without_input_guards
from onnxc.runtime.errors import InputError, UnsupportedError
from onnxc.runtime.program import FRAME_SYMBOLS, Binding, Check, Launch, Symbol
from onnxc.runtime.records import record

__all__ = ["LibraryCall", "expect_c_name", "library_call"]


@record
class LibraryCall:
    """A native call, its sizes, and how the inputs and outputs of the model are those of its launch.

    bindings and checks: as those of a body, with ordinals of inputs in place of slots. arguments: the input of the
    model that each input of the launch is. results: the output of the launch that each output of the model is.
    """

    name: str
    launch: Launch
    symbols: tuple[Symbol, ...]
    inputs: tuple[tuple[str, TensorType], ...]
    outputs: tuple[tuple[str, TensorType], ...]
    bindings: tuple[Binding, ...]
    checks: tuple[Check, ...]
    guards: tuple[Op, ...]
    arena_bytes: Dim
    arguments: tuple[int, ...]
    results: tuple[int, ...]

    @property
    def first_array(self) -> int:
        """The word of the frame that the address of the first input goes to."""
        return FRAME_SYMBOLS + len(self.symbols)

    @property
    def first_output(self) -> int:
        """The word of the frame that the address of the first output goes to."""
        return self.first_array + len(self.launch.inputs)

    @property
    def frame_words(self) -> int:
        step = self.launch
        return self.first_array + max(step.array_words, len(step.inputs) + len(step.outputs))

    @property
    def late(self) -> tuple[int, ...]:
        """The outputs of the model, by ordinal, whose sizes only a call finds."""
        return tuple(k for k, output in enumerate(self.results) if output in self.launch.late)

    @property
    def known(self) -> frozenset[str]:
        """The symbols that the shapes of the inputs decide."""
        return frozenset(self.symbols[binding.symbol].name for binding in self.bindings)


def expect_c_name(name: str) -> str:
    """The name, which begins those of all that the library defines; InputError where it is no identifier of C."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise InputError(f"{name!r} is no identifier of C, which the name of a C library must be", code="c-name")
    return name


def library_call(plan: KernelPlan, code: NativeCode, name: str) -> LibraryCall:
    """The call that `plan` is; UnsupportedError where it is not one native call on tensors of numbers."""
    body, _ = without_input_guards(code.program.body)
    hindrances = tuple(_hindrances(plan))
    if hindrances or not is_direct(body):
        reasons = hindrances or ("an output that no native code computes: an input, a constant, or an output again",)
        listed = "".join(f"\n  {reason}" for reason in reasons)
        raise UnsupportedError(f"a C library is one native call, and here there is more:{listed}", code="no-c-library")
    (launch,) = (step for step in body.steps if isinstance(step, Launch))
    ordinals = {slot: ordinal for ordinal, slot in enumerate(body.parameters)}
    block, function = plan.body.block, plan.function
    return LibraryCall(
        expect_c_name(name),
        launch,
        code.program.symbols,
        tuple((value.producer.name, value.tensor) for value in block.parameters),
        tuple((label, value.tensor) for label, value in zip(function.result_names, block.results, strict=True)),
        tuple(Binding(ordinals[each.slot], each.axis, each.symbol) for each in body.bindings),
        tuple(Check(ordinals[each.slot], each.axis, each.size) for each in body.checks),
        tuple(step.op for step in plan.body.steps if isinstance(step, GuardStep)),
        next((step.arena_bytes for step in plan.body.steps if isinstance(step, Segment)), 0),
        tuple(ordinals[slot] for slot in launch.inputs),
        tuple(launch.outputs.index(slot) for slot in body.results),
    )


def _hindrances(plan: KernelPlan) -> Iterator[str]:
    """What makes a plan more than a native call on tensors."""
    block = plan.body.block
    inputs = [(f'input "{value.producer.name}"', value) for value in block.parameters]
    outputs = zip((f'output "{name}"' for name in plan.function.result_names), block.results, strict=True)
    for what, value in (*inputs, *outputs):
        if not _is_tensor_of_numbers(value):
            yield f"{what} is {value.type}"
    # What a routine holds is native, sizes written as integers among it.
    outside = [step for step in plan.body.steps if not isinstance(step, Routine)]
    for step in walk_steps(outside):
        if isinstance(step, HostStep | Collective):
            op = step.op
            function = op.text("function") if op.name == "host" else op.name
            yield f"the host computes {function}" + (f"\n    --> {op.location}" if op.location else "")
    if sum(isinstance(step, Segment | Routine) for step in plan.body.steps) > 1:
        yield "there are several native calls"


def _is_tensor_of_numbers(value: Value) -> bool:
    type = value.type
    return isinstance(type, TensorType) and type.shape is not None and type.dtype.name != "string"
