"""`onnxc bench`: how fast a model runs here, alone or beside other runtimes, as a table or as JSON."""

import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
from rich.console import RenderableType

import onnxc
from onnxc.command_line.option_values import Range, Shape, parse_counts
from onnxc.command_line.progress import progress
from onnxc.command_line.random_inputs import complete_inputs
from onnxc.command_line.shared import (
    AS_JSON,
    CONFIG,
    DEVICES,
    DIM,
    INPUT,
    MODEL,
    PRECISION,
    SEED,
    SHAPE,
    TARGET,
    expect_known_names,
    fixed_sizes,
    is_artifact,
    print_parts,
    reporting_errors,
)
from onnxc.command_line.texts.tables import facts_table, seconds_text, table
from onnxc.measuring.bench import Bench, Load, Measurement, Subject, measure, open_cold
from onnxc.measuring.cold_start import CompileJob, compile_apart
from onnxc.measuring.runtimes import OTHERS, RUNTIMES, Feed, expect_installed
from onnxc.measuring.scenarios import MULTI_STREAM, OFFLINE, SCENARIOS, SERVER, SINGLE_STREAM
from onnxc.runtime.arrays import describe
from onnxc.runtime.thread_pool import available_threads
from onnxc.runtime.values import import_value

__all__ = ["bench_command", "bench_parts"]

FIGURES = ("median", "mean", "min", "p90", "p95", "p99")

ABOUT = {
    SINGLE_STREAM: "one caller, call after call",
    MULTI_STREAM: "callers at once, each call after call",
    OFFLINE: "all calls are there at the start",
    SERVER: "calls come at random; the highest rate at which 99 of 100 are answered in time",
}


@click.command("bench")
@MODEL
@INPUT
@TARGET
@DIM
@SHAPE
@PRECISION
@CONFIG
@DEVICES
@click.option("--vs", multiple=True, type=click.Choice(OTHERS), help="Measure this runtime beside; may be repeated.")
@click.option("--scenario", "scenarios", multiple=True, type=click.Choice(SCENARIOS), help="Default: all.")
@click.option("--threads", callback=parse_counts, metavar="1,2", help="Of a call. Default: 1, and all there are.")
@click.option("--callers", callback=parse_counts, metavar="2,4", help="Calls at a time. Default: twice the processors.")
@click.option(
    "--seconds", type=click.FloatRange(min=0.01), default=1.0, show_default=True, help="Of a scenario and runtime."
)
@click.option("--bound", type=click.FloatRange(min=0, min_open=True), metavar="MS", help="For an answer of a server.")
@SEED
@AS_JSON
@reporting_errors
def bench_command(
    model: Path,
    inputs: Mapping[str, object],
    target: str,
    dims: Mapping[str, Range],
    shapes: Mapping[str, Shape],
    precision: str,
    config: str | None,
    devices: str | None,
    vs: Sequence[str],
    scenarios: Sequence[str],
    threads: tuple[int, ...],
    callers: tuple[int, ...],
    seconds: float,
    bound: float | None,
    seed: int,
    *,
    as_json: bool,
) -> None:
    """Measure how fast MODEL runs on this machine.

    MODEL is an .onnx or .onnxc file; inputs that are not given are drawn as for `run`. Compiling, loading and the first
    call are measured in processes of their own, then calls in the scenarios that MLPerf made known. With --vs other
    runtimes take turns with onnxc, and their answers are compared: the exit code is 1 where they differ.
    """
    for name in vs:
        expect_installed(RUNTIMES[name])
    if vs and is_artifact(model):
        raise click.UsageError(f"--vs needs the .onnx file: {', '.join(vs)} cannot read {model.name}")
    counts = threads or tuple(sorted({1, available_threads()}))
    load = Load(
        tuple(scenarios) or SCENARIOS,
        counts,
        callers or (2 * available_threads(),),
        seconds,
        None if bound is None else bound / 1e3,
        seed,
        precision,
    )
    with tempfile.TemporaryDirectory(prefix="onnxc-bench-") as folder, progress(f"measuring {model.name}"):
        artifact = Path(folder) / "model.onnxc"
        job = CompileJob(str(model), str(artifact), target, dims, shapes, precision, config, devices)
        compile_seconds = _compiled(job, Path(folder))
        executable = onnxc.load(artifact)
        if compile_seconds is None:
            expect_known_names(executable.inputs, dims, shapes)
        feed = complete_inputs(executable.inputs, inputs, shapes, fixed_sizes(dims), seed)
        # What is wrong with inputs is found here, where it is an error of ours, before processes are started.
        executable.run(feed)
        given = {
            info.name: import_value(feed[info.name], info.text, info.name)
            for info in executable.inputs
            if info.name in feed
        }
        measured = _measured(model, artifact, compile_seconds, given, vs, load, Path(folder))
    if as_json:
        click.echo(json.dumps(measured.to_json(), indent=1, ensure_ascii=False))
    else:
        print_parts(bench_parts(measured))
    if not measured.is_same:
        raise SystemExit(1)


