"""Sizes that data decides and that nobody waits for: what follows is launched for the most that they may be.

Kernels load such a size from where the device has it. The host reads it where a step of its own needs it, or at the
end; until then buffers have room for the most. At the end of a round of a loop, or of a branch, it would be waited for:
there only sizes are bound so that no result needs. Where one would need more room the less a size is, where a kernel
cannot leave what is beyond its sizes, and where nothing is known of the most, the host reads the size first.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from onnxc.compiler.ir.dim_symbols import depends, never_falls, substitute, symbols_of
from onnxc.compiler.ir.dims import Dim, sum_of
from onnxc.compiler.ir.dtypes import BOOL, I64
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.op_facts import bound_symbols
from onnxc.compiler.ir.types import type_symbols
from onnxc.compiler.planning.kernel_plan import (
    BindLate,
    BindMost,
    BindSizes,
    Branch,
    Buffer,
    Guard,
    GuardStep,
    Kernel,
    Launch,
    Loop,
    PlanStep,
    Region,
    Release,
    Routine,
    Segment,
    SizeRange,
    Transfer,
    Variant,
    segments_of,
    values_read,
)
from onnxc.compiler.planning.place_buffers import value_bytes

__all__ = ["Serves", "bind_late", "check_bind_late"]

Serves = Callable[[Kernel], bool]
"""Whether a kernel that is launched for the most of the symbols that it loads does what is right for less."""


def bind_late(region: Region, kernels: Sequence[Kernel], serves: Serves) -> tuple[Region, tuple[Kernel, ...]]:
    """The region with sizes bound late, where that can be, in inner regions too, and its kernels."""
    binder = _Binder(region, [*kernels], serves, {})
    late = binder.bound()
    variants = (v for each in segments_of(late.steps) for launch in each.launches for v in launch.variants)
    used = sorted({variant.kernel for variant in variants})
    ordinals = {kernel: ordinal for ordinal, kernel in enumerate(used)}
    return _renumbered(late, ordinals), tuple(binder.kernels[kernel] for kernel in used)


def check_bind_late(region: Region) -> None:
    """Raises AssertionError where a step needs a size that the host has not read, or that its kernels do not load."""
    pending: set[str] = set()
    for step in region.steps:
        match step:
            case BindMost():
                pending.add(step.symbol)
            case BindLate():
                pending.difference_update(symbol for op in step.ops for symbol in bound_symbols(op))
            case Segment():
                loaded = {symbol for symbol, _ in step.counts}
                assert pending & _symbols_of(step) <= loaded <= pending, f"{step} loads {loaded} of {pending}"
            case Release() | Transfer() | Routine():
                pass
            case _:
                used = step.op.symbols.union(*(type_symbols(operand.type) for operand in step.op.operands))
                assert pending.isdisjoint(used), f"{step.op} needs {pending & used}, which was not read"
    needed = frozenset[str]().union(*(type_symbols(result.type) for result in region.block.results))
    assert pending.isdisjoint(needed), f"{pending & needed} are never read"


def _symbols_of(step: Segment) -> frozenset[str]:
    """The symbols in what a segment makes, keeps, and passes to kernels."""
    sizes = [*(life.size_bytes for life in step.lifetimes), *(size for value in step.outputs for size in value.shape)]
    sizes += [size for launch in step.launches for variant in launch.variants for size in variant.sizes]
    return frozenset[str]().union(*map(symbols_of, sizes))


@dataclass
class _Pending:
    """A size that the host has not read yet; `ordinal` is that of its step, `sizes` is what there must be room for.

    is_loaded: whether a kernel loads it.
    """

    step: BindSizes
    ordinal: int
    most: Dim
    sizes: dict[Dim, None] = field(default_factory=dict)
    is_loaded: bool = False


class _Binder:
    """Goes through the steps of a region; `pending` are the symbols that are bound to their most."""

    def __init__(
        self,
        region: Region,
        kernels: list[Kernel],
        serves: Serves,
        loading: dict[tuple[int, tuple[str, ...]], int | None],
        is_inner: bool = False,
    ) -> None:
        self.region, self.kernels, self.serves, self.loading, self.is_inner = region, kernels, serves, loading, is_inner
        self.steps: list[PlanStep] = []
        self.pending: dict[str, _Pending] = {}
        self.on_device: set[Value] = set()
        self.made_for_most: list[Value] = []

    def bound(self) -> Region:
        """The region with sizes bound late."""
        for ordinal, step in enumerate(self.region.steps):
            self.step(ordinal, step)
        self.bind(len(self.region.steps))
        return Region(self.region.block, tuple(self.steps))

    def step(self, ordinal: int, step: PlanStep) -> None:
        """Adds the step, behind what reads the sizes that it needs."""
        match step:
            case BindSizes():
                most = self._most(step)
                if most is not None:
                    (symbol,) = bound_symbols(step.op)
                    self.pending[symbol] = _Pending(step, len(self.steps), most)
                else:
                    self.bind(ordinal)
            case Segment():
                late = self._late(step)
                if late is None:
                    self.bind(ordinal)
                step = late or step
                self.on_device.update(step.outputs)
            case GuardStep() if not self.pending.keys() & step.op.symbols:
                pass
            case _:
                self.bind(ordinal)
                step = self._with_inner(step)
        self.steps.append(step)

    def _with_inner(self, step: PlanStep) -> PlanStep:
        """The step with sizes of its own regions bound late."""

        def bound(region: Region) -> Region:
            return _Binder(region, self.kernels, self.serves, self.loading, is_inner=True).bound()

        match step:
            case Loop():
                return replace(step, body=bound(step.body))
            case Branch():
                return replace(step, then=bound(step.then), otherwise=bound(step.otherwise))
        return step

    def bind(self, ordinal: int) -> None:
        """Reads what is pending, for the steps from that with the ordinal on."""
        used = {symbol: each for symbol, each in self.pending.items() if each.is_loaded}
        later = {value for step in self.region.steps[ordinal:] for value in values_read(step)}
        later.update(self.region.block.results)
        for count, (symbol, each) in enumerate(used.items(), 1):
            behind = {name: other.most for name, other in [*used.items()][count:]}
            self.steps[each.ordinal] = BindMost(each.step.op, symbol, each.most, _room(each.sizes, behind))
        # At the end of an inner region nothing needs them.
        if used and not (self.is_inner and ordinal == len(self.region.steps)):
            values = tuple(value for value in self.made_for_most if value in later)
            self.steps.append(BindLate(tuple(each.step.op for each in used.values()), values))
        self.pending.clear()
        self.made_for_most.clear()

    def _most(self, step: BindSizes) -> Dim | None:
        """The most that the size may be, where kernels can load it; None where it must be read."""
        (count,), symbols = step.op.operands, bound_symbols(step.op)
        results = self.region.block.results
        if self.is_inner and any(type_symbols(result.type) & {*symbols} for result in results):
            return None
        most = most_bound(step.op) if count in self.on_device and len(symbols) == 1 else None
        return most if most is not None and never_falls(most, self.pending.keys()) else None

    def _late(self, step: Segment) -> Segment | None:
        """The segment with kernels that load what is pending; itself where it has none of that, None if it cannot."""
        pending = self.pending.keys()
        used = _symbols_of(step)
        names = [name for name in self.pending if name in used]
        if not names:
            return step
        needed = [*(life.size_bytes for life in step.lifetimes), *map(value_bytes, step.outputs)]
        launches = [self._launch(launch) for launch in step.launches]
        if None in launches or not all(never_falls(size, pending) for size in needed):
            return None
        for name in names:
            self.pending[name].is_loaded = True
            for size in (*needed, *(count for launch in step.launches for count in self._counted(launch))):
                if depends(size, {name}):
                    self.pending[name].sizes.setdefault(size)
        self.made_for_most += [v for v in step.outputs if any(depends(size, pending) for size in v.shape)]
        counts = {name: self.pending[name].step.op.operands[0] for name in names}
        inputs = tuple(dict.fromkeys((*step.inputs, *counts.values())))
        buffers = tuple((name, Buffer("input", inputs.index(count))) for name, count in counts.items())
        kept = tuple(launch for launch in launches if launch is not None)
        return replace(step, inputs=inputs, launches=kept, counts=buffers)

    def _launch(self, launch: Launch) -> Launch | None:
        """The launch with the variants that serve all sizes up to the most; None if the general one does not."""
        variants = tuple(late for variant in launch.variants if (late := self._variant(variant)) is not None)
        return replace(launch, variants=variants) if variants and not variants[-1].guard else None

    def _variant(self, variant: Variant) -> Variant | None:
        guard = _guard_for_all(variant.guard, self.pending.keys())
        names = self.kernels[variant.kernel].symbols
        pairs = zip(names, variant.sizes, strict=True)
        kernel = self._kernel(variant.kernel, tuple(n for n, size in pairs if depends(size, self.pending.keys())))
        return None if guard is None or kernel is None else replace(variant, guard=guard, kernel=kernel)

    def _kernel(self, ordinal: int, loads: tuple[str, ...]) -> int | None:
        """The ordinal of a kernel that loads some of its symbols, the same for equal ones; None if there is none."""
        if not loads:
            return ordinal
        if (ordinal, loads) not in self.loading:
            kernel = replace(self.kernels[ordinal], loads=loads)
            served = self.serves(kernel)
            self.loading[ordinal, loads] = len(self.kernels) if served else None
            self.kernels += [kernel] if served else []
        return self.loading[ordinal, loads]

    def _counted(self, launch: Launch) -> list[Dim]:
        """The elements of what a launch computes, which its kernels count."""
        kernel = self.kernels[launch.general.kernel]
        own = dict(zip(kernel.symbols, launch.general.sizes, strict=True))
        counts = [result.tensor.elements for op in kernel.block.ops for result in op.results]
        return [substitute(count, own) for count in counts]


def most_bound(op: Op) -> Dim | None:
    """The most that the only symbol of a `bind_sizes` may be, or that makes a difference; None if it is not known."""
    return op.dims("enough")[0] if "enough" in op.attributes else most_counted(op.operands[0])


def most_counted(count: Value) -> Dim | None:
    """The most that an i64[1] may be which says how many elements are true; None for any other."""
    total = _before_reshape(count).op
    if total is None or total.name != "reduce" or total.text("kind") != "sum" or count.tensor.elements != 1:
        return None
    ones = _before_reshape(total.operands[0])
    is_truth = ones.op is not None and ones.op.name == "cast" and ones.op.operands[0].dtype == BOOL
    return ones.tensor.elements if is_truth and count.dtype == I64 else None


def _before_reshape(value: Value) -> Value:
    while value.op is not None and value.op.name == "reshape":
        value = value.op.operands[0]
    return value


def _guard_for_all(guard: Guard, pending: Set[str]) -> Guard | None:
    """A guard for the most of what is pending, which holds only where the given one does for all that is less."""
    held: list[SizeRange] = []
    for condition in guard:
        if depends(condition.size, pending) and condition.low > 0:
            least = substitute(condition.size, dict.fromkeys(pending & symbols_of(condition.size), 0))
            if not never_falls(condition.size, pending) or (isinstance(least, int) and least < condition.low):
                return None
            held += [] if isinstance(least, int) else [SizeRange(least, condition.low)]
        elif not never_falls(condition.size, pending):
            return None
        held.append(condition)
    return tuple(held)


def _room(sizes: Iterable[Dim], behind: Mapping[str, Dim]) -> Dim:
    """The sum of sizes, with symbols that are bound behind at their most; a later one may be known by those before."""
    total = sum_of(sizes)
    for name, most in reversed([*behind.items()]):
        total = substitute(total, {name: most})
    return total


def _renumbered(region: Region, ordinals: Mapping[int, int]) -> Region:
    """The region with other numbers of kernels."""
    return Region(region.block, tuple(_renumbered_step(step, ordinals) for step in region.steps))


def _renumbered_step(step: PlanStep, ordinals: Mapping[int, int]) -> PlanStep:
    match step:
        case Segment():
            return replace(step, launches=tuple(_renumbered_launch(launch, ordinals) for launch in step.launches))
        case Loop():
            return replace(step, body=_renumbered(step.body, ordinals))
        case Branch():
            then, otherwise = (_renumbered(each, ordinals) for each in (step.then, step.otherwise))
            return replace(step, then=then, otherwise=otherwise)
    return step


def _renumbered_launch(launch: Launch, ordinals: Mapping[int, int]) -> Launch:
    variants = (replace(variant, kernel=ordinals[variant.kernel]) for variant in launch.variants)
    return replace(launch, variants=tuple(variants))
