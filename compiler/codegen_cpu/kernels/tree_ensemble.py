"""Tree ensembles: rows walk down trees, several vectors of walks at once, so that none need wait for what it gathers.

A unit of work is a block of rows. Whole groups of its rows walk down one tree after another. What is left over does so
as well, the last row in several lanes, if that takes fewer walks; else each of these rows walks down a group of trees.
Either way its scores are added up in the order of the trees.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

from onnxc.compiler.codegen_cpu.element_types import memory_type
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.kernels.reduction import combine
from onnxc.compiler.codegen_cpu.operands import operand_in_memory
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, register, vector_type
from onnxc.compiler.ir.dims import floordiv
from onnxc.compiler.ir.dtypes import F64, DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitives.trees import FEATURE_SHIFT, LEAF, split_outcomes
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
LINK = "[2 x i32]"
NARROW = 1 << 31
"""The offsets of which each is below this are in 32 bits."""


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
class _Walks:
    """A vector of walks: where the first row lies, how far from it the row of each, and the root of each."""

    features: Reg
    offsets: Reg
    roots: Reg


@record
class _Rows:
    """A block of rows: the first, and where their scores lie."""

    first: Reg
    scores: Reg


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
    def vectors(self) -> range:
        """The first walk of each vector."""
        return range(0, self.schedule.walks, self.frame.lanes)

    @cached_property
    def nodes(self) -> str:
        """The type of a vector of nodes."""
        return vector_type("i32", self.frame.lanes)

    @cached_property
    def width(self) -> int:
        """How many features a row has."""
        width = self.op.operands[0].shape[1]
        assert isinstance(width, int), width
        return width

    @cached_property
    def offsets(self) -> str:
        """The type of a vector of offsets from the first row of a vector, in elements."""
        lanes = self.frame.lanes
        rows, columns = self.view.strides
        if not isinstance(rows, int) or not isinstance(columns, int):
            return vector_type("i64", lanes)
        reach = lanes * abs(rows) + self.width * abs(columns)
        return vector_type("i32" if reach < NARROW else "i64", lanes)

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

    @cached_property
    def leaves(self) -> Reg:
        """The leaves that a group of walks has come to."""
        return self.frame.f.alloca("i32", self.schedule.walks)

    # Rows

    def unit(self, ordinal: Reg) -> None:
        """The scores of one block of rows."""
        f, block, walks = self.frame.f, self.schedule.block, self.schedule.walks
        first = register(f.mul(ordinal, block))
        rows = f.smin(f.sub(self.frame.size(self.op.operands[0].shape[0]), first), block)
        result, count = f.gep(self.frame.output, f.mul(first, self.targets), self.element), f.mul(rows, self.targets)
        in_result = self.schedule.scores == "result"
        group = _Rows(first, result if in_result else self.buffer)
        self._fill(group.scores, count)
        grouped = f.mul(f.udiv(rows, walks), walks)

        def down_tree(tree: Reg) -> None:
            f.loop(0, grouped, walks, lambda row: self._rows_down_tree(group, row, tree))

        trees, rest = self.op.int("trees"), f.sub(rows, grouped)

        def rest_down_tree(tree: Reg) -> None:
            self._rows_down_tree(group, grouped, tree, rest)

        f.if_(f.icmp("sgt", grouped, 0), lambda: f.loop(0, trees, 1, down_tree))
        f.if_(
            f.icmp("sgt", f.mul(rest, -(-trees // walks)), trees),
            lambda: f.loop(0, trees, 1, rest_down_tree),
            lambda: f.loop(grouped, rows, 1, lambda row: self._row_down_trees(group, row)),
        )
        if not in_result:
            self._write(group.scores, result, count)

    def _rows_down_tree(self, group: _Rows, row: Int, tree: Reg, count: Int | None = None) -> None:
        """A group of rows from `row` on; of fewer than a group, `count`, the last one in all lanes behind it."""
        f, lanes = self.frame.f, self.frame.lanes
        root = f.splat(register(f.convert("trunc", tree, "i32")), lanes)
        walks = [self._walks_from(f.add(group.first, row), start, root, count) for start in self.vectors]
        reached = self._reached(walks)
        if self.targets > 1 or len(self.tables) > 2 or count is not None:
            self._note(reached)
            each_row = self.schedule.walks if count is None else count
            f.loop(0, each_row, 1, lambda each: self._vote(group, each, f.add(row, each)))
            return
        for start, leaves in zip(self.vectors, reached, strict=True):
            self._count(group, f.gather(vector_type(self.element, lanes), self.tables[0], leaves), f.add(row, start))

    def _walks_from(self, row: Int, start: int, root: Reg, count: Int | None) -> _Walks:
        """The vector of walks of the rows from `start` on behind `row`, of which there are `count` in all."""
        f, ids = self.frame.f, self.frame.f.lane_ids(self.offsets)
        first: Int = start
        if count is not None:
            last = f.sub(count, 1)
            left = register(f.convert("trunc", f.smax(f.sub(last, start), 0), ids.element))
            ids, first = register(f.smin(ids, f.splat(left, self.frame.lanes))), f.smin(start, last)
        return _Walks(self._features(f.add(row, first)), self._strides(ids, 0), root)

    def _row_down_trees(self, group: _Rows, row: Reg) -> None:
        f, trees, lanes, walks = self.frame.f, self.op.int("trees"), self.frame.lanes, self.schedule.walks
        features, still = self._features(f.add(group.first, row)), f.constant(self.offsets, 0)

        def down_group(tree: Int) -> None:
            first_roots = (
                f.splat(register(f.convert("trunc", f.add(tree, start), "i32")), lanes) for start in self.vectors
            )
            all_roots = (f.smin(f.add(root, f.lane_ids(self.nodes)), trees - 1) for root in first_roots)
            self._note(self._reached([_Walks(features, still, register(roots)) for roots in all_roots]))
            f.loop(0, f.smin(f.sub(trees, tree), walks), 1, lambda each: self._vote(group, each, row))

        f.loop(0, trees, walks, down_group)

    def _features(self, row: Int) -> Reg:
        f, frame = self.frame.f, self.frame
        offset = f.add(frame.size(self.view.offset), f.mul(row, frame.size(self.view.strides[0])))
        return f.gep(self.x, offset, self.element)

    # Walks

    def _reached(self, group: Sequence[_Walks]) -> Sequence[Reg]:
        """The leaves that all these walks end at: all make a step until none can."""
        f, depth = self.frame.f, self.op.int("depth")
        words: list[Reg] = []

        def is_on_the_way(level: Reg, *nodes: Reg) -> Reg:
            words[:] = [self._links(node, 0) for node in nodes]
            leaf = words[0]
            for word in words[1:]:
                leaf = register(f.and_(leaf, word))
            is_branch = f.icmp("eq", f.and_(leaf, LEAF), 0)
            return register(f.and_(f.reduce_lanes("or", is_branch), f.icmp("slt", level, depth)))

        def step(level: Reg, *nodes: Reg) -> tuple[Int, ...]:
            stepped = (self._step(walks, node, word) for walks, node, word in zip(group, nodes, words, strict=True))
            return (f.add(level, 1), *stepped)

        return f.while_((0, *(walks.roots for walks in group)), is_on_the_way, step)[1:]

    def _step(self, walks: _Walks, nodes: Reg, words: Reg) -> Reg:
        """The children of the nodes on the walks; a leaf stays."""
        f, vector = self.frame.f, vector_type(self.element, self.frame.lanes)
        features = register(f.convert("zext", f.lshr(words, FEATURE_SHIFT), self.offsets))
        seen = f.gather(vector, walks.features, register(f.add(self._strides(features, 1), walks.offsets)))
        thresholds = f.gather(vector, self.tables[0], nodes)
        fails = f.convert("zext", f.xor(self._holds(seen, thresholds, words), 1), self.nodes)
        below = register(f.add(self._links(nodes, 1), fails))
        return f.select(f.icmp("eq", f.and_(words, LEAF), 0), below, nodes)

    def _strides(self, steps: Reg, axis: int) -> Reg:
        """How far so many steps along an axis of x lead."""
        f, stride = self.frame.f, self.frame.size(self.view.strides[axis])
        if isinstance(stride, int):
            return register(f.mul(steps, stride))
        return register(f.mul(steps, f.splat(stride, self.frame.lanes)))

    def _holds(self, seen: Reg, thresholds: Reg, words: Reg) -> Reg:
        f = self.frame.f
        always, by_node = split_outcomes(self.op)
        holds = f.fcmp(PREDICATES[always], seen, thresholds)
        for bit in by_node:
            among = f.icmp("ne", f.and_(words, bit), 0)
            holds = register(f.or_(holds, f.and_(f.fcmp(PREDICATES[bit], seen, thresholds), among)))
        return holds

    def _links(self, nodes: Reg, ordinal: int) -> Reg:
        f = self.frame.f
        return f.gather(self.nodes, f.gep(self.tables[1], ordinal, "i32"), nodes, step=LINK)

    # Votes

    def _note(self, reached: Sequence[Reg]) -> None:
        for start, leaves in zip(self.vectors, reached, strict=True):
            self.frame.f.store(leaves, self.frame.f.gep(self.leaves, start, "i32"))

    def _vote(self, group: _Rows, walk: Int, row: Int) -> None:
        """Adds what the leaf votes that a walk has come to, to the scores of a row of a block."""
        f = self.frame.f
        base = f.mul(row, self.targets)
        leaf = register(f.convert("zext", f.load("i32", f.gep(self.leaves, walk, "i32")), "i64"))
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
        f = self.frame.f
        if limit == 1:
            return 0
        word = f.load("i32", f.gep(f.gep(self.tables[1], leaf, LINK), 1, "i32"))
        return f.umin(f.convert("zext", word, "i64"), limit - 1)

    def _count(self, group: _Rows, weight: Reg, index: Int) -> None:
        """Adds a weight to a score, or each of a vector to the scores from there on."""
        f, element = self.frame.f, memory_type(self.accumulator)
        slot, type = f.gep(group.scores, index, element), vector_type(element, weight.lanes)
        wide = register(f.convert("fpext", weight, type))
        f.store(combine(self.op.text("kind"), self.accumulator, f.load(type, slot), wide, f), slot)

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
