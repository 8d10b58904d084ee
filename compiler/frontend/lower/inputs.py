"""The inputs of the program: what the model declares of them, and the options say."""

from collections.abc import Sequence
from dataclasses import replace

from onnxc.compiler.frontend.graph import Graph, ValueInfo
from onnxc.compiler.frontend.input_options import InputOptions
from onnxc.compiler.frontend.lower.chosen_floats import FLOATS
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.types import ShapedType, Type, substitute_type, type_symbols, without_symbols
from onnxc.runtime.errors import InputError, UnsupportedError


def input_type(info: ValueInfo, options: InputOptions, ir: Builder) -> Type:
    """The type of an input; the symbols of its sizes get their ranges."""
    type = info.type
    if not isinstance(type, ShapedType):
        if type is None:
            message = f"not yet supported: input {info.name} has a type that cannot be fed"
            raise UnsupportedError(message, code="input-without-type")
        return without_symbols(type)
    shape = type.shape
    if info.name in options.shapes:
        shape = _overridden_shape(info.name, options.shapes[info.name], shape)
    fixed: dict[str, Dim] = {name: size for name, size in options.dims.items() if isinstance(size, int)}
    dtype = options.dtypes.get(info.name, type.dtype)
    if options.floats is not None and dtype in FLOATS:
        dtype = options.floats
    chosen = substitute_type(replace(type, dtype=dtype, shape=shape), fixed)
    for name in sorted(type_symbols(chosen)):
        span = options.dims.get(name, (0, None))
        ir.symbols.ranges[name] = span if isinstance(span, tuple) else (0, None)
    return chosen


def _overridden_shape(
    name: str, given: Sequence[int | str | None], declared: tuple[Dim, ...] | None
) -> tuple[Dim, ...]:
    if declared is not None and len(given) != len(declared):
        raise InputError(
            f"shapes gives input {name} {len(given)} axes, the model declares {len(declared)}", code="shape-rank"
        )
    shape: list[Dim] = []
    for axis, size in enumerate(given):
        known = declared[axis] if declared is not None else Size.symbol(f"{name}_dim{axis}")
        shape.append(known if size is None else Size.symbol(size) if isinstance(size, str) else size)
    return tuple(shape)


def expect_known_inputs(options: InputOptions, graph: Graph) -> None:
    """InputError where the options name an input that the graph has not."""
    known = [info.name for info in graph.inputs]
    for option, names in (("shapes", options.shapes), ("dtypes", options.dtypes)):
        for name in names:
            if name not in known:
                listed = ", ".join(known) or "none"
                raise InputError(f"{option} names {name!r}, the inputs are {listed}", code="unknown-input")
