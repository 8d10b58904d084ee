"""Whole models and official cases on the device: the values, and that graphs and DLPack give the same."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

import onnxc
from benchmarks.gpu.bench import Bench, Row, attempt
from benchmarks.gpu.kernel_values import worst_error
from benchmarks.inputs import ModelSpec, make_inputs, read_manifest
from onnxc.backend import Prepared
from onnxc.runtime.executable import Executable
from tests.conformance.cases import all_cases
from tests.conformance.worker import run_case
from tests.models.builders import Built, decoder, encoder, llama, mlp, mobile, resnet, unet

BUILT: Mapping[str, Callable[..., Built]] = {
    "mlp": mlp, "resnet": resnet, "mobile": mobile, "unet": unet,
    "encoder": encoder, "decoder": decoder, "llama": llama,
}  # fmt: skip

BOUNDS = {"fp32": 2e-5, "tf32": 1e-2, "bf16": 1e-1, "fp16": 2e-2}
"""The largest error against fp32 on the CPU, as a part of the largest magnitude."""

CALLS = 3
"""The third is the first that is replayed from a graph."""

OFFICIAL = {"full": 60, "quick": 20, "tiny": 3}

Make = Callable[[object, str], Executable]
"""From a model and a precision to what runs on the device."""


def on_this_device(model: object, precision: str) -> Executable:
    """The model compiled for the device of this machine."""
    return onnxc.compile(model, target="cuda", precision=precision)  # type: ignore[arg-type]


def model_values(bench: Bench, make: Make = on_this_device) -> Iterator[Row]:
    """One row for each model, precision and size."""
    precisions = ("fp32", "tf32", "bf16", "fp16") if bench.size == "full" else ("fp32",)
    names = ("mlp",) if bench.size == "tiny" else tuple(BUILT)
    for name in names:
        for precision in precisions:
            if bench.is_late:
                yield {"name": f"{name}/{precision}", "error": "no time was left"}
                return
            yield attempt(f"{name}/{precision}", partial(_built_row, make, name, precision))
    if bench.models is not None:
        for spec in read_manifest(bench.models):
            if bench.is_late or bench.size != "full":
                return
            if not spec.name.endswith(".legacy"):
                yield attempt(f"{spec.name}/fp32", partial(_exported_row, make, spec))


def official_cases(bench: Bench, make: Make = on_this_device) -> Iterator[Row]:
    """One row: how many of a sample of the official node cases pass, and which do not."""
    cases = [case for case in all_cases() if case.kind == "node"]
    chosen = cases[:: max(1, len(cases) // OFFICIAL[bench.size])]
    failed, passed = {}, 0
    for case in chosen:
        if bench.is_late:
            break
        outcome = run_case(case, lambda model, device: _prepared(make, model))
        if outcome.status == "passed":
            passed += 1
        else:
            failed[case.name] = f"{outcome.status}: {outcome.reason}"
    yield {"name": "official node cases", "passed": passed, "chosen": len(chosen), "failed": failed, "ok": not failed}


def _prepared(make: Make, model: object) -> Prepared:
    executable = make(model, "fp32")
    return Prepared(lambda freeze: executable, executable)


def _exported_row(make: Make, spec: ModelSpec) -> Row:
    return _compared(make, str(spec.path), "fp32", [make_inputs(spec.inputs, spec.sizes["prime"])])


def _built_row(make: Make, name: str, precision: str) -> Row:
    built = BUILT[name]("dynamo")
    feeds = [make_inputs(built.inputs, sizes, seed) for seed, sizes in enumerate(built.sizes.values())]
    return _compared(make, built.model.SerializeToString(), precision, feeds)


def _compared(make: Make, model: object, precision: str, feeds: list[Mapping[str, np.ndarray]]) -> Row:
    """The worst error at each feed, whether a replayed graph gives the same bits."""
    found, exact = make(model, precision), onnxc.compile(model)  # type: ignore[arg-type]
    worst, same = 0.0, True
    for feed in feeds:
        results = [{name: np.asarray(value) for name, value in found.run(feed).items()} for _ in range(CALLS)]
        wanted = exact.run(feed)
        worst = max([worst, *(worst_error(results[0][name], np.asarray(wanted[name])) for name in wanted)])
        same &= all(
            np.array_equal(results[0][name], again[name], equal_nan=True) for again in results for name in wanted
        )
    bound = BOUNDS[precision]
    return {"error_ratio": worst, "bound": bound, "same_in_a_graph": same, "ok": worst <= bound and same}
