"""Tree ensembles: rows walk down trees, several walks beside each other, so that none need wait for what it loads.

A unit of work is a block of rows. Groups of its rows walk down one tree after another. What is left over does so as
well, with several walks of the last row, if that takes fewer of them; else each of these rows walks down a group of
trees. Either way its scores are added up in the order of the trees. A block without missing values asks no test where
they go.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial, reduce

from onnxc.compiler.codegen_cpu.element_types import memory_type
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.kernels.reduction import combine
from onnxc.compiler.codegen_cpu.operands import operand_in_memory
from onnxc.compiler.codegen_cpu.schedules.trees import known_width
from onnxc.compiler.codegen_host.llvm_masks import masked_load
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, register, vector_type
from onnxc.compiler.ir.dims import floordiv
from onnxc.compiler.ir.dtypes import F64, DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitives.trees import FEATURE_SHIFT, LEAF, UNORDERED, split_outcomes
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.rows import identity
from onnxc.compiler.planning.loops.views import View
from onnxc.compiler.planning.schedules import TreeEnsembleSchedule
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

# The comparison of LLVM that holds for a set of outcomes, by the bits of the set.
PREDICATES = (
    *("false", "olt", "oeq", "ole", "ogt", "one", "oge", "ord"),
    *("uno", "ult", "ueq", "ule", "ugt", "une", "uge", "true"),
)
WORD_BITS = 32
LOW_WORD = (1 << WORD_BITS) - 1


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a tree ensemble."""
    frame = open_kernel(kernel, name, target)
    op = next(op for op in kernel.block.ops if op.name == "tree_ensemble")
    x, *tables = (operand_in_memory(frame, operand) for operand in op.operands)
    ensemble = _Ensemble(frame, op, *x, tuple(address for address, _ in tables))
    frame.f.loop(frame.begin, frame.end, 1, ensemble.unit)
    frame.f.ret()
    block = ensemble.schedule.block
    units = floordiv(op.operands[0].shape[0] + block - 1, block)
    return KernelCode(name, (frame.f,), units, frame.grain(block * op.int("trees") * op.int("depth")))


@record
class _Walk:
    """A walk: where the features of its row lie, and the root of its tree."""

    features: Reg
    root: Int


@record
class _Rows:
    """A block of rows: the first, where their scores lie, and the outcomes that some tests hold with."""

    first: Reg
    scores: Reg
    by_test: tuple[int, ...]


