"""Modules planned for a GPU and run by Triton's interpreter, beside the meanings of the primitives.

Buffers end at a page that cannot be accessed; outputs, arenas and scratch memory are full of ones bits (NaN) before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import prod

import numpy as np

from onnxc.compiler.codegen_gpu.kernels import emit_kernel
from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.codegen_gpu.source.kernel_source import Argument, KernelCode
from onnxc.compiler.codegen_host.weights import packed
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import sum_of
from onnxc.compiler.ir.interpreter import single_symbol
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.op_facts import bound_symbols
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.check_plan import check_plan
from onnxc.compiler.planning.kernel_plan import (
    BindLate,
    BindMost,
    BindSizes,
    Buffer,
    GuardStep,
    HostStep,
    Kernel,
    PlanStep,
    Release,
    Segment,
    Transfer,
    Variant,
    Weight,
)
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.schedules import Schedule
from onnxc.compiler.target import Target, parse_target
from onnxc.runtime.host import MEANINGS
from tests.codegen_cpu.support import (
    FLOATS,
    INTEGERS,
    NATIVE,
    Planned,
    assert_near,
    guarded,
    make,
    native_names,
    odd_values,
    precision,
    sample,
)
from tests.support.triton_interpreter import execute

__all__ = [
    "FLOATS", "INTEGERS", "NATIVE", "SM_80", "SM_90", "Device", "assert_near", "code_of", "make", "native_names",
    "odd_values", "precision", "sample",
]  # fmt: skip

SM_80, SM_90 = parse_target("cuda:sm_80"), parse_target("cuda:sm_90")
_STATUS_WORDS = 8


def code_of(kernel: Kernel, target: Target = SM_90) -> KernelCode:
    """The sources and launches of a kernel of a plan."""
    return emit_kernel(kernel, target)


class Device(Planned):
    """A module planned for a GPU; a call runs its launches one after another, by the interpreter.

    schedule: takes the place of that of its only kernel.
    """

    def __init__(
        self, module: Module, target: Target = SM_90, precision: str = "fp32", schedule: Schedule | None = None
    ) -> None:
        self.module, self.target = module, target
        plan_target = gpu_plan_target(target, precision)
        if schedule is not None:
            plan_target = replace(plan_target, candidates=lambda problem, case: (schedule,))
        self.plan = plan_kernels(module, plan_target)
        check_plan(self.plan)
        self.code = cache(lambda number: code_of(self.plan.kernels[number], target))
        self.status = np.zeros(_STATUS_WORDS, np.int64)

    def sources(self) -> list[str]:
        """The texts of all kernels, in order."""
        return [step.source.text for number in range(len(self.plan.kernels)) for step in self.code(number).steps]

    def __call__(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """The results; `status` is what the kernels reported."""
        self.status[:] = 0
        block = self.plan.function.body
        values = dict(zip(block.parameters, map(guarded, arrays), strict=True))
        symbols: dict[str, int] = {}
        for value, array in list(values.items()):
            _bind(value, array, symbols)
        for step in self.plan.body.steps:
            if isinstance(step, Segment):
                self._segment(step, values, symbols)
            elif isinstance(step, BindMost):
                symbols[step.symbol] = evaluate(step.most, symbols)
            elif isinstance(step, BindLate):
                self._bind_late(step, values, symbols)
            elif not isinstance(step, GuardStep | Release | Transfer):
                self._host(step, values, symbols)
        return tuple(self._value(result, values) for result in block.results)

    def _value(self, value: Value, values: Mapping[Value, np.ndarray]) -> np.ndarray:
        if value in values:
            return values[value]
        assert value.op is not None, value
        return value.op.array()

    def _host(self, step: PlanStep, values: dict[Value, np.ndarray], symbols: dict[str, int]) -> None:
        assert isinstance(step, HostStep | BindSizes), step
        op: Op = step.op
        operands = [self._value(operand, values) for operand in op.operands]
        if isinstance(step, BindSizes):
            names = op.attributes["symbols"]
            assert isinstance(names, tuple)
            symbols.update(zip(map(str, names), operands[0].tolist(), strict=True))
            return
        attributes = {name: _resolved(value, symbols) for name, value in op.attributes.items()}
        for result, array in zip(op.results, MEANINGS[op.name](operands, attributes), strict=True):
            values[result] = guarded(np.asarray(array))
            _bind(result, values[result], symbols)

    def _bind_late(self, step: BindLate, values: dict[Value, np.ndarray], symbols: dict[str, int]) -> None:
        """Arrays that were made for the most are the first elements of these."""
        for op, count in zip(step.ops, step.counts, strict=True):
            symbols.update(zip(bound_symbols(op), values[count].tolist(), strict=True))
        for value in step.values:
            shape = [evaluate(size, symbols) for size in value.shape]
            values[value] = values[value].reshape(-1)[: prod(shape)].reshape(shape)

    def _segment(self, segment: Segment, values: dict[Value, np.ndarray], symbols: Mapping[str, int]) -> None:
        outputs = [
            guarded(np.empty([evaluate(dim, symbols) for dim in value.shape], value.dtype.numpy), poison=True)
            for value in segment.outputs
        ]
        arena = guarded(np.empty(evaluate(segment.arena_bytes, symbols), np.uint8), poison=True)
        inputs = [values[value] for value in segment.inputs]
        for launch in segment.launches:

            def address(buffer: Buffer) -> int:
                match buffer.kind:
                    case "input":
                        return _address(inputs[buffer.index])
                    case "output":
                        return _address(outputs[buffer.index])
                    case "weight":
                        weight = self.plan.weights[buffer.index]
                        return _address(self._weight(weight))
                return _address(arena) + evaluate(sum_of(segment.slots[: buffer.index]), symbols)

            scratch = 0 if launch.scratch is None else address(launch.scratch)
            inputs_at, outputs_at = [*map(address, launch.inputs)], [*map(address, launch.outputs)]
            counts = {name: address(buffer) for name, buffer in segment.counts}
            self._launch(launch.variant_for(symbols), inputs_at, outputs_at, scratch, symbols, counts)
        values.update(zip(segment.outputs, outputs, strict=True))

    def _weight(self, weight: Weight) -> np.ndarray:
        constant = self.plan.constants[weight.constant]
        array = guarded(packed(constant, weight.layout))
        self.__dict__.setdefault("kept", []).append(array)
        return array

    def _launch(
        self,
        variant: Variant,
        inputs: Sequence[int],
        outputs: Sequence[int],
        scratch: int,
        symbols: Mapping[str, int],
        counts: Mapping[str, int],
    ) -> None:
        kernel, code = self.plan.kernels[variant.kernel], self.code(variant.kernel)
        own = dict(zip(kernel.symbols, (evaluate(size, symbols) for size in variant.sizes), strict=True))

        def value(argument: Argument) -> int:
            match argument.kind:
                case "input":
                    return inputs[evaluate(argument.value, {})]
                case "output":
                    return outputs[evaluate(argument.value, {})]
                case "status":
                    return _address(self.status)
                case "scratch":
                    return scratch + evaluate(argument.value, own)
                case "location":
                    return 7
                case "count":
                    (size,) = (
                        size
                        for size, symbol in zip(variant.sizes, kernel.symbols, strict=True)
                        if symbol == str(argument.value)
                    )
                    return counts[str(size)]
            return evaluate(argument.value, own)

        for step in code.steps:
            x, y, z = (evaluate(size, own) for size in step.grid)
            assert y < 1 << 16, step.grid
            assert z < 1 << 16, step.grid
            if min(x, y, z) > 0:
                execute(step.source, (x, y, z), [value(argument) for argument in step.arguments])


def _bind(value: Value, array: np.ndarray, symbols: dict[str, int]) -> None:
    if isinstance(value.type, TensorType) and value.type.shape is not None:
        for dim, size in zip(value.type.shape, array.shape, strict=True):
            symbol = single_symbol(dim)
            if symbol is not None:
                symbols.setdefault(symbol, size)


def _resolved(value: object, symbols: Mapping[str, int]) -> object:
    if isinstance(value, tuple):
        return tuple(_resolved(item, symbols) for item in value)
    if hasattr(value, "terms"):
        return evaluate(value, symbols)  # type: ignore[arg-type]
    return getattr(value, "numpy", value)


def _address(array: np.ndarray) -> int:
    return int(array.ctypes.data)
