"""Forms of convolutions and windows: what the tests of both back ends build them from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.contractions import channels_innermost
from onnxc.compiler.passes.layout.moved_layouts import Layout

__all__ = ["NONE", "ONES", "TWOS", "Convolution", "H", "N", "W", "Windows", "sizes_of"]

N, H, W = (Size.symbol(name) for name in "NHW")
ONES, TWOS, NONE = (1, 1), (2, 2), (0, 0)


@dataclass(frozen=True)
class Convolution:
    """One form; sizes of `x`, with the channels first, may be symbols; `algorithm` is what computes it."""

    algorithm: str
    x: tuple[Dim, ...]
    w: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]
    dilations: tuple[int, ...]
    groups: int = 1
    input_dilations: tuple[int, ...] | None = None

    def __str__(self) -> str:
        x, w, strides = ("x".join(map(str, part)) for part in (self.x, self.w, self.strides))
        return f"{self.algorithm} {x} by {w}, strides {strides}, groups {self.groups}"

    def build(self, ir: Builder, x: Value, w: Value, last: bool = False) -> Value:
        """The convolution of x by w, with the channels first or last."""
        return ir.convolution(
            x, w, self.strides, self.low, self.high, self.dilations, self.groups, self.input_dilations,
            dimensions=channels_innermost(len(self.x) - 2) if last else None,
        )  # fmt: skip

    def shape(self, last: bool) -> tuple[Dim, ...]:
        """The shape of x as it lies."""
        return Layout(len(self.x)).of(self.x) if last else self.x


@dataclass(frozen=True)
class Windows:
    """How windows slide over `x`, whose sizes may be symbols."""

    x: tuple[Dim, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]
    dilations: tuple[int, ...]

    def __str__(self) -> str:
        x, window, strides = ("x".join(map(str, part)) for part in (self.x, self.window, self.strides))
        return f"{window} over {x}, strides {strides}, padding {self.low} {self.high}, dilations {self.dilations}"

    def build(self, ir: Builder, x: Value, kind: str, *, arg: bool = False) -> Value:
        """The fold of every window of x, or the place of its maximum."""
        return ir.reduce_window(x, kind, self.window, self.strides, self.low, self.high, self.dilations, arg)


def sizes_of(dims: Sequence[Dim], values: Mapping[str, int]) -> tuple[int, ...]:
    """A shape of a call."""
    return tuple(evaluate(dim, values) for dim in dims)
