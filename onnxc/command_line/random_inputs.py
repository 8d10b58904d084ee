"""Inputs for a call from the command line: the given ones, and seeded draws for the others."""

import math
from collections.abc import Mapping, Sequence

import click
import numpy as np

from onnxc.command_line.option_values import Shape
from onnxc.command_line.texts.size_texts import value_of
from onnxc.runtime.dtypes import DType, dtype_kind
from onnxc.runtime.signature import TensorInfo
from onnxc.runtime.sparse_tensor import SparseTensor
from onnxc.runtime.values import sparse_element


def complete_inputs(
    infos: Sequence[TensorInfo],
    given: Mapping[str, object],
    shapes: Mapping[str, Shape],
    sizes: Mapping[str, int],
    seed: int,
) -> dict[str, object]:
    """The given values, and a draw for each other input that a call must pass.

    A symbolic size is what `sizes` says, else what a given array or shape has there, else 1.
    """
    known = {name: np.asarray(value).shape for name, value in given.items()}
    known |= {name: static for name, shape in shapes.items() if (static := static_sizes(shape)) is not None}
    symbols = {**bound_sizes(infos, known), **sizes}
    rng = np.random.default_rng(seed)
    missing = [info for info in infos if info.name not in given and not info.optional]
    drawn = {info.name: draw(info, known.get(info.name) or shape_of(info, symbols), rng) for info in missing}
    return {**given, **drawn}


def static_sizes(shape: Shape) -> tuple[int, ...] | None:
    """The shape where it is told in numbers."""
    sizes = tuple(size for size in shape if isinstance(size, int))
    return sizes if len(sizes) == len(shape) else None


def bound_sizes(infos: Sequence[TensorInfo], known: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The sizes of the symbols that stand alone for an axis of a known shape."""
    return {
        name: size
        for info in infos
        if info.shape is not None and len(known.get(info.name, ())) == len(info.shape)
        for name, size in zip(info.shape, known.get(info.name, ()), strict=True)
        if isinstance(name, str)
    }


def shape_of(info: TensorInfo, symbols: Mapping[str, int]) -> tuple[int, ...]:
    if info.shape is None:
        raise click.UsageError(f'input "{info.name}" is {info.text}; give it with --input {info.name}=...')
    return tuple(size if isinstance(size, int) else value_of(size, symbols) for size in info.shape)


def draw(info: TensorInfo, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray | SparseTensor:
    """A tensor, dense or sparse, as `info` says; of a sparse one every other element is stored."""
    element = sparse_element(info.text)
    if element is not None:
        indices = np.arange(0, math.prod(shape), 2)
        return SparseTensor(draw_array(element, indices.shape, rng), indices, shape)
    assert info.dtype is not None, info
    return draw_array(info.dtype, shape, rng)


def draw_array(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Normal for floats and complex numbers, 0 or 1 for integers and bools, empty for texts."""
    if dtype.kind == "O":
        return np.full(shape, "", object)
    kind = dtype_kind(dtype)
    if kind in ("bool", "integer"):
        return rng.integers(0, 2, shape).astype(dtype)
    if kind == "complex":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)
