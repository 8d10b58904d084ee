"""Running a module on NumPy arrays and host values, op by op, through the meaning of each primitive.

The oracle of every back end, and what `target="interpreter"` runs. Nothing is compiled and nothing is fast.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from onnxc.compiler.ir.dim_symbols import evaluate, symbols_of
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.index_range import expect_indices_in_range, is_indexed
from onnxc.compiler.ir.meanings import apply_function, apply_meaning
from onnxc.compiler.ir.module import Block, Function, Module, Op, Value
from onnxc.compiler.ir.primitives.native import host_form
from onnxc.compiler.ir.types import ShapedType
from onnxc.runtime.errors import InputError, expect_one_shape, located
from onnxc.runtime.host.values import HostValue, as_array, shape_of

Array = np.ndarray
Observer = Callable[[Op, Sequence[HostValue]], None]


def _ignore(op: Op, results: Sequence[HostValue]) -> None:
    """What is done with results where nobody looks."""


def interpret(
    module: Module, inputs: Mapping[str, HostValue], observe: Observer = _ignore, *, clamp_indices: bool = True
) -> tuple[HostValue, ...]:
    """The results of the main function; parameters with a default may be left out. `observe` sees those of each op.

    Raises InputError where sizes do not agree, a guard does not hold, or an index is out of range and not clamped.
    """
    function = module.main
    arguments = [_argument(function, parameter, inputs) for parameter in function.body.parameters]
    return _Run(module, observe, clamp_indices=clamp_indices).block(function.body, arguments, {})


def _argument(function: Function, parameter: Value, inputs: Mapping[str, HostValue]) -> HostValue:
    name = parameter.producer.name
    if name in inputs:
        return inputs[name]
    if name not in function.defaults:
        raise InputError(f"input {name} is missing", code="missing-input")
    return function.defaults[name]


def bind_parameter(type: ShapedType, shape: Sequence[int], sizes: dict[str, int], name: str) -> None:
    """Binds the symbols that stand alone in `type` to the sizes in `shape`; InputError where they disagree."""
    if len(shape) != type.rank:
        raise InputError(f"{name} has rank {len(shape)}, its type is {type}", code="input-rank")
    for dim, size in zip(type.known_shape, shape, strict=True):
        symbol = single_symbol(dim)
        if symbol is not None:
            sizes.setdefault(symbol, size)


def check_parameter(type: ShapedType, shape: Sequence[int], sizes: Mapping[str, int], name: str) -> None:
    """InputError unless `shape` is what `type` says under `sizes`."""
    for axis, (dim, size) in enumerate(zip(type.known_shape, shape, strict=True)):
        expected = evaluate(dim, sizes)
        if expected != size:
            raise InputError(f"axis {axis} of {name} is {size}, expected {dim} = {expected}", code="input-shape")


def single_symbol(dim: Dim) -> str | None:
    """The name of the symbol that `dim` is, or None where it is something else."""
    if isinstance(dim, Size) and len(dim.terms) == 1:
        (monomial, factor) = dim.terms[0]
        if factor == 1 and len(monomial) == 1 and isinstance(monomial[0], str):
            return monomial[0]
    return None


class _Run:
    """One run of a module."""

    def __init__(self, module: Module, observe: Observer, *, clamp_indices: bool) -> None:
        self.observe, self.clamp_indices = observe, clamp_indices
        self.functions = {function.name: function for function in module.functions}

    def block(self, block: Block, arguments: Sequence[HostValue], outer: Mapping[str, int]) -> tuple[HostValue, ...]:
        """The results of `block`; its parameters bind symbols anew, over those of `outer`."""
        own: dict[str, int] = {}
        tensors = [
            (parameter.producer.name, parameter.type, shape_of(argument))
            for parameter, argument in zip(block.parameters, arguments, strict=True)
            if isinstance(parameter.type, ShapedType) and parameter.type.shape is not None
        ]
        for name, type, shape in tensors:
            bind_parameter(type, shape, own, name)
        sizes = {**outer, **own}
        for name, type, shape in tensors:
            check_parameter(type, shape, sizes, name)
        values: dict[Value, HostValue] = dict(zip(block.parameters, arguments, strict=True))
        for op in block.ops:
            try:
                if not self.clamp_indices and is_indexed(op):
                    expect_indices_in_range(op, values)
                results = self.op(op, [values[operand] for operand in op.operands], sizes)
            except InputError as problem:
                raise located(problem, op.location) from None
            self.observe(op, results)
            values.update(zip(op.results, results, strict=True))
        return tuple(values[result] for result in block.results)

    def op(self, op: Op, operands: Sequence[HostValue], sizes: dict[str, int]) -> tuple[HostValue, ...]:
        """The results of one op; ops that bind symbols add them to `sizes`."""
        results: tuple[HostValue, ...]
        match op.name:
            case "bind_sizes":
                names = op.attributes["symbols"]
                assert isinstance(names, tuple)
                sizes.update(zip(map(str, names), as_array(operands[0]).tolist(), strict=True))
                return ()
            case "guard":
                check_guard(op, sizes)
                return ()
            case "if":
                results = self.block(op.blocks[0 if as_array(operands[0]).item() else 1], operands[1:], sizes)
            case "while":
                results = self._while(op, operands, sizes)
            case "recurrence":
                results = self._recurrence(op, operands, sizes)
            case "call":
                results = self.block(self.functions[op.text("function")].body, operands, {})
            case "native_call":
                results = apply_function(
                    "custom_operator", operands, host_form(op, "the interpreter", "it runs no code"), sizes
                )
            case "host":
                results = apply_function(op.text("function"), operands, op.attributes, sizes)
            case _:
                expect_sizes(op, sizes)
                results = apply_meaning(op.name, [as_array(operand) for operand in operands], op.attributes, sizes)
        for value, array in zip(op.results, results, strict=True):
            if isinstance(value.type, ShapedType) and value.type.shape is not None:
                bind_parameter(value.type, shape_of(array), sizes, op.name)
        return results

    def _while(self, op: Op, operands: Sequence[HostValue], sizes: dict[str, int]) -> tuple[HostValue, ...]:
        """See primitives/control.py."""
        carried_count, scan_count = op.int("carried"), op.int("scans")
        limit, condition, *rest = operands
        last = as_array(limit).item()
        carried, captures = rest[:carried_count], rest[carried_count:]
        scans: list[list[Array]] = [[] for _ in range(scan_count)]
        iteration, going = 0, bool(as_array(condition).item())
        while iteration < last and going:
            arguments = [np.array(iteration, np.int64), *carried, *captures]
            condition, *results = self.block(op.blocks[0], arguments, sizes)
            carried, going = results[:carried_count], bool(as_array(condition).item())
            for scan, element in zip(scans, results[carried_count:], strict=True):
                scan.append(as_array(element))
            iteration += 1
        sizes[op.text("symbol")] = iteration
        for scan in scans:
            expect_one_shape([element.shape for element in scan])
        stacked = [
            np.stack(scan) if scan else empty_scan(value, sizes)
            for scan, value in zip(scans, op.results[carried_count:], strict=True)
        ]
        return (*carried, *stacked)

    def _recurrence(self, op: Op, operands: Sequence[HostValue], sizes: dict[str, int]) -> tuple[HostValue, ...]:
        """See primitives/control.py."""
        count, trips = op.int("carried"), evaluate(op.dim("trips"), sizes)
        states, captures = operands[: count * len(op.blocks)], operands[count * len(op.blocks) :]
        made: list[HostValue] = []
        for ordinal, block in enumerate(op.blocks):
            carried, rounds = states[ordinal * count : (ordinal + 1) * count], list[tuple[HostValue, ...]]()
            for iteration in range(trips):
                rounds.append(self.block(block, [np.array(iteration, np.int64), *carried, *captures], sizes))
                carried = rounds[-1][:count]
            first = len(made) + count
            scans = op.results[first : first + op.int("scans")]
            made += carried
            made += [
                np.stack([as_array(each[count + scan]) for each in rounds]) if rounds else empty_scan(value, sizes)
                for scan, value in enumerate(scans)
            ]
        return tuple(made)


def empty_scan(value: Value, sizes: Mapping[str, int]) -> Array:
    """What stacking no elements gives: sizes that no iteration decided are 0, and a rank that none decided is 1."""
    shape = (0, *(_size_or_zero(dim, sizes) for dim in (value.tensor.shape or ())[1:]))
    return np.zeros(shape, value.dtype.numpy)


def _size_or_zero(dim: Dim, sizes: Mapping[str, int]) -> int:
    try:
        return evaluate(dim, sizes)
    except KeyError:
        return 0


def expect_sizes(op: Op, sizes: Mapping[str, int]) -> None:
    """InputError where a result would have a size below 0."""
    for type in op.result_types:
        shape = type.shape if isinstance(type, ShapedType) else None
        for dim in shape or ():
            if isinstance(dim, Size) and symbols_of(dim) <= sizes.keys() and evaluate(dim, sizes) < 0:
                message = f"the inputs make a size of {evaluate(dim, sizes)}, {dim}"
                raise InputError(message, code="impossible-size")


def check_guard(op: Op, sizes: Mapping[str, int]) -> None:
    """InputError with the message of a `guard` whose relation does not hold."""
    left, right = (evaluate(dim, sizes) for dim in (op.dim("left"), op.dim("right")))
    holds = {"equal": left == right, "broadcast": left == right or 1 in (left, right), "at_least": left >= right}
    if not holds[op.text("relation")]:
        where = f"\n  --> {op.location}" if op.location is not None else ""
        raise InputError(f"{op.text('message')} (here {left} and {right}){where}", code="sizes-disagree")
