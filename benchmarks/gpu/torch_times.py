"""Models beside torch: eager, and torch.compile (max-autotune, CUDA graphs), the cheapest to compile first."""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import ModuleType

from benchmarks.gpu.bench import SKIPPED, Bench, Row, attempt
from benchmarks.gpu.model_times import interleaved_calls
from benchmarks.gpu.others import torch_or_none
from benchmarks.gpu.pack_file import PackedModel
from benchmarks.gpu.packed_models import device_inputs, executable_of, skeletons_of

__all__ = ["torch_times"]

COMPILE_S: Mapping[str, float] = {
    "mnist_cnn": 27, "bert_tiny": 30, "bert_base": 45, "vit_base": 50, "gpt2_decode": 90, "mobilenet_v2": 260,
    "resnet50": 264,
}  # fmt: skip
"""About what max-autotune takes on 16 cores, for the order alone; rows that do not end in time are not begun.

Those of mnist_cnn and resnet50 were measured beside an H200."""

# The precision that models are served in comes first.
PRECISIONS = ("bf16", "fp16", "fp32")

SIZE = "many"


def torch_times(bench: Bench) -> Iterator[Row]:
    """One row for each model and precision."""
    torch = torch_or_none()
    if torch is None:
        yield {"name": "torch", "skipped": "torch is not installed, or sees no device"}
        return
    models = [model for model in skeletons_of(bench) if model.name in COMPILE_S]
    models.sort(key=lambda model: (PRECISIONS.index(model.precision), COMPILE_S[model.name]))
    for model in models:
        name = f"{model.name}/{model.precision}/{SIZE}"
        if bench.seconds_left < COMPILE_S[model.name]:
            yield {"name": name, "skipped": SKIPPED}
        else:
            yield attempt(name, partial(_row, bench, torch, model))


def _row(bench: Bench, torch: ModuleType, model: PackedModel) -> Row:
    feed, executable = device_inputs(bench, model, SIZE), executable_of(bench, model)
    calls: dict[str, Callable[[], object]] = {"ours": lambda: executable.run(feed, stream=bench.stream)}
    failures: Row = {}
    for form in ("eager", "compiled"):
        row = attempt(form, lambda form=form: {"call": _torch_call(torch, bench, model, form)})  # type: ignore[misc]
        if "call" in row:
            calls[form] = row["call"]  # type: ignore[assignment]
        else:
            failures[form] = row["error"]
    times = interleaved_calls(bench, calls)
    times_row: Row = {f"{name}_seconds": seconds for name, seconds in times.items()}
    times_row |= {f"ratio_to_{name}": times["ours"] / times[name] for name in times if name != "ours"}
    return {**times_row, **({"failures": failures} if failures else {})}


def _torch_call(torch: ModuleType, bench: Bench, model: PackedModel, form: str) -> Callable[[], object]:
    """A call of the model that was exported, eager or compiled, on our stream."""
    export = importlib.import_module("benchmarks.models.export_models")
    row = export.MODELS[model.name]
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(model.precision, torch.float32)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    module = export.build(row).to("cuda", dtype)
    assert model.sizes is not None, model
    arguments = _moved(torch, export.call_arguments(row, dict(model.sizes[SIZE])), dtype)
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
