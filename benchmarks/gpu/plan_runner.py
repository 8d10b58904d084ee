"""A plan of kernels alone on a device, launched from Python: for kernels by themselves, outside of executables."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from benchmarks.gpu.bench import Bench
from benchmarks.gpu.planned_kernels import planned
from onnxc.compiler.codegen_gpu.source.kernel_source import Argument
from onnxc.compiler.codegen_host.weights import packed
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import sum_of
from onnxc.compiler.ir.interpreter import single_symbol
from onnxc.compiler.ir.module import Module
from onnxc.compiler.planning.kernel_plan import Buffer as PlanBuffer
from onnxc.compiler.planning.kernel_plan import Launch, Segment
from onnxc.compiler.planning.schedules import Schedule
from onnxc.runtime.device_code import DeviceKernel
from onnxc.runtime.gpu.driver import Driver
from onnxc.runtime.native.addresses import WORD_BYTES
from onnxc.runtime.native.workspaces import STATUS_WORDS

__all__ = ["PlanRunner"]

_STATUS_BYTES = STATUS_WORDS * WORD_BYTES


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute of cuda.h: which, and its value."""

    _fields_ = (("id", ctypes.c_uint64), ("value", ctypes.c_uint64 * 8))


# CU_LAUNCH_ATTRIBUTE_COOPERATIVE: all programs run at once, or the launch is refused.
_COOPERATIVE = _Attribute(2, (1,))


class _Config(ctypes.Structure):
    """CUlaunchConfig of cuda.h."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("attribute_count", ctypes.c_uint),
    )  # fmt: skip


_Configured = tuple[_Config, int, "ctypes.Array[ctypes.c_void_p]"]


class PlanRunner:
    """The launches of a module at the sizes of the inputs; `schedule` replaces that of its only kernel."""

    def __init__(
        self,
        bench: Bench,
        module: Module,
        inputs: Sequence[np.ndarray],
        precision: str = "fp32",
        schedule: Schedule | None = None,
    ) -> None:
        self.bench = bench
        made = planned(module, bench.target, precision, schedule)
        self.plan, self.codes, sources = made.plan, made.codes, made.sources
        plan = self.plan
        (segment,) = plan.body.steps
        assert isinstance(segment, Segment), plan
        kernels = bench.compile(sources)
        self.kernels = dict(zip(sources, kernels, strict=True))
        self._loaded = bench.load(kernels)
        self._functions = dict(zip(sources, self._loaded.functions, strict=True))
        self.symbols = _symbols(module, inputs)
        parameters = plan.function.body.parameters
        arrays = dict(zip(parameters, inputs, strict=True))
        self._inputs = [bench.uploaded(arrays[value]) for value in segment.inputs]
        self._shapes = [tuple(evaluate(dim, self.symbols) for dim in value.shape) for value in segment.outputs]
        self._dtypes = [np.dtype(value.dtype.numpy) for value in segment.outputs]
        self._outputs = [
            bench.buffer(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
            for shape, dtype in zip(self._shapes, self._dtypes, strict=True)
        ]
        self._segment = segment
        self._arena = bench.buffer(max(1, evaluate(segment.arena_bytes, self.symbols)))
        self._weights = [
            bench.uploaded(packed(plan.constants[weight.constant], weight.layout)) for weight in plan.weights
        ]
        self._status = bench.uploaded(np.zeros(_STATUS_BYTES, np.uint8))
        self._kept: list[object] = []
        self._launches = [made for launch in segment.launches for made in self._launch(launch)]

    @property
    def launch_count(self) -> int:
        """How many launches of the device there are."""
        return len(self._launches)

    def enqueue(self, stream: int) -> None:
        """All launches on a stream."""
        for configured in self._launches:
            _enqueue(self.bench.driver, configured, stream)

    def base_addresses(self) -> tuple[int, int, int, int]:
        """Where weights, arena, status block and heap are, as the frame of a native function wants them."""
        return 0, self._arena.address, self._status.address, 0

    def addresses(self) -> list[int]:
        """Where inputs and outputs of the segment are."""
        return [buffer.address for buffer in (*self._inputs, *self._outputs)]

    @staticmethod
    def bare_launch(
        bench: Bench, kernel: DeviceKernel, function: int, *addresses: int, programs: int = 1
    ) -> Callable[[int], None]:
        """A launch of a kernel that takes addresses alone."""
        configured = _configured(kernel, function, (programs, 1, 1), [*addresses, 0], bench.kept)
        return lambda stream: _enqueue(bench.driver, configured, stream)

    def results(self) -> list[np.ndarray]:
        """The results of one run, in the order of the segment's outputs."""
        self.enqueue(self.bench.stream)
        outputs = zip(self._outputs, self._shapes, self._dtypes, strict=True)
        by_value = dict(zip(self._segment.outputs, (self.bench.downloaded(*output) for output in outputs), strict=True))
        return [by_value[value] for value in self.plan.function.body.results]

    def _launch(self, launch: Launch) -> list[_Configured]:
        variant = launch.variant_for(self.symbols)
        code, kernel = self.codes[variant.kernel], self.plan.kernels[variant.kernel]
        own = dict(zip(kernel.symbols, (evaluate(size, self.symbols) for size in variant.sizes), strict=True))
        scratch = 0 if launch.scratch is None else self._address(launch.scratch)
        addresses = []
        for step in code.steps:
            grid = [evaluate(size, own) for size in step.grid]
            if min(grid) > 0:
                words = [self._word(argument, launch, own, scratch) for argument in step.arguments]
                function = self._functions[step.source]
                kernel = self.kernels[step.source]
                own_memory = 0
                if kernel.scratch_bytes:
                    self._kept.append(memory := self.bench.buffer(kernel.scratch_bytes * prod(grid)))
                    own_memory = memory.address
                addresses.append(_configured(kernel, function, grid, [*words, own_memory], self._kept))
        return addresses

    def _word(self, argument: Argument, launch: Launch, own: Mapping[str, int], scratch: int) -> int:
        match argument.kind:
            case "input":
                return self._address(launch.inputs[evaluate(argument.value, {})])
            case "output":
                return self._address(launch.outputs[evaluate(argument.value, {})])
            case "status":
                return self._status.address
            case "scratch":
                return scratch + evaluate(argument.value, own)
            case "location":
                return 0
        return evaluate(argument.value, own)

    def _address(self, buffer: PlanBuffer) -> int:
        match buffer.kind:
            case "input":
                return self._inputs[buffer.index].address
            case "output":
                return self._outputs[buffer.index].address
            case "weight":
                return self._weights[buffer.index].address
        return self._arena.address + evaluate(sum_of(self._segment.slots[: buffer.index]), self.symbols)


