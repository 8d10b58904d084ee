"""Kernels that load sizes which the host does not know: those that grow, and those that the device computes.

Sizes that grow from call to call come from a table, so that one CUDA graph serves all calls. Sizes that data decides
are computed from the integers that the device has for their symbols. The grid is that of the largest sizes; programs
beyond that of the sizes loaded leave at once.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial

from onnxc.compiler.codegen_gpu.source.kernel_source import (
    Argument,
    DeviceStep,
    KernelCode,
    KernelParameter,
    KernelSource,
)
from onnxc.compiler.ir.dim_symbols import depends, is_sum_of_sizes, symbols_of
from onnxc.compiler.ir.dims import Apply, Atom, Dim, Size, terms_of

__all__ = ["can_compute", "with_counted_sizes", "with_loaded_sizes"]

_ALIGNED = 16

_Pair = tuple[KernelParameter, Argument]

# From all parameters and those for sizes to load: what is passed now, statements, and by name what each size is.
_Loaded = tuple[Sequence[_Pair], Sequence[str], Mapping[str, str]]
_Loader = Callable[[Sequence[_Pair], Sequence[_Pair]], _Loaded]


def with_loaded_sizes(code: KernelCode, growing: Set[str]) -> KernelCode:
    """The code of a kernel that loads every size which depends on one of the `growing` symbols."""
    steps = tuple(_loading(step, growing, _from_table) for step in code.steps)
    return replace(code, steps=steps) if growing else code


def with_counted_sizes(code: KernelCode, counted: Sequence[str]) -> KernelCode:
    """The code of a kernel that computes every size which depends on one of the `counted` symbols, which it loads."""
    load = partial(_from_counts, counted=counted)
    steps = tuple(_loading(step, frozenset(counted), load) for step in code.steps)
    return replace(code, steps=steps) if counted else code


def can_compute(dim: Dim) -> bool:
    """Whether a kernel can compute a size: division in a kernel is that of numbers of one sign, by what is not 0."""
    return all(isinstance(atom, str) or _can_apply(atom) for monomial, _ in terms_of(dim) for atom in monomial)


def _can_apply(atom: Apply) -> bool:
    first, *others = atom.arguments
    if not all(map(can_compute, atom.arguments)):
        return False
    if atom.function in ("floordiv", "mod"):
        return is_sum_of_sizes(first) and isinstance(others[0], int) and others[0] > 0
    return atom.function in ("min", "max")


def _loading(step: DeviceStep, loaded: Set[str], load: _Loader) -> DeviceStep:
    source, pairs = step.source, _with_grid(step, loaded)
    sizes = [pair for pair in pairs if pair[1].kind == "size" and depends(pair[1].value, loaded)]
    if not sizes:
        return step
    names = {argument.value: parameter.name for parameter, argument in sizes}
    passed, lines, texts = load(pairs, sizes)
    lines = [*lines, *(_named(parameter, texts[parameter.name], source) for parameter, _ in sizes)]
    for axis, dim in enumerate(step.grid):
        if depends(dim, loaded):
            lines += [f"if tl.program_id({axis}) >= {names[dim]}:", "    return"]
    parameters = tuple(parameter for parameter, _ in passed)
    divisible = tuple(name for name in source.divisible if name not in names.values())
    return DeviceStep(
        replace(source, text=_text(source, parameters, lines), parameters=parameters, divisible=divisible),
        step.grid,
        tuple(argument for _, argument in passed),
    )


def _with_grid(step: DeviceStep, loaded: Set[str]) -> list[_Pair]:
    """The parameters of a kernel, and what is passed for them, with one for each loaded size of the grid."""
    pairs = [*zip(step.source.parameters, step.arguments, strict=True)]
    known = {argument.value for argument in step.arguments if argument.kind == "size"}
    missing = [dim for dim in dict.fromkeys(step.grid) if depends(dim, loaded) and dim not in known]
    return [*pairs, *((KernelParameter(f"g{k}", "i32"), Argument("size", dim)) for k, dim in enumerate(missing))]


def _named(parameter: KernelParameter, text: str, source: KernelSource) -> str:
    """The statement that makes a name for a size, an i64 so far."""
    size = text + (".to(tl.int32)" if parameter.type == "i32" else "")
    is_divisible = parameter.name in source.divisible
    return f"{parameter.name} = " + (f"tl.multiple_of({size}, {_ALIGNED})" if is_divisible else size)


def _from_table(pairs: Sequence[_Pair], sizes: Sequence[_Pair]) -> _Loaded:
    """Each size is what its entry holds."""
    passed = [_entry(*pair) if pair in sizes else pair for pair in pairs]
    return passed, (), {parameter.name: f"tl.load({parameter.name}_at)" for parameter, _ in sizes}


def _entry(parameter: KernelParameter, argument: Argument) -> _Pair:
    return KernelParameter(f"{parameter.name}_at", "*i64"), Argument("table", argument.value)


def _from_counts(pairs: Sequence[_Pair], sizes: Sequence[_Pair], counted: Sequence[str]) -> _Loaded:
    """Each size is its formula, in symbols that are loaded and in symbols that are passed."""
    used = frozenset[str]().union(*(symbols_of(argument.value) for _, argument in sizes))
    names = {symbol: f"count{k}" for k, symbol in enumerate(name for name in counted if name in used)}
    own = {symbol: f"own{k}" for k, symbol in enumerate(sorted(used - names.keys()))}
    passed = [pair for pair in pairs if pair not in sizes]
    passed += [(KernelParameter(f"{name}_at", "*i64"), Argument("count", Size.symbol(s))) for s, name in names.items()]
    passed += [(KernelParameter(name, "i64"), Argument("size", Size.symbol(s))) for s, name in own.items()]
    lines = [f"{name} = tl.load({name}_at)" for name in names.values()]
    texts = {parameter.name: f"({_formula(argument.value, names | own)})" for parameter, argument in sizes}
    return passed, lines, texts


def _formula(dim: Dim, names: Mapping[str, str]) -> str:
    """The text of a size that a kernel can compute."""
    products = (
        [*(_factor(atom, names) for atom in monomial), *([] if monomial and factor == 1 else [str(factor)])]
        for monomial, factor in terms_of(dim)
    )
    return " + ".join(map(" * ".join, products)) or "0"


def _factor(atom: Atom, names: Mapping[str, str]) -> str:
    if isinstance(atom, str):
        return names[atom]
    first, *others = (_formula(argument, names) for argument in atom.arguments)
    match atom.function:
        case "floordiv":
            return f"(({first}) // {others[0]})"
        case "mod":
            return f"(({first}) % {others[0]})"
    for other in others:
        first = f"tl.{atom.function}imum({first}, {other})"
    return first


def _text(source: KernelSource, parameters: tuple[KernelParameter, ...], lines: Sequence[str]) -> str:
    """The text of a source with other parameters, and with lines before its body."""
    own = f"def kernel({_names(source.parameters)}):\n"
    assert source.text.count(own) == 1, source.text
    head = f"def kernel({_names(parameters)}):\n" + "".join(f"    {line}\n" for line in lines)
    return source.text.replace(own, head)


def _names(parameters: tuple[KernelParameter, ...]) -> str:
    return ", ".join(parameter.name for parameter in parameters)
