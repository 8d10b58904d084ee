"""The texts of command-line options as values: sizes and ranges, shapes, input arrays."""

import json
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from onnxc.command_line.array_files import read_one_array

if TYPE_CHECKING:
    from onnxc.compiler.frontend.custom.operators import CustomOperator

Range = int | tuple[int, int | None]
DIM_FORM = "NAME=8 or NAME=1..64"
SHAPE_FORM = "NAME=8,3,height,224"
Shape = tuple[int | str, ...]
DTYPE_FORM = "NAME=float16 or float16"
LIMIT_FORM = "NAME=20"
COUNTS_FORM = "1,2"
CHOICES_FORM = "NAME=1,8"
NAMES_FORM = "OLD=NEW"
OPERATORS_FORM = "MODULE:NAME"
INPUT_FORM = "NAME=@FILE.npy or NAME=VALUE"


def named(text: str, form: str) -> tuple[str, str]:
    """The two sides of NAME=VALUE."""
    name, _, value = text.partition("=")
    if not (name and value):
        raise click.BadParameter(f"{text!r} is not of the form {form}")
    return name, value


def parse_dims(_context: click.Context, _option: click.Parameter, texts: Sequence[str]) -> dict[str, Range]:
    """batch=8 is one size, batch=1..64 a range, batch=1.. a range without an end."""
    dims: dict[str, Range] = {}
    for text in texts:
        name, value = named(text, DIM_FORM)
        match = re.fullmatch(r"(\d+)(?:(\.\.)(\d*))?", value)
        if match is None:
            raise click.BadParameter(f"{text!r} is not of the form {DIM_FORM}")
        low, dots, high = match.groups()
        dims[name] = (int(low), int(high) if high else None) if dots else int(low)
    return dims


def parse_shapes(_context: click.Context, _option: click.Parameter, texts: Sequence[str]) -> dict[str, Shape]:
    """x=1,3,height,224 has a number or a name for each axis; [] is the shape of a scalar."""
    shapes: dict[str, Shape] = {}
    for text in texts:
        name, value = named(text, SHAPE_FORM)
        is_numeric = re.fullmatch(r"\[\]|\d{1,18}([,x]\d{1,18})*", value)
        sizes = re.findall(r"\d+", value) if is_numeric else value.split(",")
        if not all(re.fullmatch(r"\d{1,18}|[^\W\d]\w*", size) for size in sizes):
            raise click.BadParameter(f"{text!r} is not of the form {SHAPE_FORM}")
        shapes[name] = tuple(int(size) if size.isdecimal() else size for size in sizes)
    return shapes


def parse_dtypes(
    _context: click.Context, _option: click.Parameter, texts: Sequence[str]
) -> dict[str, str] | str | None:
    """x=float16 is for one input, float16 for all floats of the model."""
    alone = [text for text in texts if "=" not in text]
    if alone and len(texts) > 1:
        raise click.BadParameter(f"{alone[0]!r} is for all floats, beside which there is no other")
    return alone[0] if alone else dict(named(text, DTYPE_FORM) for text in texts)


def parse_limits(_context: click.Context, _option: click.Parameter, texts: Sequence[str]) -> dict[str, int]:
    """nesting_depth=20, by the names of compiler/limits.py."""
    limits: dict[str, int] = {}
    for text in texts:
        name, value = named(text, LIMIT_FORM)
        if not re.fullmatch(r"\d{1,18}", value):
            raise click.BadParameter(f"{text!r} is not of the form {LIMIT_FORM}")
        limits[name] = int(value)
    return limits


def parse_choices(_context: click.Context, _option: click.Parameter, texts: Sequence[str]) -> dict[str, list[int]]:
    """batch=1,8 are two sizes to add kernels for, as are batch=1 and batch=8."""
    choices: dict[str, list[int]] = {}
    for text in texts:
        name, value = named(text, CHOICES_FORM)
        if not re.fullmatch(r"\d{1,18}(,\d{1,18})*", value):
            raise click.BadParameter(f"{text!r} is not of the form {CHOICES_FORM}")
        choices.setdefault(name, []).extend(map(int, value.split(",")))
    return choices


def parse_counts(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int, ...]:
    """1,2 are two numbers from 1 on; none where nothing is given."""
    if text is None:
        return ()
    if not re.fullmatch(r"[1-9]\d{0,3}(,[1-9]\d{0,3})*", text):
        raise click.BadParameter(f"{text!r} is not of the form {COUNTS_FORM}")
    return tuple(dict.fromkeys(map(int, text.split(","))))


def parse_names(_context: click.Context, _option: click.Parameter, texts: Sequence[str]) -> dict[str, str]:
    """hidden=features is a name and the one in its place."""
    names = [named(text, NAMES_FORM) for text in texts]
    if len(dict(names)) < len(names):
        raise click.BadParameter(f"one name is given twice: {', '.join(texts)}")
    return dict(names)


def parse_operators(
    _context: click.Context, _option: click.Parameter, texts: Sequence[str]
) -> "tuple[CustomOperator, ...]":
    """package.ops:swish is the custom operator of that name in a module, or a sequence of them."""
    return tuple(operator for text in texts for operator in imported_operators(text))


def imported_operators(text: str) -> "tuple[CustomOperator, ...]":
    """The operators at an import path; a module that is not installed is one of the working folder."""
    module, _, name = text.partition(":")
    if not re.fullmatch(r"[^\W\d][\w.]*:[^\W\d]\w*", text):
        raise click.BadParameter(f"{text!r} is not of the form {OPERATORS_FORM}")
    # At the end, so that nothing in the working folder stands for what is installed.
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.append(folder)
    try:
        value: object = getattr(import_module(module), name)
    except Exception as problem:
        # A module runs its own code when it is imported, which may raise anything.
        raise click.BadParameter(f"{text!r} cannot be imported: {type(problem).__name__}: {problem}") from problem
    expected = import_module("onnxc.compiler.frontend.custom.operators").CustomOperator
    operators = (value,) if isinstance(value, expected) else value
    if not isinstance(operators, list | tuple) or not all(isinstance(each, expected) for each in operators):
        kind = type(value).__name__
        raise click.BadParameter(f"{text!r} is of type {kind}, expected what onnxc.custom_operator makes, or a list")
    return tuple(operators)


def parse_inputs(_context: click.Context, _option: click.Parameter, texts: Sequence[str]) -> dict[str, object]:
    """x=@x.npy is the array of a file, x=@all.npz its member x, and x=[[1, 2]] a value written out."""
    return dict(parse_input(*named(text, INPUT_FORM)) for text in texts)


def parse_input(name: str, value: str) -> tuple[str, object]:
    if value.startswith("@"):
        return name, read_array(name, Path(value[1:]))
    try:
        return name, json.loads(value)
    except ValueError as problem:
        raise click.BadParameter(
            f"{value!r} is neither @FILE nor numbers, true, false or texts such as [[1, 2], [3, 4]]; "
            f"the array in a file is {name}=@{value}"
        ) from problem


def read_array(name: str, path: Path) -> np.ndarray:
    try:
        return read_one_array(path, name, what="the file of an input")
    except ValueError as problem:
        raise click.BadParameter(f"cannot read {name!r} from {path}: {problem}") from problem
