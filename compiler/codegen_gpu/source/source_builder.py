"""Triton source text, written statement by statement, with equal expressions computed once.

An expression knows along which dimensions of the program's tile it varies, so that masks and addresses are never wider
than they must be. Sizes that only a call decides are parameters: the host computes them, whatever their formula.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from onnxc.compiler.codegen_gpu.source.kernel_source import Argument, KernelParameter, KernelSource
from onnxc.compiler.ir.dims import Dim
from onnxc.runtime.records import record

MOST_ELEMENTS_I32 = (1 << 31) - (1 << 24)
"""Buffers of fewer elements are indexed in 32 bits, with room for the lanes behind their end."""

ALIGNED = 16

_NAME = re.compile(r"[A-Za-z_]\w*")


@record
class Expr:
    """A name or literal of the source, and the tile dimensions that it varies along; none where it is one number."""

    text: str
    dims: frozenset[int] = frozenset()

    def __str__(self) -> str:
        return self.text


Int = int | Expr
"""A number that is known, or an expression of integers."""


def dims_of(*values: Int) -> frozenset[int]:
    """The tile dimensions that any of the values varies along."""
    return frozenset().union(*(value.dims for value in values if isinstance(value, Expr)))


class SourceBuilder:
    """The text of one kernel. `rank` is the number of tile dimensions; `wide` asks for 64-bit indices."""

    def __init__(self, rank: int, wide: bool = False) -> None:
        self.rank, self.wide = rank, wide
        self._lines: list[str] = []
        self._indent = 1
        self._names = 0
        self._known: list[dict[str, str]] = [{}]
        self._variables: set[str] = set()
        self._pointers: dict[str, tuple[KernelParameter, Argument]] = {}
        self._buffers: dict[Argument, str] = {}
        self._sizes: dict[Dim, str] = {}
        self._helpers: dict[str, None] = {}

    # Parameters

    def pointer(self, name: str, type: str, argument: Argument) -> Expr:
        """A parameter by name; the same one for the same name."""
        self._pointers.setdefault(name, (KernelParameter(name, type), argument))
        return Expr(name)

    def buffer(self, prefix: str, type: str, argument: Argument) -> Expr:
        """The parameter for an input or output; numbered by first use, so that equal code is equal text."""
        if argument not in self._buffers:
            count = sum(name.startswith(prefix) for name in self._buffers.values())
            self._buffers[argument] = f"{prefix}{count}"
        return self.pointer(self._buffers[argument], type, argument)

    def integer(self, name: str, argument: Argument) -> Expr:
        """A 32-bit parameter that is no size, such as the number of a location."""
        self._pointers.setdefault(name, (KernelParameter(name, "i32"), argument))
        return Expr(name)

    def size(self, dim: Dim) -> Int:
        """A size: a number where it is one, else a parameter that the host computes."""
        if isinstance(dim, int):
            return dim
        return Expr(self._sizes.setdefault(dim, f"n{len(self._sizes)}"))

    def finish(self, warps: int = 4, stages: int = 3) -> tuple[KernelSource, tuple[Argument, ...]]:
        """The source, and what a launch passes for each parameter."""
        parameters, arguments = [p for p, _ in self._pointers.values()], [a for _, a in self._pointers.values()]
        for dim, name in self._sizes.items():
            parameters.append(KernelParameter(name, "i64" if self.wide else "i32"))
            arguments.append(Argument("size", dim))
        head = f"@triton.jit\ndef kernel({', '.join(parameter.name for parameter in parameters)}):\n"
        divisible = tuple(name for dim, name in self._sizes.items() if is_multiple(dim, ALIGNED))
        text = "".join(f"{helper}\n\n" for helper in self._helpers) + head
        text += "".join(f"{line}\n" for line in self._lines or ["    pass"])
        return KernelSource(text, tuple(parameters), warps, stages, divisible), tuple(arguments)

    def helper(self, text: str) -> None:
        """A function of its own before the kernel, once."""
        self._helpers.setdefault(text)

    # Statements

    def line(self, text: str) -> None:
        """One statement as it is written."""
        self._lines.append("    " * self._indent + text)

    def fresh(self, prefix: str = "x") -> str:
        """A name that nothing else has."""
        self._names += 1
        return f"{prefix}{self._names}"

    def let(self, text: str, dims: frozenset[int] = frozenset(), prefix: str = "x") -> Expr:
        """A name for an expression; the one that it has already, where it was computed in or around this block."""
        for known in self._known:
            if text in known:
                return Expr(known[text], dims)
        name = self.fresh(prefix)
        self.line(f"{name} = {text}")
        if self._variables.isdisjoint(_NAME.findall(text)):
            self._known[-1][text] = name
        return Expr(name, dims)

    def variable(self, text: str, dims: frozenset[int] = frozenset(), prefix: str = "v") -> Expr:
        """A name of its own that later statements assign again."""
        name = self.fresh(prefix)
        self._variables.add(name)
        self.line(f"{name} = {text}")
        return Expr(name, dims)

    def assign(self, variable: Expr, text: str) -> None:
        """Another value for a variable."""
        self.line(f"{variable} = {text}")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """The statements under `head`, such as "if x > 0"; what is computed there is not known behind."""
        self.line(f"{head}:")
        before = len(self._lines)
        self._indent += 1
        self._known.append({})
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._known.pop()
        self._indent -= 1

    @contextmanager
    def loop(
        self,
        start: Int,
        stop: Int,
        step: Int = 1,
        prefix: str = "i",
        stages: int = 0,
        joined: bool = False,
        hands_over: bool = False,
    ) -> Iterator[Expr]:
        """The statements for a counter from `start` to below `stop`, a tensor for the interpreter too.

        stages: of a pipeline of all loads; 0 for one of the loads that tensor cores multiply alone. joined: whether the
        loop in this one goes on from round to round, so that its loads begin while what follows it is still computed.
        hands_over: whether warps of their own do all loads of the loop in this one.
        """
        name = self.fresh(prefix)
        self._variables.add(name)
        bounds = f"{start}, {stop}, {step}"
        options = [f"num_stages={stages}"] * bool(stages) + ["flatten=True"] * joined
        options += ["warp_specialize=True"] * hands_over
        counted = f"tl.range({', '.join((bounds, *options))})" if options else f"range({bounds})"
        with self.block(f"for {name} in {counted}"):
            yield self.variable(f"{name} + tl.full([], 0, tl.int32)", prefix=prefix)

    # Integers

    def add(self, *values: Int) -> Int:
        """The sum."""
        known = sum(value for value in values if isinstance(value, int))
        parts = [value for value in values if isinstance(value, Expr)]
        if not parts:
            return known
        if len(parts) == 1 and known == 0:
            return parts[0]
        text = " + ".join([*(part.text for part in parts), *([str(known)] if known else [])])
        return self.let(text, dims_of(*parts))

    def mul(self, a: Int, b: Int) -> Int:
        """The product."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if 0 in (a, b):
            return 0
        if a == 1 or b == 1:
            return b if a == 1 else a
        return self.let(f"{a} * {b}", dims_of(a, b))

    def sub(self, a: Int, b: Int) -> Int:
        """The difference."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self.let(f"{a} - {b}", dims_of(a, b))

    def div(self, a: Int, b: Int) -> Int:
        """The quotient of numbers that are at least 0."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b if b else 0
        return a if b == 1 else self.let(f"{a} // {b}", dims_of(a, b))

    def mod(self, a: Int, b: Int) -> Int:
        """The remainder of numbers that are at least 0."""
        if isinstance(a, int) and isinstance(b, int):
            return a % b if b else 0
        return 0 if b == 1 else self.let(f"{a} % {b}", dims_of(a, b))

    def minimum(self, a: Int, b: Int) -> Int:
        """The smaller one."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.let(f"tl.minimum({a}, {b})", dims_of(a, b))

    def compare(self, a: Int, relation: str, b: Int) -> Expr:
        """A condition."""
        return self.let(f"{a} {relation} {b}", dims_of(a, b))

    def both(self, a: Expr | None, b: Expr | None) -> Expr | None:
        """The conjunction; None is always true."""
        if a is None or b is None:
            return b if a is None else a
        return a if a == b else self.let(f"{a} & {b}", a.dims | b.dims)

    # The program's place

    def program(self, axis: int = 0) -> Expr:
        """The number of the program along an axis of the grid."""
        return self.let(f"tl.program_id({axis})" + (".to(tl.int64)" if self.wide else ""), prefix="p")

    def lanes(self, dim: int, count: int) -> Expr:
        """0, 1, ... below `count`, a power of two, along a tile dimension."""
        subscript = ", ".join(":" if other == dim else "None" for other in range(self.rank))
        text = f"tl.arange(0, {count})" + (f"[{subscript}]" if self.rank > 1 else "")
        return self.let(text + (".to(tl.int64)" if self.wide else ""), frozenset((dim,)))


def is_multiple(dim: Dim, divisor: int) -> bool:
    """Whether a size is a multiple of `divisor` whatever its symbols are."""
    if isinstance(dim, int):
        return dim % divisor == 0
    return all(factor % divisor == 0 for _, factor in dim.terms)


def power_of_two(least: int) -> int:
    """The least power of two that is at least `least`."""
    return 1 << max(least - 1, 0).bit_length()


def unravel(b: SourceBuilder, ordinal: Int, sizes: Sequence[Int]) -> tuple[Int, ...]:
    """A number as coordinates in a row-major box; the first size bounds it and is not needed."""
    coordinates: list[Int] = []
    for size in reversed(sizes[1:]):
        coordinates.append(b.mod(ordinal, size))
        ordinal = b.div(ordinal, size)
    return (ordinal, *reversed(coordinates)) if sizes else ()
