"""What options say of the inputs, held against the model: the sizes that they name, the inputs that they freeze."""

from collections.abc import Iterable

from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.frontend.input_options import InputOptions
from onnxc.compiler.ir.module import Module
from onnxc.compiler.ir.types import type_symbols
from onnxc.runtime.errors import InputError

__all__ = ["expect_known_dims", "expect_known_specializations", "frozen_inputs"]


def expect_known_dims(model: CheckedModel, options: InputOptions) -> None:
    """InputError where `dims` names a size that no input has."""
    types = [info.type for info in model.graph.inputs if info.type is not None]
    known = frozenset().union(*map(type_symbols, types))
    known |= {size for shape in options.shapes.values() for size in shape if isinstance(size, str)}
    for name in options.dims:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none: what is declared as a number is changed by shapes"
            raise InputError(f"dims names {name!r}, the symbolic sizes of the inputs are {listed}", code="unknown-dim")


def expect_known_specializations(module: Module, specialize: Iterable[str]) -> None:
    """InputError where `specialize` names a size that no input has, or that is a number in this compilation."""
    for name in specialize:
        if name not in module.main.symbols:
            listed = ", ".join(sorted(module.main.symbols)) or "none"
            message = f"specialize names {name!r}, the symbolic sizes of the inputs are {listed}"
            raise InputError(message, code="unknown-dim")


def frozen_inputs(model: CheckedModel, options: InputOptions) -> tuple[str, ...]:
    """The inputs whose initializers are compiled in as constants."""
    if not options.freeze_params:
        return ()
    return tuple(info.name for info in model.graph.inputs if info.name in model.graph.initializers)
