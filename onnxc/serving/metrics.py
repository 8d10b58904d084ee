"""The metrics page: Triton's names, so that its dashboards show them, and a histogram of latencies of our own."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from onnxc.runtime.records import record
from onnxc.serving.served_model import ServedModel
from onnxc.serving.statistics import LATENCY_BOUNDS_S

__all__ = ["CONTENT_TYPE", "metrics_page"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@record
class _Metric:
    name: str
    kind: str
    help: str
    value: Callable[[ServedModel], int]


def _count(kind: str) -> Callable[[ServedModel], int]:
    return lambda model: model.statistics.requests()[kind].count


def _microseconds(kind: str) -> Callable[[ServedModel], int]:
    return lambda model: model.statistics.requests()[kind].ns // 1000


OF_MODELS = (
    _Metric("nv_inference_request_success", "counter", "requests that were answered", _count("success")),
    _Metric("nv_inference_request_failure", "counter", "requests that failed", _count("fail")),
    _Metric("nv_inference_count", "counter", "rows that were computed", lambda model: model.statistics.totals()[0]),
    _Metric("nv_inference_exec_count", "counter", "calls of the model", lambda model: model.statistics.totals()[1]),
    _Metric("nv_inference_pending_request_count", "gauge", "requests that wait", lambda model: model.batcher.pending),
    _Metric("nv_inference_request_duration_us", "counter", "time of requests", _microseconds("success")),
    _Metric("nv_inference_queue_duration_us", "counter", "time in the queue", _microseconds("queue")),
    _Metric("nv_inference_compute_input_duration_us", "counter", "time of joining", _microseconds("compute_input")),
    _Metric("nv_inference_compute_infer_duration_us", "counter", "time of calls", _microseconds("compute_infer")),
    _Metric("nv_inference_compute_output_duration_us", "counter", "time of parting", _microseconds("compute_output")),
)


def metrics_page(models: Sequence[ServedModel]) -> str:
    """The page, in Prometheus' text format."""
    lines = [*_process()]
    for metric in OF_MODELS:
        lines += _head(metric.name, metric.kind, metric.help)
        lines += [f"{metric.name}{{{_labels(model)}}} {metric.value(model)}" for model in models]
    lines += _head("onnxc_request_seconds", "histogram", "latency of answered requests")
    for model in models:
        lines += _histogram(model)
    return "\n".join([*lines, ""])


def _head(name: str, kind: str, help_text: str) -> tuple[str, str]:
    return f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"


def _labels(model: ServedModel) -> str:
    # Names of models have no character that would need escaping.
    return f'model="{model.name}",version="{model.version}"'


def _histogram(model: ServedModel) -> Iterator[str]:
    counts, labels, total = model.statistics.latency(), _labels(model), 0
    for bound, count in zip((*LATENCY_BOUNDS_S, "+Inf"), counts, strict=True):
        total += count
        yield f'onnxc_request_seconds_bucket{{{labels},le="{bound}"}} {total}'
    yield f"onnxc_request_seconds_sum{{{labels}}} {model.statistics.requests()['success'].ns / 1e9}"
    yield f"onnxc_request_seconds_count{{{labels}}} {total}"


def _process() -> Iterator[str]:
    """Memory and processor time of the server."""
    values: Mapping[str, tuple[str, float]] = {
        "nv_cpu_memory_total_bytes": ("gauge", os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES),
        "nv_cpu_memory_used_bytes": ("gauge", _resident_bytes()),
        "onnxc_process_cpu_seconds": ("counter", sum(os.times()[:2])),
    }
    for name, (kind, value) in values.items():
        yield from _head(name, kind, "of the server's process")
        yield f"{name} {value}"


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES
