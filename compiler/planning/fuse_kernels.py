"""Fusion: which ops of a native step share a kernel.

Every op that is costly to repeat, or that needs its operands in memory, is an anchor and starts a group. Recomputable
ops, pointwise and movement, are computed inside the groups that use them: again in each where that is cheap, else in
a group of their own that writes a buffer. Elementwise ops that follow an anchor join its group. A group writes one
value, or all that an anchor with several results gives. Which op is what, its primitive says.
"""

from collections.abc import Callable, Sequence

from onnxc.compiler.ir.dims import at_least, product
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.op_facts import is_cheap, writes_as_it_reads
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.primitives.pointwise import is_widening
from onnxc.compiler.planning.fusion.element_cost import element_cost
from onnxc.compiler.planning.fusion.fusion_rules import REPEAT_LIMIT, FusionRules
from onnxc.compiler.planning.fusion.groups import GROUP_LIMIT, Group, Indices
from onnxc.compiler.planning.fusion.pair_products import pair_products
from onnxc.compiler.planning.kernel_plan import KernelKind
from onnxc.compiler.planning.loops.indices import is_picked_once, picks_rows
from onnxc.compiler.planning.loops.picked_views import pick_from
from onnxc.compiler.planning.loops.views import View, keeps_axes, split_axes, turned, view_through

# Anchors that read each operand element once or a few times compute it there; the others want it in memory.
INLINES_OPERANDS = ("reduction", "concatenate", "pointwise")
TAKES_EPILOGUE = ("contraction", "block_product", "convolution", "reduction", "window")

# The anchors whose kernels go along rows alone: of what is computed there, what lies across rows is turned before.
ALONG_ROWS = ("contraction", "block_product", "convolution", "reduction", "concatenate")

# Anchors whose rows may be split into axes before the result is turned.
SPLITS_ROWS = ("contraction", "convolution")

CAST_INDEX = 2
"""An index that is in memory, and cast: a kernel for the cast alone would write four times what it reads, or more."""

BYTE = 8
"""The bits of what is kept in memory rather than the floats that it stands for."""

EVALUATION_LIMIT = 512
"""The most that a group evaluates its ops: once for each index at which one is wanted, which movements multiply.

Beyond it values are written instead. Of x[:-1] + x[1:] and the like 2^n evaluations are wanted of n ops: at n = 12 LLVM
took 10 s.
"""

INLINED_PARTS = 4
"""The most parts of a concatenation that is computed where it is read: each is looked for at every element.

An estimate: rolled images have two parts, merged patches four; a masked load costs less than a launch does."""


def fuse_kernels(
    ops: Sequence[Op], outputs: Sequence[Value], rules: FusionRules
) -> tuple[tuple[Group, ...], dict[Value, Value]]:
    """The groups of `ops` in launch order, and for each value that is only a dense view of another, that other.

    Values in `outputs` are written; what is not made by `ops` is in memory already.
    """
    fusion = _Fusion(ops, outputs, rules)
    fusion.grow_epilogues()
    for op in reversed(ops):
        fusion.place(op)
    for group in fusion.groups:
        group.ops = dict.fromkeys(sorted(group.ops, key=fusion.ordinal_of.__getitem__))
    groups = sorted(fusion.groups, key=lambda group: fusion.ordinal_of[group.last])
    return tuple(groups), fusion.aliases


def _is_scalar(value: Value) -> bool:
    """Whether a value is a constant of one element, or one repeated, which no kernel would rather read from memory."""
    maker = value.op.operands[0].op if value.op is not None and value.op.name == "broadcast" else value.op
    return maker is not None and maker.name == "constant" and maker.array().size == 1


def _is_filled_up(op: Op) -> bool:
    """Whether a slice is all that was there before padding, which nothing but its place in memory is for."""
    padded = made_by(op.operands[0], "pad") if op.name == "slice" else None
    is_first = padded is not None and {*op.dims("starts"), *padded.dims("low")} == {0} and {*op.ints("steps")} == {1}
    return is_first and padded is not None and op.result.shape == padded.operands[0].shape


_ONE_INDEX: Indices = frozenset((0,))