def _configured(
    kernel: DeviceKernel, function: int, grid: Sequence[int], words: Sequence[int], kept: list[object]
) -> _Configured:
    """What the driver is given for a launch; `kept` keeps the parameters alive.

    words: the parameters of the source, then the memory that the programs have of their own.
    """
    values = (ctypes.c_uint64 * (len(words) + 1))(*(word & (1 << 64) - 1 for word in words), 0)
    first = ctypes.addressof(values)
    pointers = (ctypes.c_void_p * len(values))(*(first + 8 * index for index in range(len(values))))
    kept.append(values)
    config = _Config(shared_bytes=kernel.shared_bytes, attributes=ctypes.addressof(_COOPERATIVE))
    config.attribute_count = int(kernel.cooperative)
    config.grid[:] = grid
    config.block[:] = (32 * kernel.warps, 1, 1)
    return config, function, pointers


def _enqueue(driver: Driver, configured: _Configured, stream: int) -> None:
    config, function, pointers = configured
    config.stream = stream
    result = driver.functions["cuLaunchKernelEx"](ctypes.addressof(config), function, ctypes.addressof(pointers), None)
    if result:
        driver.fail(result, "to launch a kernel", "cuLaunchKernelEx")


def _symbols(module: Module, inputs: Sequence[np.ndarray]) -> dict[str, int]:
    """The sizes that the inputs decide."""
    values: dict[str, int] = {}
    for value, array in zip(module.main.body.parameters, inputs, strict=True):
        for dim, size in zip(value.shape, array.shape, strict=True):
            symbol = single_symbol(dim)
            if symbol is not None:
                values.setdefault(symbol, size)
    return values
