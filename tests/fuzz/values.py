"""Values for the inputs of any model: small sizes for its symbols, and elements among which are the odd ones."""

import math
import re
from collections.abc import Sequence

import numpy as np

from onnxc.compiler.ir.dim_symbols import evaluate, symbols_of
from onnxc.compiler.ir.dim_text import parse_dim
from onnxc.runtime.dtypes import DTYPES, DType, dtype_kind
from onnxc.runtime.host.elements import value_range
from onnxc.runtime.signature import TensorInfo
from onnxc.runtime.sparse_tensor import SparseTensor
from onnxc.runtime.values import sparse_element
from tests.fuzz.mutate import FLOATS, INTEGERS

Random = np.random.Generator

SIZES = (0, 1, 1, 2, 2, 3, 4, 5, 8, 17)
TEXTS = ("", "a", "b", "1", "-2.5", "nan", "ü", "a b", "2e400", "cat")

# Inputs with more elements together are not drawn: a run is to take milliseconds.
MOST_ELEMENTS = 1 << 16

# How the elements of an input are drawn, and how often.
MANNERS = ("plain", "plain", "small", "odd", "odd", "all odd")
ODD_SHARE = {"plain": 0.0, "small": 0.0, "odd": 0.2, "all odd": 1.0}

# The odd floats that mutations use, without those so large that the order of a sum decides whether it overflows.
ODD_FLOATS = np.array([value for value in FLOATS if not math.isfinite(value) or abs(value) < 1e38])
ODD_INTEGERS = np.array([value % (1 << 64) for value in INTEGERS], np.uint64)


def draw_feed(infos: Sequence[TensorInfo], random: Random) -> dict[str, object] | None:
    """A value for every input; those that are optional are sometimes left out. None where they would be too large."""
    sizes: dict[str, int] = {}
    shapes = {info.name: draw_shape(info, sizes, random) for info in infos}
    if sum(math.prod(shape) for shape in shapes.values()) > MOST_ELEMENTS or any(
        size < 0 for shape in shapes.values() for size in shape
    ):
        return None
    taken = [info for info in infos if not info.optional or random.random() < 0.5]
    return {info.name: draw_value(info.text, shapes[info.name], random) for info in taken}


def draw_shape(info: TensorInfo, sizes: dict[str, int], random: Random) -> tuple[int, ...]:
    """The shape of an input, whose symbols get sizes where they have none; any rank where the model tells none."""
    if info.shape is None:
        return tuple(int(size) for size in random.choice(SIZES[:6], random.integers(0, 4)))
    return tuple(size if isinstance(size, int) else _size_of(size, sizes, random) for size in info.shape)


def _size_of(text: str, sizes: dict[str, int], random: Random) -> int:
    dim = parse_dim(text)
    for name in sorted(symbols_of(dim)):
        if name not in sizes:
            sizes[name] = int(random.choice(SIZES))
    return evaluate(dim, sizes)


def draw_value(text: str, shape: tuple[int, ...], random: Random) -> object:
    """A value of the type `text`; `shape` is that of a tensor which is an input itself."""
    element = sparse_element(text)
    if element is not None:
        indices = np.flatnonzero(random.random(math.prod(shape)) < 0.5)
        return SparseTensor(draw_array(element, indices.shape, random), indices, shape)
    form, _, inside = text.partition("(")
    match form:
        case "sequence":
            return tuple(draw_inner(inside[:-1], random) for _ in range(random.integers(0, 4)))
        case "optional":
            return None if random.random() < 0.3 else draw_inner(inside[:-1], random)
        case "map":
            return _draw_map(inside[:-1], random)
    return draw_array(DTYPES[form.partition("[")[0]], shape, random)


def draw_inner(text: str, random: Random) -> object:
    """A value inside of another: of its sizes those that are no numbers are each free for itself."""
    written = re.search(r"\[([^\]]*)\]\)?$", text)
    sizes = [] if written is None or written[1] in ("", "...") else written[1].split(", ")
    # A declared size that is large becomes a wrong one, which every target has to refuse.
    shape = tuple(min(int(size), 9) if size.isdecimal() else int(random.choice(SIZES[:7])) for size in sizes)
    return draw_value(text, shape, random)


def _draw_map(text: str, random: Random) -> dict[object, object]:
    key_type, _, value_type = text.partition(", ")
    count = int(random.integers(0, 4))
    keys = random.choice(TEXTS, count) if key_type == "string" else random.integers(-2, 5, count)
    return {str(key) if key_type == "string" else int(key): draw_inner(value_type, random) for key in keys}


def draw_array(dtype: DType, shape: tuple[int, ...], random: Random) -> np.ndarray:
    """Elements of one manner: ordinary numbers, small ones as indices are, and shares of odd ones."""
    manner = str(random.choice(MANNERS))
    match dtype_kind(dtype):
        case "string":
            texts = np.empty(math.prod(shape), object)
            texts[:] = [str(text) for text in random.choice(TEXTS, texts.size)]
            return texts.reshape(shape)
        case "bool":
            return np.asarray(random.random(shape) < random.choice((0.0, 0.5, 1.0)))
        case "integer":
            plain = random.integers(0, 3 if manner == "small" else 9, shape) - (2 if manner == "plain" else 0)
            # Wrapped to 64 bits, of which the conversion below takes as many as the type has.
            limits = np.array([int(limit) % (1 << 64) for limit in value_range(dtype)], np.uint64)
            odd = random.choice(np.concatenate([ODD_INTEGERS, limits, limits, limits]), shape).astype(np.int64)
        case "complex":
            plain = random.standard_normal(shape) + 1j * random.standard_normal(shape)
            odd = random.choice(ODD_FLOATS, shape)
        case _:
            plain = random.standard_normal(shape) * (0.1 if manner == "small" else 3.0)
            odd = random.choice(ODD_FLOATS, shape)
    with np.errstate(all="ignore"):
        return np.where(random.random(shape) < ODD_SHARE[manner], odd, plain).astype(dtype)
