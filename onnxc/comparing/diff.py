"""`onnxc.diff`: two sides by their texts, on given or drawn inputs."""

import os
from collections.abc import Mapping, Sequence

import click

import onnxc
from onnxc.command_line.random_inputs import complete_inputs
from onnxc.command_line.shared import expect_known_names
from onnxc.comparing.compare import compare_sides
from onnxc.comparing.comparison import Comparison
from onnxc.comparing.sides import Side, parse_side
from onnxc.compiler.option_types import expect_integer, expect_mapping, expect_path, expect_shape
from onnxc.runtime.errors import InputError
from onnxc.runtime.values import import_value

__all__ = ["diff", "drawn_feed", "parse_sides"]


def diff(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    inputs: Mapping[str, object] | None = None,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    seed: int = 0,
    inner: bool = True,
) -> Comparison:
    """What differs between the sides; `onnxc.diff` says the rest."""
    sides = parse_sides(expect_path("a", a), expect_path("b", b))
    given = expect_mapping("inputs", inputs)
    declared = {name: _drawn_shape(name, shape) for name, shape in expect_mapping("shapes", shapes).items()}
    sizes = {name: expect_integer(f"dims[{name!r}]", size) for name, size in expect_mapping("dims", dims).items()}
    feed = drawn_feed(sides[0], given, declared, sizes, expect_integer("seed", seed))
    return compare_sides(*sides, feed, inner=inner)


def _drawn_shape(name: str, value: object) -> tuple[int | str, ...]:
    """The sizes of an input that is drawn, or names of symbols. Raises InputError."""
    option = f"shapes[{name!r}]"
    shape = expect_shape(option, value)
    sizes = tuple(size for size in shape if size is not None)
    if len(sizes) < len(shape):
        raise InputError(f"{option} is {value!r}, expected sizes or names of symbols", code="option-type")
    return sizes


def parse_sides(a: str, b: str) -> tuple[Side, Side]:
    """Both sides; the second one without a model has that of the first. Raises InputError."""
    first = parse_side(a)
    return first, parse_side(b, first.model)


def drawn_feed(
    side: Side,
    inputs: Mapping[str, object],
    shapes: Mapping[str, tuple[int | str, ...]],
    sizes: Mapping[str, int],
    seed: int,
) -> dict[str, object]:
    """The inputs that are given, and draws for the others, as values that every runtime takes.

    Raises InputError, ModelError, UnsupportedError.
    """
    infos = onnxc.compile(side.model, "interpreter").inputs
    expect_known_names(infos, sizes, shapes, inputs)
    try:
        feed = complete_inputs(infos, inputs, shapes, sizes, seed)
    except click.UsageError as problem:
        raise InputError(problem.message, code="undrawable-input") from problem
    return {info.name: import_value(feed[info.name], info.text, info.name) for info in infos if info.name in feed}
