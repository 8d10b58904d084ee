"""Shares of constants that each device holds: known before a call, so they are packed as constants are.

A program that several devices run has its shares as parameters. What kernels read in a layout becomes a parameter of
its own, of the shape that it has there; whoever makes the artifact packs the share of each device once.
"""

from collections.abc import Sequence
from dataclasses import replace

from onnxc.compiler.ir.module import Block, Parameter, Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.build_kernels import BoundProblem
from onnxc.compiler.planning.kernel_plan import PackedShare, Region, values_read
from onnxc.compiler.planning.layouts import Layout

__all__ = ["PackedShares", "with_packed_shares"]


class PackedShares:
    """The shares of a program, by their parameters, and what stands for them in layouts."""

    def __init__(self, parameters: Sequence[Value]) -> None:
        self.kinds = {parameter: PackedShare(ordinal) for ordinal, parameter in enumerate(parameters)}
        self._made: dict[PackedShare, Value] = {}

    def held(self, bound: BoundProblem) -> BoundProblem:
        """A kernel whose schedule may count on it that shares are the same in all calls."""
        shares = (index for index, value in enumerate(bound.inputs) if value in self.kinds)
        constants = tuple(sorted({*bound.problem.constants, *shares}))
        return replace(bound, problem=replace(bound.problem, constants=constants))

    def packed(self, value: Value, layout: Layout | None) -> Value:
        """The parameter that is a share in a layout; what is no share is itself."""
        if value not in self.kinds or layout is None:
            return value
        share = replace(self.kinds[value], layout=layout)
        if share not in self._made:
            type = TensorType(value.dtype, layout.shape)
            self._made[share] = Parameter(f"{value.producer.name} in {layout}", type).value
            self.kinds[self._made[share]] = share
        return self._made[share]


def with_packed_shares(region: Region, shares: PackedShares) -> tuple[Region, tuple[PackedShare, ...]]:
    """The region of a whole program, whose last parameters are the shares that it reads, and these."""
    block = region.block
    read = {*block.results, *(value for step in region.steps for value in values_read(step))}
    held = {value: share for value, share in shares.kinds.items() if value in read}
    others = (parameter for parameter in block.parameters if parameter not in shares.kinds)
    made = Block((*others, *held), block.ops, block.results)
    return replace(region, block=made), tuple(held.values())
