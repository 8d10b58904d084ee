"""`onnxc profile`: where the time of a call goes, as a table, as JSON, as a Chrome trace, or as a page."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from rich.console import RenderableType

from onnxc.command_line.option_values import Range, Shape
from onnxc.command_line.progress import progress
from onnxc.command_line.random_inputs import complete_inputs
from onnxc.command_line.shared import (
    AS_JSON,
    DIM,
    INPUT,
    MODEL,
    PRECISION,
    SEED,
    SHAPE,
    TARGET,
    THREADS,
    fixed_sizes,
    open_model,
    print_parts,
    reporting_errors,
    write_page,
)
from onnxc.command_line.texts.tables import facts_table, table
from onnxc.runtime.profiling.profile import KernelTime, Profile

__all__ = ["profile_command", "profile_parts"]

MICRO = 1e6
OUTPUT = click.Path(dir_okay=False, path_type=Path)


@click.command("profile")
@MODEL
@INPUT
@TARGET
@DIM
@SHAPE
@PRECISION
@THREADS
@SEED
@click.option("--calls", type=click.IntRange(min=1), default=20, show_default=True, help="How many to measure.")
@click.option("--warmup", type=click.IntRange(min=0), default=3, show_default=True, help="Calls before these.")
@click.option("--top", type=click.IntRange(min=1), help="Print only so many kernels, those that take longest.")
@AS_JSON
@click.option("--html", type=OUTPUT, help="Write a page: tables, a timeline, memory, kernels beside nodes.")
@click.option("--trace", type=OUTPUT, help="Write a trace for chrome://tracing or ui.perfetto.dev.")
@reporting_errors
def profile_command(
    model: Path,
    inputs: Mapping[str, object],
    target: str,
    dims: Mapping[str, Range],
    shapes: Mapping[str, Shape],
    precision: str,
    threads: int | None,
    seed: int,
    calls: int,
    warmup: int,
    top: int | None,
    html: Path | None,
    trace: Path | None,
    *,
    as_json: bool,
) -> None:
    """Say where the time of a call of MODEL goes.

    For each kernel: the nodes it came from, its algorithm, its time, and how near that is to what the machine can do.
    MODEL is an .onnx or .onnxc file; inputs that are not given are drawn as for `run`.
    """
    executable = open_model(model, target, dims, shapes, precision, threads)
    feed = complete_inputs(executable.inputs, inputs, shapes, fixed_sizes(dims), seed)
    # Names that the model does not have are found by this call.
    executable.run(feed)
    with progress(f"profiling {model.name}"):
        ordered = [feed.get(info.name) for info in executable.inputs]
        measured = executable.profile(*ordered, calls=calls, warmup=warmup)
    if html is not None:
        write_page(html, measured.html())
    if trace is not None:
        write_page(trace, json.dumps(measured.trace()))
    if as_json:
        click.echo(json.dumps(measured.to_json(), indent=1, ensure_ascii=False))
        return
    print_parts(profile_parts(measured, top))
    for path in filter(None, (html, trace)):
        click.echo(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


def profile_parts(profile: Profile, top: int | None = None) -> Iterator[RenderableType]:
    """What a call took, its kernels from the longest on, steps on the host, what is outside of both, and sums."""
    yield facts_table(_facts(profile))
    yield ""
    kernels = table("us", "share", "kernel", "algorithm", "GFLOP/s", "GB/s", "of roofline", "bound", "nodes")
    slowest = sorted(profile.kernels, key=lambda kernel: -kernel.seconds)
    for kernel in slowest[:top]:
        kernels.add_row(*_cells(kernel))
    yield kernels
    if profile.host:
        yield ""
        host = table("us", "share", "on the host", "node")
        for step in sorted(profile.host, key=lambda step: -step.seconds):
            host.add_row(f"{step.seconds * MICRO:.1f}", f"{step.share:.1%}", step.function, step.node)
        yield host
    yield ""
    between = table("us", "share", "outside of kernels", "times")
    for part in profile.between:
        between.add_row(f"{part.seconds * MICRO:.2f}", f"{part.share:.1%}", part.name, f"{part.executions:g}")
    yield between
    yield ""
    operators = table("us", "share", "operator")
    for total in profile.by_operator():
        operators.add_row(f"{total.seconds * MICRO:.1f}", f"{total.share:.1%}", total.name)
    yield operators


def _facts(profile: Profile) -> dict[str, str]:
    parts = {
        "in kernels": profile.kernel_seconds,
        "on the host": profile.host_seconds,
        "outside of both": profile.between_seconds,
    }
    sizes = ", ".join(f"{name} = {size}" for name, size in profile.sizes.items())
    limits = profile.limits
    slowest = limits.bandwidths[-1]
    peak = f"{limits.flops_per_second / 1e9:.0f} GFLOP/s in f32, " if limits.flops_per_second else ""
    facts = {
        "model": profile.model + (f" at {sizes}" if sizes else ""),
        "a call": f"{profile.call_seconds * 1e3:.4g} ms with {profile.threads} threads, the median of {profile.calls}",
        "recorded": f"{profile.recorded_seconds * 1e3:.4g} ms, {profile.accounted_share:.1%} of a call: "
        + ", ".join(
            f"{seconds * MICRO:.1f} us {name} ({profile.share_of_call(seconds):.1%})" for name, seconds in parts.items()
        ),
        "machine": f"{peak}{limits.bandwidths[0].bytes_per_second / 1e9:.1f} GB/s from caches, "
        f"{slowest.bytes_per_second / 1e9:.1f} GB/s from memory",
    }
    if profile.lost_records:
        facts["incomplete"] = f"{profile.lost_records} records had no room: times of kernels are too small"
    return facts


def _cells(kernel: KernelTime) -> tuple[str, ...]:
    return (
        f"{kernel.seconds * MICRO:.1f}",
        f"{kernel.share:.1%}",
        f"{kernel.kernel} {kernel.kind}" + (f" x{kernel.executions:g}" if kernel.executions != 1 else ""),
        kernel.algorithm,
        "" if kernel.flops_per_second is None else f"{kernel.flops_per_second / 1e9:.2f}",
        "" if kernel.bytes_per_second is None else f"{kernel.bytes_per_second / 1e9:.2f}",
        "" if kernel.roofline_share is None else f"{kernel.roofline_share:.0%}",
        kernel.bound or "",
        "; ".join(kernel.nodes),
    )
