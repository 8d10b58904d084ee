"""Module to KernelPlan: steps, kernels, launch order and buffers, for one target."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dim_symbols import substitute
from onnxc.compiler.ir.dims import Bounds, Dim, Size, only_atom
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Block, Module, Op, Value
from onnxc.compiler.ir.op_facts import bound_symbols
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.printer import print_block
from onnxc.compiler.ir.types import type_symbols
from onnxc.compiler.planning.bind_late import bind_late
from onnxc.compiler.planning.build_kernels import BoundProblem, build_kernel, joined_symbols, specialized
from onnxc.compiler.planning.choose_schedules import KernelProblem, PlanTarget, choose_schedules
from onnxc.compiler.planning.fuse_kernels import fuse_kernels
from onnxc.compiler.planning.fusion.merge_groups import merge_groups
from onnxc.compiler.planning.kernel_plan import (
    BindSizes,
    Branch,
    Buffer,
    Collective,
    Guard,
    GuardStep,
    HostStep,
    Kernel,
    KernelPlan,
    Launch,
    Loop,
    PlanStep,
    Region,
    Segment,
    SizeRange,
    Variant,
    Weight,
    is_constant,
)
from onnxc.compiler.planning.layouts import Layout
from onnxc.compiler.planning.packed_shares import PackedShares, with_packed_shares
from onnxc.compiler.planning.place_buffers import Life, Tenant, place_buffers, value_bytes
from onnxc.compiler.planning.release_values import release_values
from onnxc.compiler.planning.residency import with_transfers
from onnxc.compiler.planning.routine.form_routines import with_routines
from onnxc.compiler.planning.schedules import Packing, Schedule
from onnxc.compiler.planning.share_code import share_code
from onnxc.compiler.planning.split_steps import split_steps

Specialize = Mapping[str, Sequence[int]]
"""Sizes of symbols that get kernels of their own."""

Chosen = dict[tuple[str, bool, Packing | None], tuple[tuple[Guard, Schedule], ...]]
"""Schedules by the text of a problem, whether they are like another one, and the packing of that."""


def plan_kernels(
    module: Module,
    target: PlanTarget,
    specialize: Specialize | None = None,
    in_place: Mapping[Value, Value] | None = None,
    shares: int = 0,
    chosen: Chosen | None = None,
) -> KernelPlan:
    """The plan of the main function; calls are inlined before planning.

    in_place: values that are written into the memory of parameters. Whoever asks for that knows that what else reads
    such a parameter reads elements that stay what they are.

    shares: how many parameters, the last ones, are the shares that a device holds of constants. They have one value for
    all calls: the plan has parameters in their place that are in the layouts that kernels read.

    chosen: what was chosen for other programs of this target is there, and what is chosen for this one gets there.

    A call in which all symbols of a kernel that `specialize` names have sizes that are listed runs a kernel for these.
    """
    sizes = _with_equal_sizes(specialize or {}, module.main.body)
    parameters = module.main.body.parameters
    planner = _Planner(target, module.main.symbols, sizes, in_place or {}, parameters[len(parameters) - shares :])
    planner.chosen = {} if chosen is None else chosen
    body, kept = with_packed_shares(planner.region(module.main.body, frozenset()), planner.shares)
    if target.compiles_steps:
        body = with_routines(body, frozenset(), lambda value: planner.weight(value, None).index, planner.kernels)
    kernels = tuple(planner.kernels)
    if target.serves_less is not None:
        body, kernels = bind_late(body, kernels, target.serves_less)
    body = release_values(body)
    plan = KernelPlan(
        module.name,
        replace(module.main, body=body.block),
        kernels,
        tuple(planner.constants),
        tuple(planner.weights),
        body,
        target.residency,
        kept,
    )
    return with_transfers(plan)


def _with_equal_sizes(specialize: Specialize, body: Block) -> Specialize:
    """The same sizes also for symbols that must be equal: passes write one of such symbols for all."""
    chosen = dict(specialize)
    for op in body.ops:
        if op.name == "guard" and op.text("relation") == "equal":
            pair = [atom for side in ("left", "right") if isinstance(atom := only_atom(op.dim(side)), str)]
            both = tuple(dict.fromkeys(size for name in pair for size in chosen.get(name, ())))
            if len(pair) == 2 and both:
                chosen |= dict.fromkeys(pair, both)
    return chosen


class _Planner:
    """Collects the kernels and weights of a whole function, so that equal ones are shared."""

    def __init__(
        self,
        target: PlanTarget,
        bounds: Bounds,
        specialize: Specialize,
        in_place: Mapping[Value, Value],
        shares: Sequence[Value],
    ) -> None:
        self.target = target
        self.bounds = bounds
        self.specialize = specialize
        self.in_place = in_place
        self.kernels: list[Kernel] = []
        self.kernel_ordinals: dict[tuple[str, Schedule], int] = {}
        self.chosen: Chosen = {}
        self.scratch: dict[tuple[Variant, ...], Dim] = {}
        self.constants: list[np.ndarray] = []
        self.constant_ordinals: dict[Op | tuple[DType, tuple[int, ...], bytes], int] = {}
        self.weights: dict[Weight, int] = {}
        self.shares = PackedShares(shares)

    def region(self, block: Block, bound: frozenset[str]) -> Region:
        """The plan of one block, whose symbols from outside are `bound`."""
        steps = split_steps(block, self.target.is_native, bound)
        needed = needed_after(steps, (*block.results, *self.in_place))
        planned: list[PlanStep] = []
        known = bound.union(*(type_symbols(parameter.type) for parameter in block.parameters))
        for step, outputs in zip(steps, needed, strict=True):
            if isinstance(step, tuple):
                planned.append(self.segment(step, outputs))
            else:
                planned.append(self.lone_step(step, known))
                known = known.union(bound_symbols(step))
        return Region(block, tuple(planned))

    def lone_step(self, op: Op, known: frozenset[str]) -> PlanStep:
        """The step of an op that no native call holds."""
        inner = [self.region(block, known) for block in op.blocks]
        match op.name:
            case "if":
                return Branch(op, *inner)
            case "while":
                return Loop(op, op.int("carried"), *inner)
            case "guard":
                return GuardStep(op)
            case "bind_sizes":
                return BindSizes(op)
        return Collective(op) if PRIMITIVES[op.name].kind == "collective" else HostStep(op)

    def segment(self, ops: Sequence[Op], outputs: Sequence[Value]) -> Segment:
        """One native call: `outputs` leave it, whatever else is written lives in its arena, or in place."""
        target = self.target
        groups, aliases = fuse_kernels(ops, outputs, target.fusion)
        groups = merge_groups(groups, outputs, aliases, target.writes_several)
        aliases |= self.in_place
        outputs = [value for value in outputs if value not in self.in_place]
        reads = target.shares_code
        bound = [build_kernel(group) for group in groups] if reads is None else share_code(groups, reads)
        bound = [self.shares.held(kernel) for kernel in bound]
        variants = [self.variants(kernel) for kernel in bound]
        bound = [self.packed(kernel, each) for kernel, each in zip(bound, variants, strict=True)]
        made = {value for kernel in bound for value in kernel.outputs}
        inputs = tuple(
            dict.fromkeys(
                resolved
                for kernel in bound
                for value in kernel.inputs
                if (resolved := _resolve(value, aliases)) not in made and not is_constant(resolved)
            )
        )
        given = [_resolve(value, aliases) for value in outputs]
        scratch = [self.scratch_bytes(each) for each in variants]
        lives = _lifetimes(bound, scratch, aliases, (*given, *self.in_place))
        placement = place_buffers(lives, self.bounds)
        buffers: dict[Tenant, Buffer] = {value: Buffer("input", index) for index, value in enumerate(inputs)}
        buffers |= {value: Buffer("output", index) for index, value in enumerate(given)}
        buffers |= {tenant: Buffer("slot", ordinal) for tenant, ordinal in placement.slots.items()}
        launches = tuple(
            self.launch(kernel, variants[ordinal], aliases, buffers, ordinal) for ordinal, kernel in enumerate(bound)
        )
        return Segment(inputs, tuple(outputs), launches, placement.slot_bytes, placement.lifetimes)

    def packed(self, bound: BoundProblem, variants: Sequence[Variant]) -> BoundProblem:
        """A kernel that reads shares in the layouts that its schedule wants."""
        schedule = self.kernels[variants[-1].kernel].schedule
        inputs = (self.shares.packed(value, schedule.layout_of(index)) for index, value in enumerate(bound.inputs))
        return replace(bound, inputs=tuple(inputs))

    def launch(
        self,
        bound: BoundProblem,
        variants: tuple[Variant, ...],
        aliases: Mapping[Value, Value],
        buffers: Mapping[Tenant, Buffer],
        ordinal: int,
    ) -> Launch:
        """One launch, the `ordinal`-th of its segment; its kernels are shared with every equal one."""
        schedule = self.kernels[variants[-1].kernel].schedule
        resolved = [_resolve(value, aliases) for value in bound.inputs]
        inputs = tuple(
            self.weight(value, schedule.layout_of(index)) if is_constant(value) else buffers[value]
            for index, value in enumerate(resolved)
        )
        outputs = tuple(buffers[self.in_place.get(value, value)] for value in bound.outputs)
        return Launch(variants, inputs, outputs, buffers.get(ordinal), bound.location, bound.nodes)

    def variants(self, bound: BoundProblem) -> tuple[Variant, ...]:
        """The kernels that serve a launch: those of the sizes that were asked for, then those of all others.

        Before the latter stand those for calls in which nothing is repeated that may be.
        """
        general = self.kernel_variants(bound.problem, bound.symbols, {})
        own = [name for name, symbol in bound.symbols.items() if symbol in self.specialize]
        chosen = product(*(self.specialize[bound.symbols[name]] for name in own)) if own else ()
        like = self.kernels[general[-1].kernel].schedule
        special: list[Variant] = []
        for sizes in chosen:
            special += self.special_variants(bound, dict(zip(own, sizes, strict=True)), like)
        if self.target.joins_sizes:
            special += self.special_variants(bound, joined_symbols(bound.problem.block), like)
        return (*special, *general)

    def special_variants(self, bound: BoundProblem, fixed: Mapping[str, Dim], like: Schedule) -> Sequence[Variant]:
        """The kernels of a problem where symbols are `fixed`; none where that says nothing, or where they cannot be."""
        problem = specialized(bound.problem, fixed) if fixed else None
        return () if problem is None else self.kernel_variants(problem, bound.symbols, fixed, like)

    def kernel_variants(
        self,
        problem: KernelProblem,
        symbols: Mapping[str, str],
        fixed: Mapping[str, Dim],
        like: Schedule | None = None,
    ) -> tuple[Variant, ...]:
        """The kernels of a problem whose own symbols are `symbols` of the program, some of them `fixed`: sizes of it.

        like: a schedule whose layout of a constant they are to have; none where they cannot.
        """
        left = {name: Size.symbol(symbol) for name, symbol in symbols.items() if name not in fixed}
        outer = tuple(_equality(Size.symbol(symbols[name]), substitute(size, left)) for name, size in fixed.items())
        variants, text = [], print_block(problem.block)
        for guard, schedule in self.schedules(problem, text, like):
            kernel = self.kernel(Kernel(problem.kind, problem.block, tuple(left), schedule), text)
            inner = tuple(SizeRange(substitute(each.size, left), each.low, each.high) for each in guard)
            variants.append(Variant((*outer, *inner), kernel, tuple(left.values())))
        return tuple(variants)

    def schedules(self, problem: KernelProblem, text: str, like: Schedule | None) -> tuple[tuple[Guard, Schedule], ...]:
        """The schedules of a problem, chosen once for equal ones. text: that of its block."""
        packing = like.packing if like is not None else None
        key = f"{problem.kind} {problem.constants}\n{text}", like is None, packing
        if key not in self.chosen:
            self.chosen[key] = choose_schedules(problem, self.target, like)
        return self.chosen[key]

    def scratch_bytes(self, variants: tuple[Variant, ...]) -> Dim:
        """What the variant that needs most has for itself, in the sizes of the program; once for equal launches."""
        if variants not in self.scratch:
            needed: Dim = 0
            for variant in variants:
                kernel = self.kernels[variant.kernel]
                sizes = dict(zip(kernel.symbols, variant.sizes, strict=True))
                needed = maximum(needed, substitute(kernel.schedule.scratch_bytes, sizes))
            self.scratch[variants] = needed
        return self.scratch[variants]

    def kernel(self, kernel: Kernel, text: str) -> int:
        """The ordinal of `kernel`, the same for equal ones. text: that of its block."""
        key = f"{kernel.kind} {kernel.symbols}\n{text}", kernel.schedule
        if key not in self.kernel_ordinals:
            self.kernel_ordinals[key] = len(self.kernels)
            self.kernels.append(kernel)
        return self.kernel_ordinals[key]

    def weight(self, value: Value, layout: Layout | None) -> Buffer:
        """A constant in a layout."""
        assert value.op is not None
        array = value.op.array()
        key = value.op if array.size > 1 else (value.dtype, array.shape, array.tobytes())
        ordinal = self.constant_ordinals.setdefault(key, len(self.constants))
        if ordinal == len(self.constants):
            self.constants.append(array)
        return Buffer("weight", self.weights.setdefault(Weight(ordinal, layout), len(self.weights)))


def _equality(symbol: Dim, size: Dim) -> SizeRange:
    """The condition that a symbol has a size."""
    if isinstance(size, int):
        return SizeRange(symbol, size, size)
    return SizeRange(symbol - size, 0, 0)


def _resolve(value: Value, aliases: Mapping[Value, Value]) -> Value:
    while value in aliases:
        value = aliases[value]
    return value


def needed_after(steps: Sequence[tuple[Op, ...] | Op], wanted: Sequence[Value]) -> list[tuple[Value, ...]]:
    """For each native step the values that later steps read, or `wanted` at the end; nothing for the others.

    What needs no operand may be made in several native steps; a value that a step makes it wants of no earlier one.
    """
    needed: list[tuple[Value, ...]] = []
    read = dict.fromkeys(wanted)
    for step in reversed(steps):
        ops = step if isinstance(step, tuple) else (step,)
        made = [result for op in ops for result in op.results if op.name != "constant"]
        needed.append(tuple(value for value in made if value in read) if isinstance(step, tuple) else ())
        read.update(dict.fromkeys(operand for op in ops for operand in op.operands))
        for value in made:
            read.pop(value, None)
    return needed[::-1]


def _lifetimes(
    kernels: Sequence[BoundProblem],
    scratch: Sequence[Dim],
    aliases: Mapping[Value, Value],
    outputs: Sequence[Value],
) -> list[Life]:
    """What lies in the arena: values from the launch that writes them to the last that reads them, scratch memory."""
    last: dict[Value, int] = {}
    for index, kernel in enumerate(kernels):
        for value in kernel.inputs:
            last[_resolve(value, aliases)] = index
    lives: list[Life] = []
    for index, kernel in enumerate(kernels):
        written = (value for value in kernel.outputs if value not in outputs)
        lives += [Life(value, value_bytes(value), index, last.get(value, index)) for value in written]
        if scratch[index] != 0:
            lives.append(Life(index, scratch[index], index, index))
    return lives