class _Fusion:
    def __init__(self, ops: Sequence[Op], outputs: Sequence[Value], rules: FusionRules) -> None:
        self.ops = ops
        self.rules = rules
        self.inside = frozenset(ops)
        self.ordinal_of = {op: ordinal for ordinal, op in enumerate(ops)}
        self.buffered: set[Value] = set(outputs)
        self.outputs = frozenset(outputs)
        joins = (op for op in ops if op.name == "concatenate" and len(op.operands) <= INLINED_PARTS)
        self.inlined_joins = {op for op in joins if rules.inlines_movements and op.results[0] not in self.outputs}
        self.as_outputs: set[Value] = set()
        self.aliases: dict[Value, Value] = {}
        self.groups: list[Group] = []
        self.epilogues: set[Op] = set()
        # Gathers whose anchors read where they pick.
        self.picks: set[Op] = set()
        self.members: dict[Op, list[Group]] = {op: [] for op in ops}
        self.uses: dict[Value, list[Op]] = {}
        for op in ops:
            for operand in op.operands:
                self.uses.setdefault(operand, []).append(op)
        self.costs: dict[Value, int] = {}
        # What an output is a reshape of is in memory where that output is.
        self.buffered.update(source for value in outputs if (source := self._reshaped(value)) is not None)

    def _reshaped(self, value: Value) -> Value | None:
        """What `value` is a reshape of, where something else uses that, too, and would have to compute it.

        A view, as of a row that is repeated, is read where it came from, in less memory.
        """
        op = value.op
        if op not in self.inside or op.name != "reshape":
            return None
        (source,) = op.operands
        if source.op not in self.inside or len(self.uses[source]) == 1:
            return None
        return None if is_cheap(source) or PRIMITIVES[source.op.name].is_view else source

    def _count_costs(self) -> None:
        """The work of an element of each value, with all that is done again for it."""
        for op in self.ops:
            above = op.operands if self._is_recomputable(op) else ()
            done = (operand for operand in above if not self._is_done(op, operand))
            self.costs[op.results[0]] = self._cost(op) + sum(self.costs.get(operand, 0) for operand in done)

    def _is_done(self, user: Op, value: Value) -> bool:
        """Whether nothing of what makes `value` is done again for `user`: it is written, or a part of it is read."""
        is_part = user.name == "slice" and value.op in self.epilogues
        return is_part or self._is_written_index(user, value)

    def _cost(self, op: Op) -> int:
        """The work of one op for an element; a part of a concatenation is looked for among all."""
        return len(op.operands) if op in self.inlined_joins else element_cost(op)

    def _is_written_index(self, user: Op, value: Value) -> bool:
        """Whether `value` is an index that is too much work to do again for each vector that it picks."""
        picks = PRIMITIVES[user.name].picks and value != user.operands[0]
        return picks and self.costs.get(value, 0) > self.rules.index_limit and not is_picked_once(user)

    def _is_recomputable(self, op: Op) -> bool:
        return PRIMITIVES[op.name].recomputable or op in self.inlined_joins

    # Anchors and what follows them

    def grow_epilogues(self) -> None:
        """Makes a group of each anchor, with the pointwise ops that alone use its result."""
        for op in self.ops:
            kind = PRIMITIVES[op.name].anchor
            if kind is None or op in self.inlined_joins:
                continue
            group = Group(kind, op, op.results, {op: None})
            # Where a kernel computes a concatenation element by element, it computes what follows as well.
            takes_epilogue = group.kind in TAKES_EPILOGUE or (
                group.kind == "concatenate" and self.rules.inlines_movements
            )
            if takes_epilogue and len(op.results) == 1:
                self._follow(group)
            if group.kind in self.rules.arranges:
                self._arrange(group)
            self.groups.append(group)
            for member in group.ops:
                self.members[member].append(group)
            self.buffered.update(group.outputs)
        self._pair_products()
        self._count_costs()

    def _pair_products(self) -> None:
        """Makes one group of two products that a kernel makes together."""
        for first in [*pair_products(self.groups, self.uses, self.outputs, self.rules.pairs)]:
            self.groups.remove(first)
            self.buffered.difference_update(first.outputs)
            own = next(group for group in self.groups if first.anchor is group.anchor)
            self.members.update({op: [own] for op in first.ops})

    def _follow(self, group: Group) -> None:
        computed = set(group.ops)
        while following := self._following(group, computed):
            group.outputs = following[-1].results
            group.ops.update(dict.fromkeys(following))
            self.epilogues.update(following)
        while is_widening(group.last) and self._is_read_inline(group.outputs[0]):
            self._leave(group, (group.last,))
        self._leave(group, self._dequantisation(group) if self._is_read_inline(group.outputs[0]) else ())

    def _leave(self, group: Group, ops: Sequence[Op]) -> None:
        """Leaves the last ops of an epilogue, the last one first, to those that read the result."""
        for op in ops:
            self.epilogues.remove(op)
            del group.ops[op]
            group.outputs = (next(operand for operand in op.operands if not _is_scalar(operand)),)

    def _dequantisation(self, group: Group) -> tuple[Op, ...]:
        """What makes floats of bytes at the end of an epilogue, the last op first, where it may be done again."""
        ops: list[Op] = []
        value, cost = group.outputs[0], 0
        while value.op in self.epilogues and value.op in group.ops and cost + element_cost(value.op) <= REPEAT_LIMIT:
            op = value.op
            varying = [operand for operand in op.operands if not _is_scalar(operand)]
            if len(varying) != 1:
                break
            ops.append(op)
            cost, value = cost + element_cost(op), varying[0]
            if op.name == "cast" and value.dtype.bits <= BYTE < op.dtype().bits:
                return tuple(ops)
        return ()

    def _arrange(self, group: Group) -> None:
        """Takes in a transpose, and a reshape of what it gives, where nothing else uses what the group writes.

        A product's rows may be split into axes before they are turned. A reduction writes in the order in which it
        reads.
        """
        if group.kind == "reduction" and not self._is_turned_back(group):
            return
        split = self._moved_by("reshape", group.outputs[0]) if group.kind in SPLITS_ROWS else None
        if split is not None and split_axes(group.outputs[0].shape, split.result.shape) is None:
            return
        turn = self._moved_by("transpose", group.outputs[0] if split is None else split.result)
        if split is not None and turn is None:
            return
        last = self._moved_by("reshape", group.outputs[0] if turn is None else turn.result)
        for op in (op for op in (split, turn, last) if op is not None):
            group.outputs = op.results
            group.ops[op] = None
            self.epilogues.add(op)

    def _is_turned_back(self, group: Group) -> bool:
        """Whether all that is done with the result undoes the turn of what the anchor reads."""
        turn = self._moved_by("transpose", group.outputs[0])
        return turn is not None and writes_as_it_reads(group.anchor, turn)

    def _moved_by(self, name: str, value: Value) -> Op | None:
        """The movement of this name that alone uses a value."""
        users = self.uses.get(value, [])
        is_alone = value not in self.outputs and [user.name for user in users] == [name]
        return users[0] if is_alone else None

    def _following(self, group: Group, computed: set[Op]) -> tuple[Op, ...]:
        """The pointwise ops that alone use what the group writes, up to the first result that all the others lead to.

        For x * sigmoid(x) these are all of them; nothing where there is no such result. computed: all that the group
        computes, to which these are added, with what their operands take: a group without room for it would have each
        written, down to constants that are repeated.
        """
        following: dict[Op, None] = {}
        waiting, value = set[Op](), group.outputs[0]
        while value not in self.outputs:
            waiting.update(self.uses.get(value, []))
            op = min(waiting, key=self.ordinal_of.__getitem__, default=None)
            if op is None or not self._is_epilogue(op, group):
                break
            self._compute(op, computed)
            if len(computed) > GROUP_LIMIT:
                break
            waiting.remove(op)
            following[op] = None
            if not waiting:
                return tuple(following)
            value = op.results[0]
        return ()

    def _compute(self, op: Op, computed: set[Op]) -> None:
        """Adds an op to those that a group computes, with the recomputable ones that lead to it."""
        pending = [op]
        while pending:
            op = pending.pop()
            computed.add(op)
            above = (operand.op for operand in op.operands)
            pending += [op for op in above if op in self.inside and op not in computed and self._is_inline(op)]

    def _is_inline(self, op: Op) -> bool:
        """Whether an op may be computed in any group."""
        return self._is_recomputable(op) and op not in self.epilogues

    def _is_read_inline(self, value: Value) -> bool:
        """Whether all that use `value` may compute it as they read what it is made of."""
        kinds = (PRIMITIVES[user.name].anchor or "pointwise" for user in self.uses.get(value, []))
        return value not in self.outputs and all(kind in INLINES_OPERANDS for kind in kinds)

    def _is_epilogue(self, op: Op, group: Group) -> bool:
        return (
            PRIMITIVES[op.name].elementwise
            and op in self.inside
            and op not in self.epilogues
            and op.results[0].shape == group.outputs[0].shape
            and self.rules.finishes(group.anchor, op)
        )

    # Recomputable ops, from the last to the first: when an op is placed, all that use it are

    def place(self, op: Op) -> None:
        """Settles where a recomputable op is computed, then what its groups need of its operands."""
        if self._is_inline(op):
            value = op.results[0]
            if _is_filled_up(op) and value not in self.outputs:
                # Rows are filled up for those that read them, each from where it begins.
                self.buffered.discard(value)
                self.buffered.add(op.operands[0])
                self.costs[value] = 1
            if self._is_made_larger(op) and value not in self.buffered and self._is_repeated(value):
                # What is narrow is kept in memory, and widened by all that read it; so is what is repeated.
                self.buffered.add(op.operands[0])
                self.costs[value] = 1
            is_read = op.name == "constant" or op in self.picks
            if not is_read and (value in self.buffered or (not _is_scalar(value) and self._is_repeated(value))):
                self.buffered.add(value)
                self._write(op, value)
            else:
                for group in self._using_groups(value):
                    self._join(group, op)
        for group in self.members[op]:
            for operand in op.operands:
                self._need(group, op, operand)

    def _is_made_larger(self, op: Op) -> bool:
        """Whether an operand takes no more memory than the result, and the result nearly no work beyond it."""
        return is_widening(op) or op.name == "broadcast"

    def _join(self, group: Group, op: Op) -> None:
        if op not in group.ops:
            group.indices[op] = self._indices(group, op.results[0])
            group.ops[op] = None
            self.members[op].append(group)

    def _indices(self, group: Group, value: Value) -> Indices:
        """At which indices the ops of `group` want `value`."""
        wanted: set[int] = set()
        for user in self._users_in(group, value):
            own = group.indices.get(user, _ONE_INDEX)
            if PRIMITIVES[user.name].kind == "pointwise":
                wanted |= own
                continue
            for position, operand in enumerate(user.operands):
                if operand == value:
                    wanted.update(hash((index, self.ordinal_of[user], position)) for index in own)
        return frozenset(wanted)

    def _users_in(self, group: Group, value: Value) -> list[Op]:
        """The ops of `group` that use `value`, looked for where there are fewer: many groups may share it."""
        users = self.uses.get(value, [])
        if len(group.ops) < len(users):
            return [op for op in group.ops if value in op.operands]
        return [user for user in users if user in group.ops]

    def _evaluates_often(self, group: Group, value: Value) -> bool:
        """Whether `group`, with what makes `value`, would evaluate more than it may."""
        evaluated = sum(map(len, group.indices.values()))
        return evaluated + len(self._indices(group, value)) > EVALUATION_LIMIT

    def _using_groups(self, value: Value) -> list[Group]:
        using = dict.fromkeys(group for user in self.uses.get(value, []) for group in self.members[user])
        return list(using)

    def _is_repeated(self, value: Value) -> bool:
        groups = self._using_groups(value)
        crowded = any(len(group.ops) >= GROUP_LIMIT or self._evaluates_often(group, value) for group in groups)
        widened = self.costs[value] > REPEAT_LIMIT and any(
            self._widens(user, value) for user in self.uses.get(value, [])
        )
        # Numbers of a byte are read rather than those that they are made of, which are wider.
        is_narrow = value.dtype.bits <= BYTE and not value.dtype.is_bool
        limit = REPEAT_LIMIT if is_narrow else self.rules.repeat_limit
        return bool(groups) and (crowded or widened or (len(groups) > 1 and self.costs[value] > limit))

    def _widens(self, user: Op, value: Value) -> bool:
        """Whether `user` reads elements of `value` many times."""
        if PRIMITIVES[user.name].picks:
            if value == user.operands[0]:
                return not self._is_of_picked_rows(value)
            is_cast = self._costs_at_most(value, CAST_INDEX, self._is_in_memory)
            return self._is_written_index(user, value) and not is_cast
        wider = user.name == "broadcast" and not at_least(product(value.shape), product(user.results[0].shape))
        return wider and value.shape != user.results[0].shape

    def _is_of_picked_rows(self, value: Value) -> bool:
        """Whether lists of indices pick rows that lie in memory, and rows of these: each is found once for a row.

        As Resize picks where only a call knows all four sizes: f32[1, 32, 40, 40] to twice the size took 28 us with
        the rows of each step written, and takes 15 us.
        """
        op, picks = value.op, False
        while op in self.inside and value not in self.buffered and op.name == "gather":
            if op.operands[1].rank != 1 or op.int("axis") == value.rank - 1:
                return False
            value, picks = op.operands[0], True
            op = value.op
        base, chain = self._movements(value)
        is_there = base.op is None or self._is_in_memory(base.op, base)
        view = view_through(base, chain) if picks and is_there else None
        return view is not None and view.strides[-1] == 1

    def _write(self, op: Op, value: Value) -> None:
        """A value that must be in memory: another name for a buffer, or a group of its own."""
        if op.name == "reshape" and (value not in self.outputs or self._becomes_output(op.operands[0])):
            self.aliases[value] = op.operands[0]
            self.buffered.add(op.operands[0])
            return
        kind: KernelKind = "concatenate" if op in self.inlined_joins else "pointwise"
        group = Group(kind, op, (value,), {op: None})
        self.groups.append(group)
        self.members[op].append(group)

    def _becomes_output(self, value: Value) -> bool:
        """Whether `value`, which an output is a reshape of, is written in any case: it can be where that output is."""
        while value.op in self.inside and value.op.name == "reshape" and value not in self.outputs:
            value = value.op.operands[0]
        is_written = value.op in self.inside and value.op.name != "constant" and value in self.buffered
        if not is_written or value in self.outputs or value in self.as_outputs:
            return False
        self.as_outputs.add(value)
        return True

    def _need(self, group: Group, op: Op, operand: Value) -> None:
        """Marks what `op`, as a member of `group`, reads from memory."""
        producer = operand.op
        if producer is None or producer not in self.inside or producer in group.ops:
            return
        if not self._is_recomputable(producer) or self._mixes_axes(group, op):
            self.buffered.add(operand)
        elif op in (group.anchor, group.beside) and not self._inlines(group, operand):
            self._need_view(group, op, operand)
        elif self._is_rather_moved_first(group, op, operand):
            self.buffered.add(operand)

    def _is_rather_moved_first(self, group: Group, op: Op, operand: Value) -> bool:
        """Whether an operand that could be computed where it is read is not in the order in which that is done."""
        takes_rows = op is group.anchor or ((picks_rows(op) or op.name == "pad") and operand == op.operands[0])
        if takes_rows and not self._steps_through(op, operand):
            return True
        turn = made_by(operand, "transpose")
        if op.name == "broadcast" and turn is not None:
            # A turn that is not the broadcast's own is to be done once.
            return True
        if turn is not None and PRIMITIVES[op.name].elementwise and self._goes_along_rows(group, op):
            return not self._is_read(turn, (0,), turned(turn))
        return op.name == "transpose" and self._has_sought_rows(operand) and not self._is_read(op, (0,), turned(op))

    def _goes_along_rows(self, group: Group, op: Op) -> bool:
        """Whether a group computes an elementwise op along rows: for its anchor, or to pad them."""
        pending, seen = [op], set[Op]()
        while pending and group.kind not in ALONG_ROWS:
            op = pending.pop()
            for user in self._users_in(group, op.result):
                if user in seen:
                    continue
                seen.add(user)
                if user.name == "pad" and user.operands[0] == op.result:
                    return True
                if PRIMITIVES[user.name].elementwise:
                    pending.append(user)
        return group.kind in ALONG_ROWS

    def _has_sought_rows(self, value: Value) -> bool:
        """Whether a value is padded, or computed of rows that indices pick: where an element is takes looking up."""
        pending, seen, shape = [value], set[Value](), value.shape
        while pending:
            value = pending.pop()
            op = value.op
            if value in seen or op not in self.inside or value in self.buffered or not self._is_recomputable(op):
                continue
            seen.add(value)
            if picks_rows(op) or op.name == "pad":
                return True
            if PRIMITIVES[op.name].elementwise:
                pending += [operand for operand in op.operands if operand.shape == shape]
        return False

    def _mixes_axes(self, group: Group, op: Op) -> bool:
        """Whether a kernel would take apart the offset of each element to find its operand."""
        if op.name != "reshape" or keeps_axes(op):
            return False
        # What a pointwise kernel writes is dense: it has the memory of every shape.
        if group.kind == "pointwise" and op is group.last:
            return False
        return not self.rules.inlines_movements or split_axes(op.result.shape, op.operands[0].shape) is None

    def _inlines(self, group: Group, operand: Value) -> bool:
        """Whether an anchor computes an operand as it reads it."""
        if group.kind == "scatter":
            # The data is read once, every update perhaps by several threads.
            return operand == group.anchor.operands[0] or self.costs.get(operand, 0) <= self.rules.index_limit
        if group.kind in self.rules.computes:
            return self._is_light(group, operand)
        return group.kind in INLINES_OPERANDS

    def _is_light(self, group: Group, operand: Value) -> bool:
        """Whether an operand is computed, and not only moved, by so little work that the target's kernel does it."""
        value, _ = self._movements(operand)
        op = value.op
        if op not in self.inside or value in self.buffered or not self._is_recomputable(op) or op.name == "constant":
            return False
        limits = zip(group.anchor.operands, self.rules.computes[group.kind], strict=False)
        limit = min(limit for value, limit in limits if value == operand)
        return self._costs_at_most(operand, limit, self._is_rather_read)

    def _costs_at_most(self, value: Value, limit: int, is_read: Callable[[Op, Value], bool]) -> bool:
        """Whether an element of `value` takes no more work than the limit; to read one is 1."""
        waiting, cost = [value], 0
        while waiting and cost <= limit:
            value = waiting.pop()
            op = value.op
            if op is None or is_read(op, value):
                cost += 1
            else:
                cost += self._cost(op)
                waiting += op.operands
        return cost <= limit

    def _is_rather_read(self, op: Op, value: Value) -> bool:
        """Whether `value`, which `op` makes, is in memory, or had better be, as others use it and it takes work."""
        if self._is_in_memory(op, value) or _is_filled_up(op):
            return True
        return len(self.uses[value]) > 1 and self.costs[value] > REPEAT_LIMIT

    def _is_in_memory(self, op: Op, value: Value) -> bool:
        return op not in self.inside or value in self.buffered or not self._is_recomputable(op)

    def _need_view(self, group: Group, anchor: Op, operand: Value) -> None:
        """The deepest buffer is read of which `operand` is a view that the kernel takes; the movements join the group.

        Where it takes none, the operand is written as it is wanted: a copy, or what its producer writes in any case.
        """
        ordinals = _ordinals(anchor, operand)
        if operand.op in self.inside and all(self.rules.reads_padding(anchor, ordinal) for ordinal in ordinals):
            self._join(group, operand.op)
            operand = operand.op.operands[0]
        value, chain = self._movements(operand)
        pick = self._picked(anchor, operand, value, chain)
        if pick is not None:
            for op in (*chain, pick):
                self._join(group, op)
            self.picks.add(pick)
            value, chain = self._movements(pick.operands[0])
        while pick is None and chain and not self._is_read(anchor, ordinals, view_through(value, chain)):
            value = chain.pop().results[0]
        if value.op is not None and value.op in self.inside and value.op.name != "constant":
            self.buffered.add(value)
        for op in chain:
            self._join(group, op)

    def _picked(self, anchor: Op, operand: Value, value: Value, chain: Sequence[Op]) -> Op | None:
        """The gather that makes `value`, alone for an anchor whose kernel reads where it picks."""
        pick = value.op
        if pick not in self.inside or pick.name != "gather" or value in self.buffered or len(self.uses[value]) > 1:
            return None
        data = view_through(*self._movements(pick.operands[0]))
        picked = None if data is None else pick_from(pick, data)
        for op in reversed(chain):
            picked = None if picked is None else picked.moved(op)
        ordinals = _ordinals(anchor, operand)
        is_read = picked is not None and all(self.rules.reads_picked(anchor, ordinal, picked) for ordinal in ordinals)
        return pick if is_read else None

    def _movements(self, operand: Value) -> tuple[Value, list[Op]]:
        """The value that `operand` is moved from, and the movements, the last first."""
        chain: list[Op] = []
        value = operand
        while value.op is not None and value.op in self.inside and value not in self.buffered:
            if not PRIMITIVES[value.op.name].is_view:
                break
            chain.append(value.op)
            value = value.op.operands[0]
        return value, chain

    def _steps_through(self, anchor: Op, operand: Value) -> bool:
        """Whether an anchor that computes its operands as it reads them reads this one through its movements.

        Those behind the last one that is no view count: what that one gives is found element by element.
        """
        value, chain = self._movements(operand)
        view = view_through(value, chain)
        while chain and view is None:
            value = chain.pop().results[0]
            view = view_through(value, chain)
        return not chain or self._is_read(anchor, _ordinals(anchor, operand), view)

    def _is_read(self, anchor: Op, ordinals: Sequence[int], view: View | None) -> bool:
        """Whether a kernel reads operands, by their ordinals, as `view`."""
        return view is not None and all(self.rules.reads(anchor, ordinal, view) for ordinal in ordinals)


def _ordinals(anchor: Op, operand: Value) -> tuple[int, ...]:
    """Which operands of an anchor a value is."""
    return tuple(ordinal for ordinal, value in enumerate(anchor.operands) if value == operand)
