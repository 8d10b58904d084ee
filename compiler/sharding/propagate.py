"""Propagation: from the values whose shardings a model states to all others, until nothing changes.

What `reshard` states is kept. Every other value starts undivided, and an axis that is divided once stays so: the result
depends on the order of the ops alone. Forward goes before backward, for what a value is made from is there already.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.sharding import Axes, Mesh, Sharding, parse_sharding
from onnxc.compiler.sharding.bodies import Link, all_values, entering, has_divided_bodies, leaving, returning
from onnxc.compiler.sharding.factors import Claim, claims, has_axes
from onnxc.runtime.records import record

__all__ = ["Propagation", "propagate"]


@dataclass
class Propagation:
    """For each value that has axes, the axes of the mesh that divide each; `why` says what decided last.

    by: the op that passed on the division of a value, where none was stated; in the order in which they were divided.
    """

    mesh: Mesh
    dims: dict[Value, list[Axes]] = field(default_factory=dict)
    why: dict[Value, str] = field(default_factory=dict)
    by: dict[Value, Op] = field(default_factory=dict)

    def sharding(self, value: Value) -> Sharding:
        """How the value is divided."""
        return Sharding(tuple(self.dims[value]))


def propagate(block: Block, mesh: Mesh, given: Mapping[Value, Sharding] | None = None) -> Propagation:
    """The shardings of the values of `block` and of its bodies; some parameters are `given` divided."""
    walk = _Walk(Propagation(mesh), set(), frozenset(block.parameters))
    for value in filter(has_axes, all_values(block)):
        walk.state(value)
    for value, sharding in (given or {}).items():
        walk.fix(value, sharding, "another stage gives it so")
    while walk.forward(block.ops) or walk.backward(block.ops):
        pass
    return walk.propagation


@record
class _Walk:
    propagation: Propagation
    stated: set[Value]
    parameters: frozenset[Value]

    def state(self, value: Value) -> None:
        """What is said of the value from the start."""
        self.propagation.dims[value] = [()] * value.rank
        if value.op is not None and value.op.name == "reshard":
            sharding = parse_sharding(value.op.text("sharding"))
            assert sharding is not None, value
            self.fix(value, sharding, "the model says so")

    def fix(self, value: Value, sharding: Sharding, why: str) -> None:
        """Divides the value so, whatever else asks."""
        self.propagation.dims[value] = list(sharding.dims)
        self.propagation.why[value] = why
        self.stated.add(value)

    def forward(self, ops: Iterable[Op]) -> bool:
        """Divides results as operands are, and what costs nothing to divide; whether anything has changed."""
        changes = [self._forward_bodies(op) if has_divided_bodies(op) else self._forward_op(op) for op in ops]
        return any(changes)

    def _forward_op(self, op: Op) -> bool:
        changes = [
            self._divide(value, axis, claim.axes, op)
            for claim in self._claims(op)
            for value, axis in claim.factor.axes(op)
            if value in op.results or self._is_free(value)
        ]
        return any(changes)

    def _forward_bodies(self, op: Op) -> bool:
        changes = [self._pass_on(link, op) for link in entering(op)]
        changes += [self.forward(block.ops) for block in op.blocks]
        changes += [self._pass_on(link, op) for link in (*returning(op), *leaving(op))]
        return any(changes)

    def backward(self, ops: tuple[Op, ...]) -> bool:
        """Divides operands as results and other operands are; whether anything has changed."""
        changes = [self._backward_bodies(op) if has_divided_bodies(op) else self._backward_op(op) for op in ops[::-1]]
        return any(changes)

    def _backward_op(self, op: Op) -> bool:
        changes = [
            self._divide(value, axis, claim.axes, op)
            for claim, value, axis in self._asked(op)
            if not self._reduces(value, claim.axes)
        ]
        return any(changes)

    def _backward_bodies(self, op: Op) -> bool:
        changes = [self._pass_back(link, op) for link in (*leaving(op), *returning(op))]
        changes += [self.backward(block.ops) for block in op.blocks]
        changes += [self._pass_back(link, op) for link in entering(op)]
        return any(changes)

    def _pass_on(self, link: Link, op: Op) -> bool:
        """Divides the target of a link as its source is."""
        axes = enumerate(self.propagation.dims.get(link.source, ()))
        changes = [self._divide(link.target, axis + link.shift, names, op) for axis, names in axes if names]
        return any(changes)

    def _pass_back(self, link: Link, op: Op) -> bool:
        """Divides the source of a link as its target is."""
        axes = enumerate(self.propagation.dims.get(link.target, ())[link.shift :])
        changes = [
            self._divide(link.source, axis, names, op)
            for axis, names in axes
            if names and not self._reduces(link.source, names)
        ]
        return any(changes)

    def _claims(self, op: Op) -> tuple[Claim, ...]:
        return claims(op, self.propagation.dims, self.propagation.mesh)

    def _asked(self, op: Op) -> Iterator[tuple[Claim, Value, int]]:
        """What an op asks of each axis of its operands."""
        for claim in self._claims(op):
            yield from ((claim, value, axis) for value, axis in claim.factor.axes(op) if value in op.operands)

    def _reduces(self, value: Value, axes: Axes) -> bool:
        """Whether what makes the value reduces over these axes: then they become free only behind the reduction."""
        made = self._claims(value.op) if value.op is not None else ()
        return any(claim.factor.combine and set(claim.axes) & set(axes) for claim in made)

    def _divide(self, value: Value, axis: int, axes: Axes, op: Op) -> bool:
        dims = self.propagation.dims[value]
        used = {name for others in dims for name in others}
        if value in self.stated or dims[axis] or used & set(axes):
            return False
        dims[axis] = axes
        self.propagation.by[value] = op
        self.propagation.why[value] = f"{op.name} at {op.location}" if op.location else op.name
        return True

    def _is_free(self, value: Value) -> bool:
        """Whether any block of the value is there on every device, or is made from nothing."""
        return value in self.parameters or (value.op is not None and not value.op.operands)