@record
class _Ensemble:
    """One kernel: where x lies, and the thresholds, the links and the weights."""

    frame: KernelFrame
    op: Op
    x: Reg
    view: View
    tables: tuple[Reg, ...]

    @cached_property
    def schedule(self) -> TreeEnsembleSchedule:
        return self.frame.kernel.scheduled(TreeEnsembleSchedule)

    @cached_property
    def width(self) -> int:
        """How many features a row has."""
        return known_width(self.op.operands[0])

    @cached_property
    def dtype(self) -> DType:
        return self.op.operands[0].dtype

    @cached_property
    def element(self) -> str:
        return memory_type(self.dtype)

    @cached_property
    def accumulator(self) -> DType:
        return F64 if self.schedule.scores == "block" else self.dtype

    @cached_property
    def targets(self) -> int:
        return self.op.int("targets")

    @cached_property
    def buffer(self) -> Reg:
        """Memory for the scores of a block, in the type of the accumulator."""
        return self.frame.f.alloca(memory_type(self.accumulator), self.schedule.block * self.targets)

    # Rows

    def unit(self, ordinal: Reg) -> None:
        """The scores of one block of rows."""
        f, block = self.frame.f, self.schedule.block
        first = register(f.mul(ordinal, block))
        rows = f.smin(f.sub(self.frame.size(self.op.operands[0].shape[0]), first), block)
        result, count = f.gep(self.frame.output, f.mul(first, self.targets), self.element), f.mul(rows, self.targets)
        in_result = self.schedule.scores == "result"
        scores, by_test = result if in_result else self.buffer, split_outcomes(self.op)[1]
        self._fill(scores, count)
        if self.schedule.looks_for_missing:
            known = tuple(bit for bit in by_test if bit != UNORDERED)
            f.if_(
                self._is_missing(first, rows),
                lambda: self._walk(_Rows(first, scores, by_test), rows),
                lambda: self._walk(_Rows(first, scores, known), rows),
            )
        else:
            self._walk(_Rows(first, scores, by_test), rows)
        if not in_result:
            self._write(scores, result, count)

    def _is_missing(self, first: Int, rows: Int) -> Reg:
        """Whether one of the features of so many rows is NaN."""
        f, lanes = self.frame.f, self.frame.lanes
        vector, rest = vector_type(self.element, lanes), self.width % lanes

        def in_row(row: Int, missing: Reg) -> tuple[Reg]:
            features = self._features(f.add(first, row))

            def in_vector(column: Int, missing: Reg) -> tuple[Reg]:
                seen = f.load(vector, f.gep(features, column, self.element))
                return (register(f.or_(missing, f.fcmp("uno", seen, seen))),)

            (missing,) = f.loop(0, self.width - rest, lanes, in_vector, (missing,))
            if rest:
                address = f.gep(features, self.width - rest, self.element)
                seen = masked_load(f, vector, address, f.tail_mask(lanes, rest), passthru=f.constant(vector, 0))
                missing = register(f.or_(missing, f.fcmp("uno", seen, seen)))
            return (missing,)

        none = f.constant(vector_type("i1", lanes), [False] * lanes)
        (missing,) = f.loop(0, rows, 1, in_row, (none,))
        return f.reduce_lanes("or", missing)

    def _walk(self, group: _Rows, rows: Int) -> None:
        """Adds up the scores of so many rows."""
        f, walks, trees = self.frame.f, self.schedule.walks, self.op.int("trees")
        grouped = f.mul(f.udiv(rows, walks), walks)
        rest = f.sub(rows, grouped)

        def down_tree(tree: Reg) -> None:
            f.loop(0, grouped, walks, lambda row: self._rows_down_tree(group, row, tree))

        def rest_down_tree(tree: Reg) -> None:
            self._rows_down_tree(group, grouped, tree, rest)

        f.if_(f.icmp("sgt", grouped, 0), lambda: f.loop(0, trees, 1, down_tree))
        f.if_(
            f.icmp("sgt", f.mul(rest, -(-trees // walks)), trees),
            lambda: f.loop(0, trees, 1, rest_down_tree),
            lambda: f.loop(grouped, rows, 1, lambda row: self._row_down_trees(group, row)),
        )

    def _rows_down_tree(self, group: _Rows, row: Int, tree: Reg, count: Int | None = None) -> None:
        """A group of rows from `row` on; of fewer than a group, `count`, the last one in all walks behind it."""
        f, walks = self.frame.f, range(self.schedule.walks)
        rows = [f.add(row, each if count is None else f.smin(each, f.sub(count, 1))) for each in walks]
        leaves = self._reached(group, [_Walk(self._features(f.add(group.first, row)), tree) for row in rows])
        for each, (leaf, row) in enumerate(zip(leaves, rows, strict=True)):
            if count is None:
                self._vote(group, leaf, row)
            else:
                f.if_(f.icmp("slt", each, count), partial(self._vote, group, leaf, row))

    def _row_down_trees(self, group: _Rows, row: Reg) -> None:
        f, trees, walks = self.frame.f, self.op.int("trees"), self.schedule.walks
        features = self._features(f.add(group.first, row))

        def down_group(tree: Int) -> None:
            roots = [f.smin(f.add(tree, each), trees - 1) for each in range(walks)]
            leaves = self._reached(group, [_Walk(features, root) for root in roots])
            for each, leaf in enumerate(leaves):
                f.if_(f.icmp("slt", f.add(tree, each), trees), partial(self._vote, group, leaf, row))

        f.loop(0, trees, walks, down_group)

    def _features(self, row: Int) -> Reg:
        f, frame = self.frame.f, self.frame
        offset = f.add(frame.size(self.view.offset), f.mul(row, frame.size(self.view.strides[0])))
        return f.gep(self.x, offset, self.element)

    # Walks

    def _reached(self, group: _Rows, walks: Sequence[_Walk]) -> Sequence[Reg]:
        """The leaves that all these walks end at: all make a step until none can."""
        f, depth = self.frame.f, self.op.int("depth")
        links: list[Reg] = []

        def is_on_the_way(level: Reg, *nodes: Reg) -> Reg:
            links[:] = [self._links(node) for node in nodes]
            is_leaf = register(reduce(f.and_, links))
            return register(f.and_(f.icmp("eq", f.and_(is_leaf, LEAF), 0), f.icmp("slt", level, depth)))

        def step(level: Reg, *nodes: Reg) -> tuple[Int, ...]:
            steps = zip(walks, nodes, links, strict=True)
            stepped = (self._step(group, walk, node, link) for walk, node, link in steps)
            return (f.add(level, 1), *stepped)

        return f.while_((0, *(walk.root for walk in walks)), is_on_the_way, step)[1:]

    def _step(self, group: _Rows, walk: _Walk, node: Reg, links: Reg) -> Reg:
        """The child of the node on the walk; a leaf stays."""
        f = self.frame.f
        feature = f.lshr(f.and_(links, LOW_WORD), FEATURE_SHIFT)
        column = f.mul(feature, self.frame.size(self.view.strides[1]))
        seen = f.load(self.element, f.gep(walk.features, column, self.element))
        threshold = f.load(self.element, f.gep(self.tables[0], node, self.element))
        fails = f.convert("zext", f.xor(self._holds(group, seen, threshold, links), 1), "i64")
        below = register(f.add(f.lshr(links, WORD_BITS), fails))
        return f.select(f.icmp("eq", f.and_(links, LEAF), 0), below, node)

    def _holds(self, group: _Rows, seen: Reg, threshold: Reg, links: Reg) -> Reg:
        f = self.frame.f
        holds = f.fcmp(PREDICATES[split_outcomes(self.op)[0]], seen, threshold)
        for bit in group.by_test:
            among = f.icmp("ne", f.and_(links, bit), 0)
            holds = register(f.or_(holds, f.and_(f.fcmp(PREDICATES[bit], seen, threshold), among)))
        return holds

    def _links(self, node: Int) -> Reg:
        """i64: both words of a record, the first below."""
        return self.frame.f.load("i64", self.frame.f.gep(self.tables[1], node, "i64"))

    # Votes

    def _vote(self, group: _Rows, leaf: Reg, row: Int) -> None:
        """Adds what a leaf votes to the scores of a row of a block."""
        f = self.frame.f
        base = f.mul(row, self.targets)
        if len(self.tables) == 2:
            target = self._chosen(leaf, self.targets)
            weight = f.load(self.element, f.gep(self.tables[0], leaf, self.element))
            self._count(group, weight, f.add(base, target))
            return
        chosen = f.mul(self._chosen(leaf, self._weight_rows), self.targets)

        def one(target: Int) -> None:
            address = f.gep(self.tables[2], f.add(chosen, target), self.element)
            self._count(group, f.load(self.element, address), f.add(base, target))

        f.loop(0, self.targets, 1, one)

    @cached_property
    def _weight_rows(self) -> int:
        rows = self.op.operands[3].shape[0]
        assert isinstance(rows, int), rows
        return rows

    def _chosen(self, leaf: Reg, limit: int) -> Int:
        """The second word of a leaf, which is below `limit`: a walk that is cut off may not have come to one."""
        if limit == 1:
            return 0
        return self.frame.f.umin(self.frame.f.lshr(self._links(leaf), WORD_BITS), limit - 1)

    def _count(self, group: _Rows, weight: Reg, index: Int) -> None:
        """Adds a weight to a score."""
        f, element = self.frame.f, memory_type(self.accumulator)
        slot = f.gep(group.scores, index, element)
        wide = register(f.convert("fpext", weight, element))
        f.store(combine(self.op.text("kind"), self.accumulator, f.load(element, slot), wide, f), slot)

    def _fill(self, scores: Reg, count: Int) -> None:
        f, element = self.frame.f, memory_type(self.accumulator)
        first = f.constant(element, identity(self.op.text("kind"), self.accumulator))
        self._vectors(count, lambda index, lanes: f.store(f.splat(first, lanes), f.gep(scores, index, element)))

    def _write(self, scores: Reg, result: Reg, count: Int) -> None:
        f, element = self.frame.f, memory_type(self.accumulator)

        def write(index: Int, lanes: int) -> None:
            score = f.load(vector_type(element, lanes), f.gep(scores, index, element))
            narrow = f.convert("fptrunc", score, vector_type(self.element, lanes))
            f.store(narrow, f.gep(result, index, self.element))

        self._vectors(count, write)

    def _vectors(self, count: Int, body: Callable[[Int, int], None]) -> None:
        """`body(index, lanes)` for all of so many elements: whole vectors, and what is left one by one."""
        f, lanes = self.frame.f, self.frame.lanes
        whole = f.sub(count, f.urem(count, lanes))
        f.loop(0, whole, lanes, lambda index: body(index, lanes))
        f.loop(whole, count, 1, lambda index: body(index, 1))
