"""Module to KernelPlan: steps, kernels, launch order and buffers, for one target."""

from collections.abc import Mapping, Sequence

import numpy as np

from onnxc.compiler.ir.dims import Bounds
from onnxc.compiler.ir.module import Block, Module, Op, Value
from onnxc.compiler.ir.op_facts import bound_symbols
from onnxc.compiler.ir.printer import print_block
from onnxc.compiler.ir.types import type_symbols
from onnxc.compiler.planning.build_kernels import BoundKernel, build_kernel
from onnxc.compiler.planning.fuse_kernels import fuse_kernels
from onnxc.compiler.planning.kernel_plan import (
    Buffer,
    HostStep,
    Kernel,
    KernelPlan,
    Launch,
    PlanBody,
    PlanStep,
    PlanTarget,
    Segment,
    Weight,
)
from onnxc.compiler.planning.place_buffers import place_buffers
from onnxc.compiler.planning.split_steps import split_steps


def plan_kernels(module: Module, target: PlanTarget) -> KernelPlan:
    """The plan of the main function; calls are inlined before planning."""
    planner = _Planner(target, module.main.symbols)
    body = planner.body(module.main.body, frozenset())
    return KernelPlan(
        module.name,
        module.main,
        tuple(planner.kernels),
        tuple(planner.constants),
        tuple(planner.weights),
        body,
    )


class _Planner:
    """Collects the kernels and weights of a whole function, so that equal ones are shared."""

    def __init__(self, target: PlanTarget, bounds: Bounds) -> None:
        self.target = target
        self.bounds = bounds
        self.kernels: list[Kernel] = []
        self.numbers: dict[str, int] = {}
        self.constants: list[np.ndarray] = []
        self.constant_numbers: dict[Op, int] = {}
        self.weights: dict[Weight, int] = {}

    def body(self, block: Block, bound: frozenset[str]) -> PlanBody:
        """The plan of one block, whose symbols from outside are `bound`."""
        steps = split_steps(block, self.target.is_native, bound)
        needed = _needed_after(steps, block)
        planned: list[PlanStep] = []
        known = bound.union(*(type_symbols(parameter.type) for parameter in block.parameters))
        for step, outputs in zip(steps, needed, strict=True):
            if isinstance(step, tuple):
                planned.append(self.segment(step, outputs))
            else:
                planned.append(HostStep(step, tuple(self.body(inner, known) for inner in step.blocks)))
                known = known.union(bound_symbols(step))
        return PlanBody(block, tuple(planned))

    def segment(self, ops: Sequence[Op], outputs: Sequence[Value]) -> Segment:
        """One native call: `outputs` leave it, whatever else is written lives in its arena."""
        groups, aliases = fuse_kernels(ops, outputs)
        bound = [build_kernel(group, self.target) for group in groups]
        made = {value for kernel in bound for value in kernel.outputs}
        inputs = tuple(
            dict.fromkeys(
                resolved
                for kernel in bound
                for value in kernel.inputs
                if (resolved := _resolve(value, aliases)) not in made and not _is_constant(resolved)
            )
        )
        lives = _lifetimes(bound, aliases, outputs)
        placement = place_buffers(lives, self.bounds)
        places: dict[Value, Buffer] = {value: Buffer("input", index) for index, value in enumerate(inputs)}
        places |= {value: Buffer("output", index) for index, value in enumerate(outputs)}
        places |= {value: Buffer("arena", 0, offset) for value, offset in placement.offsets.items()}
        launches = tuple(self.launch(kernel, aliases, places) for kernel in bound)
        return Segment(inputs, tuple(outputs), launches, placement.arena_bytes, placement.lifetimes)

    def launch(self, bound: BoundKernel, aliases: Mapping[Value, Value], places: Mapping[Value, Buffer]) -> Launch:
        """One launch; its kernel is shared with every equal one."""
        buffers = []
        for index, value in enumerate(bound.inputs):
            resolved = _resolve(value, aliases)
            if _is_constant(resolved):
                buffers.append(self.weight(resolved, bound.kernel, index))
            else:
                buffers.append(places[resolved])
        outputs = tuple(places[value] for value in bound.outputs)
        return Launch(self.kernel(bound.kernel), tuple(buffers), outputs, bound.sizes, bound.location)

    def kernel(self, kernel: Kernel) -> int:
        """The number of `kernel`, the same for equal ones."""
        key = f"{kernel.kind} {sorted(kernel.schedule.items())}\n{print_block(kernel.block)}"
        if key not in self.numbers:
            self.numbers[key] = len(self.kernels)
            self.kernels.append(kernel)
        return self.numbers[key]

    def weight(self, value: Value, kernel: Kernel, index: int) -> Buffer:
        """A constant as parameter `index` of `kernel` wants it."""
        assert value.op is not None
        number = self.constant_numbers.setdefault(value.op, len(self.constants))
        if number == len(self.constants):
            self.constants.append(value.op.array())
        weight = Weight(number, self.target.weight_layout(kernel, index))
        return Buffer("weight", self.weights.setdefault(weight, len(self.weights)))


def _is_constant(value: Value) -> bool:
    return value.op is not None and value.op.name == "constant"


def _resolve(value: Value, aliases: Mapping[Value, Value]) -> Value:
    while value in aliases:
        value = aliases[value]
    return value


def _needed_after(steps: Sequence[tuple[Op, ...] | Op], block: Block) -> list[tuple[Value, ...]]:
    """For each native step the values that later steps, or the block, read; nothing for the others."""
    needed: list[tuple[Value, ...]] = []
    read = dict.fromkeys(block.results)
    for step in reversed(steps):
        ops = step if isinstance(step, tuple) else (step,)
        made = [result for op in ops for result in op.results if op.name != "constant"]
        needed.append(tuple(value for value in made if value in read) if isinstance(step, tuple) else ())
        read.update(dict.fromkeys(operand for op in ops for operand in op.operands))
    return needed[::-1]


def _lifetimes(
    kernels: Sequence[BoundKernel], aliases: Mapping[Value, Value], outputs: Sequence[Value]
) -> list[tuple[Value, int, int]]:
    """Each value in the arena with the launch that writes it and the last that reads it."""
    last: dict[Value, int] = {}
    for index, kernel in enumerate(kernels):
        for value in kernel.inputs:
            last[_resolve(value, aliases)] = index
    return [
        (value, index, last.get(value, index))
        for index, kernel in enumerate(kernels)
        for value in kernel.outputs
        if value not in outputs
    ]