def _compiled(job: CompileJob, folder: Path) -> float | None:
    """The seconds that compiling took; None for what was compiled before, and is only copied."""
    if not is_artifact(Path(job.model)):
        return compile_apart(job, folder)
    if job.config is not None or job.devices is not None:
        raise click.UsageError("--config and --devices are for models; an artifact has its devices")
    shutil.copyfile(job.model, job.artifact)
    return None


def _measured(
    model: Path,
    artifact: Path,
    compile_seconds: float | None,
    feed: Feed,
    others: Sequence[str],
    load: Load,
    folder: Path,
) -> Bench:
    files = {"onnxc": artifact} | dict.fromkeys(others, model)
    most = max(load.threads)
    subjects = tuple(
        Subject(
            name,
            RUNTIMES[name].version,
            file,
            open_cold(name, file, feed, most, folder),
            compile_seconds if name == "onnxc" else None,
        )
        for name, file in files.items()
    )
    agreements, measurements = measure(subjects, feed, load)
    shown = {name: describe(value) for name, value in feed.items()}
    return Bench(
        str(model), shown, load.seed, _processor(), os.cpu_count() or 1, subjects, agreements, tuple(measurements)
    )


def _processor() -> str:
    """The processor's name, as Linux says it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def bench_parts(bench: Bench) -> Iterator[RenderableType]:
    """What was measured, and with which inputs; starts; whether answers agree; the scenarios."""
    inputs = ", ".join(f"{name} {text}" for name, text in bench.inputs.items())
    yield facts_table(
        {
            "model": bench.model,
            "inputs": f"{inputs or 'none'}; those not given are drawn with seed {bench.seed}",
            "machine": f"{bench.processor}, {bench.processors} processors",
        }
    )
    yield ""
    yield _starts(bench)
    for subject in bench.subjects:
        if subject.start.error:
            yield f"{subject.runtime} cannot run this model: {subject.start.error}"
    for name, each in bench.agreements.items():
        verdict = "the same answer" if each.is_same else "ANOTHER ANSWER"
        yield (
            f"{name} gives {verdict}: {each.output} differs by {each.difference:.2g} of its largest value, "
            f"{each.allowed:.0e} may be"
        )
    for scenario in SCENARIOS:
        made = [each for each in bench.measurements if each.scenario == scenario]
        if made:
            yield ""
            yield f"{scenario}: {ABOUT[scenario]}"
            yield _scenario(made)


def _starts(bench: Bench) -> RenderableType:
    starts = table("", "compile", "load", "first call", "peak memory", "of it before loading")
    for subject in bench.subjects:
        start = subject.start
        compiled = "" if subject.compile_seconds is None else seconds_text(subject.compile_seconds)
        figures = (seconds_text(start.load_seconds), seconds_text(start.first_call_seconds))
        memory = (f"{start.peak_bytes / 1e6:.0f} MB", f"{start.base_bytes / 1e6:.0f} MB")
        name = f"{subject.runtime} {subject.version}"
        starts.add_row(name, compiled, *(("", "", "", "") if start.error else (*figures, *memory)))
    return starts


def _scenario(made: Sequence[Measurement]) -> RenderableType:
    """A row for each runtime; where it is another, how many times as fast onnxc is."""
    rows = table("", "threads", "callers", "calls/s", *FIGURES, "calls", "onnxc is")
    ours = {(each.threads, each.callers): each for each in made if each.runtime == "onnxc"}
    for each in made:
        rows.add_row(
            each.runtime + ("" if each.bound_seconds is None else f" within {seconds_text(each.bound_seconds)}"),
            str(each.threads),
            str(each.callers),
            f"{each.calls_per_second:.4g}" if each.calls else "none",
            *("" if each.latency is None else seconds_text(getattr(each.latency, name)) for name in FIGURES),
            str(each.calls),
            _ratio(ours.get((each.threads, each.callers)), each),
        )
    return rows


def _ratio(ours: Measurement | None, theirs: Measurement) -> str:
    """By the medians of one caller, which a disturbance does not move; else by the calls in a second."""
    if ours is None or ours is theirs or not theirs.calls_per_second:
        return ""
    if ours.scenario == SINGLE_STREAM and ours.latency is not None and theirs.latency is not None:
        return f"{theirs.latency.median / ours.latency.median:.2f}x as fast"
    return f"{ours.calls_per_second / theirs.calls_per_second:.2f}x as fast"
