"""Kernels whose sizes grow from call to call: they load these from a table, so that one CUDA graph serves all calls.

The grid is then that of the largest sizes. Programs beyond that of the sizes loaded leave at once.
"""

from collections.abc import Set
from dataclasses import replace

from onnxc.compiler.codegen_gpu.source.kernel_source import (
    Argument,
    DeviceStep,
    KernelCode,
    KernelParameter,
    KernelSource,
)
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim

__all__ = ["with_loaded_sizes"]

_ALIGNED = 16


def with_loaded_sizes(code: KernelCode, growing: Set[str]) -> KernelCode:
    """The code of a kernel that loads every size which depends on one of the `growing` symbols."""
    return replace(code, steps=tuple(_loading(step, growing) for step in code.steps)) if growing else code


def _loading(step: DeviceStep, growing: Set[str]) -> DeviceStep:
    source, head = step.source, [*_with_grid(step, growing)]
    sizes = [pair for pair in head if pair[1].kind == "size" and _grows(pair[1].value, growing)]
    if not sizes:
        return step
    names = {argument.value: parameter.name for parameter, argument in sizes}
    lines = [_load(parameter, parameter.name in source.divisible) for parameter, _ in sizes]
    for axis, dim in enumerate(step.grid):
        if _grows(dim, growing):
            lines += [f"    if tl.program_id({axis}) >= {names[dim]}:", "        return"]
    passed = [_entry(*pair) if pair in sizes else pair for pair in head]
    parameters = tuple(parameter for parameter, _ in passed)
    divisible = tuple(name for name in source.divisible if name not in names.values())
    return DeviceStep(
        replace(source, text=_text(source, parameters, lines), parameters=parameters, divisible=divisible),
        step.grid,
        tuple(argument for _, argument in passed),
    )


def _with_grid(step: DeviceStep, growing: Set[str]) -> list[tuple[KernelParameter, Argument]]:
    """The parameters of a kernel, and what is passed for them, with one for each growing size of the grid."""
    pairs = [*zip(step.source.parameters, step.arguments, strict=True)]
    known = {argument.value for argument in step.arguments if argument.kind == "size"}
    missing = [dim for dim in dict.fromkeys(step.grid) if _grows(dim, growing) and dim not in known]
    return [*pairs, *((KernelParameter(f"g{k}", "i32"), Argument("size", dim)) for k, dim in enumerate(missing))]


def _grows(dim: Dim, growing: Set[str]) -> bool:
    return not growing.isdisjoint(symbols_of(dim))


def _load(parameter: KernelParameter, is_divisible: bool) -> str:
    """The statement that makes a name for the size in its entry, an i64."""
    loaded = f"tl.load({parameter.name}_at)" + (".to(tl.int32)" if parameter.type == "i32" else "")
    return f"    {parameter.name} = " + (f"tl.multiple_of({loaded}, {_ALIGNED})" if is_divisible else loaded)


def _entry(parameter: KernelParameter, argument: Argument) -> tuple[KernelParameter, Argument]:
    return KernelParameter(f"{parameter.name}_at", "*i64"), Argument("table", argument.value)


def _text(source: KernelSource, parameters: tuple[KernelParameter, ...], lines: list[str]) -> str:
    """The text of a source with other parameters, and with lines before its body."""
    own = f"def kernel({_names(source.parameters)}):\n"
    assert source.text.count(own) == 1, source.text
    return source.text.replace(own, f"def kernel({_names(parameters)}):\n" + "".join(f"{line}\n" for line in lines))


def _names(parameters: tuple[KernelParameter, ...]) -> str:
    return ", ".join(parameter.name for parameter in parameters)
