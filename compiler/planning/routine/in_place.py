"""Which results of a round of a loop may be written into the memory of what they are made from.

A kernel that changes part of a value compares addresses, and leaves alone what is there already (`stays` in views.py).
"""

from collections.abc import Sequence

from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.kernel_plan import Buffer, Kernel, Loop, Segment, values_read
from onnxc.compiler.planning.loops.views import changes_part, stays

__all__ = ["updated_parameters"]


def updated_parameters(step: Loop, kernels: Sequence[Kernel]) -> dict[Value, Value]:
    """For each result of a round that may be written over what it is made from, the parameter that this is.

    Nothing else reads the parameter behind the segment that writes the result, and nothing before it hands it on.
    """
    block = step.body.block
    updated = {}
    for parameter, result in zip(block.parameters[1:], block.results[1 : 1 + step.carried], strict=False):
        readers = [inner for inner in step.body.steps if parameter in values_read(inner)]
        is_alone = parameter not in block.results and block.results.count(result) == 1
        if not readers or not is_alone or parameter.tensor.known_shape != result.tensor.known_shape:
            continue
        if all(isinstance(reader, Segment) for reader in readers) and _updates(readers[-1], parameter, result, kernels):
            updated[result] = parameter
    return updated


def _updates(segment: object, parameter: Value, result: Value, kernels: Sequence[Kernel]) -> bool:
    """Whether the last launch of the segment that reads the parameter changes part of it, which is the result."""
    if not isinstance(segment, Segment) or result not in segment.outputs:
        return False
    source = Buffer("input", segment.inputs.index(parameter))
    target = Buffer("output", segment.outputs.index(result))
    *_, last = (launch for launch in segment.launches if source in launch.inputs)
    if last.outputs != (target,):
        return False
    read = [ordinal for ordinal, buffer in enumerate(last.inputs) if buffer == source]
    return all(
        _changes(kernels[variant.kernel], [kernels[variant.kernel].block.parameters[ordinal] for ordinal in read])
        for variant in last.variants
    )


def _changes(kernel: Kernel, parameters: Sequence[Value]) -> bool:
    """Whether all that a kernel reads of these parameters is where its result has it."""
    op = kernel.block.results[0].op
    if op is None or not changes_part(op):
        return False
    read = [ordinal for ordinal, operand in enumerate(op.operands) if _reads(operand, parameters)]
    return all(stays(op, ordinal) for ordinal in read)


def _reads(value: Value, parameters: Sequence[Value]) -> bool:
    """Whether a value of a kernel is computed from one of its parameters."""
    pending, seen = [value], set[Value]()
    while pending:
        value = pending.pop()
        if value in parameters:
            return True
        if value not in seen and value.op is not None:
            seen.add(value)
            pending += value.op.operands
    return False
