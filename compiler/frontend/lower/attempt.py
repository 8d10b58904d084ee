"""What was found while nodes were lowered: types, and what speaks against the model; kept or dropped as a whole."""

from dataclasses import dataclass, field

from onnxc.compiler.diagnostics import Diagnostic, Location, model_error, unsupported_error
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.types import Type
from onnxc.runtime.records import record


@record
class LoweredType:
    """A type that the value `name` of the graph at `path` has, in one of the cases told apart or at one of its uses."""

    path: str
    name: str
    type: Type


@record
class RenewedSizes:
    """What a node reads in the place of a list of sizes that options override: the operand at `index`."""

    location: Location
    index: int
    dtype: DType
    sizes: tuple[Dim, ...]


@record
class CastValue:
    """What options cast from `given` to `dtype`: the operand at `index` of a node, or where it `is_result` a result."""

    location: Location
    index: int
    is_result: bool
    given: DType
    dtype: DType


@dataclass
class Attempt:
    """The types found for ONNX values, the findings, and the nodes that cannot be lowered yet, with the reasons.

    unknown: nodes that cannot be lowered, behind which the lowering goes on. warnings: what is wrong in the model and
    does not keep it from being compiled. `is_trial`: it is one of several cases, of which only those are wanted that
    nothing speaks against; what is declared of the shape of an output does where it `trusts_outputs`. renewed:
    constants that options override. casts: values whose element types they do.
    """

    is_trial: bool = False
    trusts_outputs: bool = True
    types: list[LoweredType] = field(default_factory=list)
    findings: list[Diagnostic] = field(default_factory=list)
    unsupported: list[tuple[Location, str]] = field(default_factory=list)
    unknown: list[tuple[Location, str]] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)
    renewed: list[RenewedSizes] = field(default_factory=list)
    casts: list[CastValue] = field(default_factory=list)

    def part(self) -> "Attempt":
        """An empty attempt at a part of the same."""
        return Attempt(self.is_trial, self.trusts_outputs)

    def keep(self, part: "Attempt") -> None:
        """Adds all that was found in an attempt at a part."""
        self.types += part.types
        self.warnings += part.warnings
        self.renewed += part.renewed
        self.casts += part.casts
        self.keep_objections(part)

    def keep_objections(self, part: "Attempt") -> None:
        """Adds what speaks against the model, without the types: the part is lowered once more."""
        self.findings += part.findings
        self.unsupported += part.unsupported
        self.unknown += part.unknown

    @property
    def objection_count(self) -> int:
        """How much speaks against the model."""
        return len(self.findings) + len(self.unsupported)

    @property
    def objection(self) -> str | None:
        """The first thing that speaks against the model."""
        if self.findings:
            return self.findings[0].message
        return self.unsupported[0][1] if self.unsupported else None

    def raise_objections(self) -> None:
        """ModelError with all findings, else UnsupportedError with all nodes that cannot be lowered yet."""
        if self.findings:
            raise model_error(self.findings)
        if self.unsupported:
            raise unsupported_error(self.unsupported)
