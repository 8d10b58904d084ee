"""Models compiled for a GPU and run without one: the real plan, artifact and runtime over a fake driver.

Kernels are executed by Triton's interpreter from their sources, which are not compiled. It is a back end of
`python -m tests.conformance --backend tests.support.fake_gpu` too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from benchmarks.gpu.emitted import emitted, emitted_decoder
from onnxc.backend import Prepared
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelParameter, KernelSource
from onnxc.compiler.options import CompileOptions, ModelSource, make_options
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.runtime.artifact import Artifact
from onnxc.runtime.decoding.decoder import Decoder
from onnxc.runtime.decoding.load_decoder import make_decoder
from onnxc.runtime.device_code import DeviceKernel
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import make_executable
from tests.support.fake_driver import FakeDriver, Launched
from tests.support.triton_interpreter import execute

__all__ = [
    "FakeDecoder", "FakeRun", "compile_for_fake", "decoder_on_fake", "fake_kernels", "interpret_launch", "prepare",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class FakeRun:
    """An executable on a fake device, with the plan that it came from."""

    executable: Executable
    artifact: Artifact
    plan: KernelPlan
    driver: FakeDriver


def compile_for_fake(model: ModelSource, target: str = "cuda:sm_90", **options: object) -> FakeRun:
    """The model, ready to be called on a fake device; the options are those of `onnxc.compile`."""
    return run_on_fake(model, make_options(target, cache=False, **options))  # type: ignore[arg-type]


def run_on_fake(model: ModelSource, options: CompileOptions) -> FakeRun:
    """The same for checked options."""
    plans: list[KernelPlan] = []

    def kept(plan: KernelPlan) -> KernelPlan:
        plans.append(plan)
        return plan

    artifact = emitted(model, options, fake_kernels, kept)
    driver = FakeDriver(artifact.device, interpret_launch, memory_bytes=4 << 30)
    executable = make_executable(artifact, driver=driver.driver, compilations=1)
    return FakeRun(executable, artifact, plans[0], driver)


@dataclass(frozen=True, eq=False)
class FakeDecoder:
    """A decoder on a fake device."""

    decoder: Decoder
    artifact: Artifact
    driver: FakeDriver


def decoder_on_fake(model: ModelSource, target: str = "cuda:sm_90", precision: str = "fp32") -> FakeDecoder:
    """The decoder of a model, with its caches in the memory of a fake device."""
    artifact = emitted_decoder(model, make_options(target, precision=precision, cache=False), fake_kernels)
    driver = FakeDriver(artifact.device, interpret_launch, memory_bytes=4 << 30)
    return FakeDecoder(make_decoder(artifact, 1, driver=driver.driver), artifact, driver)


def fake_kernels(sources: Sequence[KernelSource]) -> list[DeviceKernel]:
    """What would be known of the kernels, had they been compiled."""
    keys = [sha256(repr(source).encode()).hexdigest() for source in sources]
    return [
        DeviceKernel(
            key, "kernel", b"\x7fELF" + key.encode(), tuple(parameter.type for parameter in source.parameters),
            source.warps, 1, 0, 0, source.cooperative, 32, 0, source.text,
        )
        for key, source in zip(keys, sources, strict=True)
    ]  # fmt: skip


def interpret_launch(launched: Launched) -> None:
    """What the kernel of a launch does."""
    kernel = launched.kernel
    parameters = tuple(KernelParameter(f"p{number}", type) for number, type in enumerate(kernel.parameters))
    execute(KernelSource(kernel.source, parameters), launched.grid, [int(value) for value in launched.values])


def prepare(model: ModelSource, device: str = "CPU") -> Prepared:
    """As onnxc.backend.prepare, for the fake device."""

    def compile_model(freeze: bool) -> Executable:
        return compile_for_fake(model, freeze_params=freeze).executable

    return Prepared(compile_model, compile_model(True))
