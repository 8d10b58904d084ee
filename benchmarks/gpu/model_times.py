"""Models beside torch eager and torch.compile (max-autotune, CUDA graphs), in every precision.

Without torch our own times are there alone. Inputs lie on the device; a figure is the time of a call among several.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import ModuleType

import numpy as np

from benchmarks.gpu.bench import Bench, Row, attempt
from benchmarks.gpu.model_values import Make, on_this_device
from benchmarks.gpu.others import torch_or_none
from benchmarks.inputs import ModelSpec, make_inputs, read_manifest
from onnxc.runtime.executable import Executable
from onnxc.runtime.gpu.arrays import DeviceArray

MODELS = {
    "full": ("bert_base", "resnet50", "gpt2_decode", "mobilenet_v2"), "quick": ("bert_tiny", "mnist_cnn"), "tiny": (),
}  # fmt: skip
PRECISIONS = {"full": ("fp32", "tf32", "bf16", "fp16"), "quick": ("bf16",), "tiny": ("fp32",)}
CALLS = {"full": 20, "quick": 10, "tiny": 2}

Call = Callable[[], object]


def model_times(bench: Bench, make: Make = on_this_device) -> Iterator[Row]:
    """One row for each model of the folder, precision and size."""
    if bench.models is None:
        yield {"name": "models", "error": "no folder of models was named: --models DIR"}
        return
    wanted = MODELS[bench.size]
    specs = [spec for spec in read_manifest(bench.models) if not wanted or spec.name in wanted]
    for spec in specs:
        for precision in PRECISIONS[bench.size]:
            for size in ("large", "one") if "large" in spec.sizes else tuple(spec.sizes)[:1]:
                name = f"{spec.name}/{precision}/{size}"
                if bench.is_late:
                    yield {"name": name, "error": "no time was left"}
                    return
                yield attempt(name, partial(_row, bench, make, spec, precision, size))


def _row(bench: Bench, make: Make, spec: ModelSpec, precision: str, size: str) -> Row:
    feed = make_inputs(spec.inputs, spec.sizes[size])
    executable = make(str(spec.path), precision)
    on_device = {name: _on_device(bench, array) for name, array in feed.items()}
    calls: dict[str, Call] = {"ours": lambda: executable.run(on_device, stream=bench.stream)}
    failures: dict[str, str] = {}
    torch = torch_or_none()
    if torch is not None:
        for name in ("eager", "compiled"):
            if name == "compiled" and bench.is_late:
                failures[name] = "no time was left"
                continue
            row = attempt(name, lambda name=name: {"call": _torch_call(torch, bench, spec, precision, size, name)})  # type: ignore[misc]
            if "call" in row:
                calls[name] = row["call"]  # type: ignore[assignment]
            else:
                failures[name] = str(row["error"])
    times = _interleaved(bench, calls, CALLS[bench.size])
    found: Row = {f"{name}_seconds": seconds for name, seconds in times.items()}
    found |= {f"ratio_to_{name}": times["ours"] / times[name] for name in times if name != "ours"}
    return {**found, **({"failures": failures} if failures else {}), "launches": _launches(executable)}


def _launches(executable: Executable) -> object:
    report = executable.report()
    totals = report.get("totals") if isinstance(report, Mapping) else None
    return totals.get("launches") if isinstance(totals, Mapping) else None


def _on_device(bench: Bench, array: np.ndarray) -> DeviceArray:
    buffer = bench.uploaded(array)
    return DeviceArray(bench.device, buffer.address, array.shape, array.dtype, buffer, None)


def _interleaved(bench: Bench, calls: Mapping[str, Call], count: int) -> dict[str, float]:
    """The median seconds of a call of each, several in a row, in turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(3):
            call()
    for _ in range(bench.rounds):
        for name, call in calls.items():
            found[name].append(bench.elapsed(lambda call=call: [call() for _ in range(count)] and None) / count)  # type: ignore[misc]
    return {name: float(np.median(times)) for name, times in found.items()}


def _torch_call(torch: ModuleType, bench: Bench, spec: ModelSpec, precision: str, size: str, form: str) -> Call:
    """A call of the model that was exported, eager or compiled, on our stream."""
    export = importlib.import_module("benchmarks.models.export_models")
    row = export.MODELS[spec.name]
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    module = export.build(row).to("cuda", dtype)
    arguments = _moved(torch, export.call_arguments(row, dict(spec.sizes[size])), dtype)
    called = torch.compile(module, mode="max-autotune", fullgraph=False) if form == "compiled" else module
    stream = torch.cuda.ExternalStream(bench.stream)

    def call() -> object:
        with torch.cuda.stream(stream), torch.no_grad():
            return called(*arguments)

    call()
    return call


def _moved(torch: ModuleType, value: object, dtype: object) -> "Sequence[object]":
    """The tensors of nested arguments on the device, floats in the precision."""
    if isinstance(value, torch.Tensor):
        return value.to("cuda", dtype) if value.is_floating_point() else value.to("cuda")  # type: ignore[no-any-return]
    if isinstance(value, tuple | list):
        return type(value)(_moved(torch, item, dtype) for item in value)  # type: ignore[return-value]
    return value  # type: ignore[return-value]
