"""The commands. Each reads its options, calls the public interface, and prints; errors are printed as diagnostics.

Exit codes: 0 when all is well, 1 for an error of the model, the inputs or the device, 2 for wrong usage.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

import onnxc
from onnxc.command_line import describe
from onnxc.command_line.array_files import named_arrays, write_npz
from onnxc.command_line.bench import bench_command
from onnxc.command_line.diff import diff_command
from onnxc.command_line.doctor import doctor_command
from onnxc.command_line.option_values import Range, Shape, parse_choices
from onnxc.command_line.precision import precision_json, precision_parts
from onnxc.command_line.profile import profile_command
from onnxc.command_line.progress import progress
from onnxc.command_line.random_inputs import complete_inputs
from onnxc.command_line.reduce import reduce_command
from onnxc.command_line.report import report_parts
from onnxc.command_line.rewrite import REWRITING, write_model
from onnxc.command_line.schema import schema_command
from onnxc.command_line.serve import serve_command
from onnxc.command_line.shared import (
    ALLOW_LINKS,
    AS_JSON,
    CONFIG,
    DEVICES,
    DIM,
    DTYPE,
    INPUT,
    LIMIT,
    MODEL,
    OPERATORS,
    OPSET,
    PRECISION,
    SEED,
    SHAPE,
    TARGET,
    THREADS,
    fixed_sizes,
    is_artifact,
    open_model,
    print_parts,
    reporting_errors,
    write_page,
)
from onnxc.command_line.stage_text import text_of
from onnxc.command_line.train import train_command
from onnxc.compiler.back_ends import back_end
from onnxc.compiler.c_library import c_library, c_name, write_files
from onnxc.compiler.compile_for_devices import run_divided_stages
from onnxc.compiler.driver import STAGES, Noun, run_stages
from onnxc.compiler.frontend.custom.operators import CustomOperator
from onnxc.compiler.inspect_model import find_types
from onnxc.compiler.options import CompileOptions, make_options
from onnxc.compiler.passes.lower.precision_policy import STORED, Precision
from onnxc.compiler.precision_errors import layer_errors, output_errors
from onnxc.demo import ASCII_SHADES, SHADES, chosen, draw_digits, report_lines, run_demonstration
from onnxc.inspecting.pages import artifact_page, model_page
from onnxc.runtime.artifact import Artifact, write_artifact
from onnxc.runtime.device_choice import RANKS
from onnxc.runtime.load import read_artifact, verify_artifact
from onnxc.runtime.ranks.world import connect
from onnxc.runtime.values import import_value


def installed_version() -> str:
    try:
        return version("onnxc")
    except PackageNotFoundError:
        return "from a source tree"


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(installed_version(), prog_name="onnxc")
@click.option("--verbose", is_flag=True, help="Log what is being done; else only a terminal shows it.")
def main(verbose: bool) -> None:
    """Compiles ONNX models to native code, and runs them.

    \b
    onnxc demo                                     see it work
    onnxc compile model.onnx --dim batch=1..64     model.onnx becomes model.onnxc
    onnxc run model.onnxc                          a call on random inputs
    """


for command in (
    bench_command,
    diff_command,
    doctor_command,
    profile_command,
    reduce_command,
    schema_command,
    serve_command,
    train_command,
    *REWRITING,
):
    main.add_command(command)


@main.command("compile")
@MODEL
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Default: MODEL with .onnxc, and for a C library, which is a folder, MODEL with .c-library.",
)
@click.option(
    "--emit",
    type=click.Choice(["artifact", "c-library"]),
    default="artifact",
    show_default=True,
    help="c-library: a shared library for programs in C, without Python; for models that are native code alone.",
)
@click.option("--weights-file", is_flag=True, help="Of a C library: its weights in a file of their own.")
@TARGET
@DIM
@SHAPE
@DTYPE
@OPSET
@OPERATORS
@ALLOW_LINKS
@PRECISION
@click.option(
    "--specialize",
    multiple=True,
    callback=parse_choices,
    metavar="NAME=1,8",
    help="Sizes of a symbol that get kernels of their own; all others are served by the general ones.",
)
@CONFIG
@DEVICES
@click.option("--keep-params", is_flag=True, help="Initializers become inputs with a default.")
@click.option("--strict", is_flag=True, help="A shape that is declared otherwise than it is is an error.")
@click.option("--report", is_flag=True, help="Print kernels, bytes and what was declined.")
@click.option("--stop-after", type=click.Choice(STAGES), help="Print what this stage makes, and stop.")
@reporting_errors
def compile_command(
    model: Path,
    output: Path | None,
    emit: str,
    target: str,
    dims: Mapping[str, Range],
    shapes: Mapping[str, Shape],
    dtypes: Mapping[str, str] | str | None,
    opset: int | None,
    operators: tuple[CustomOperator, ...],
    precision: str,
    specialize: Mapping[str, list[int]],
    config: str | None,
    devices: str | None,
    *,
    allow_links: bool,
    weights_file: bool,
    keep_params: bool,
    strict: bool,
    report: bool,
    stop_after: str | None,
) -> None:
    """Compile MODEL into one file, or into a C library.

    The file holds native code, weights and signature. The code serves all sizes of the symbolic dimensions; --dim
    narrows them.
    """
    options = make_options(
        target,
        dims,
        shapes,
        dtypes,
        precision=precision,
        specialize=specialize,
        freeze_params=not keep_params,
        config=config,
        devices=devices,
        strict=strict,
        operators=operators,
        allow_links=allow_links,
        opset=opset,
    )
    if emit == "c-library":
        if config is not None:
            raise click.UsageError("--config is for artifacts; a C library runs on one device")
        if report or stop_after is not None:
            raise click.UsageError("--report and --stop-after are for artifacts")
        emit_c_library(model, options, output or model.with_suffix(".c-library"), weights_file=weights_file)
        return
    if weights_file:
        raise click.UsageError("--weights-file is for --emit c-library; an artifact is one file")
    if output is not None and output.is_dir():
        raise click.UsageError(f"{output} is a folder, expected a file")
    last = stop_after or STAGES[-1]
    if options.target.kind == "interpreter" and last in ("plan", "emit"):
        raise click.UsageError(f"there is nothing to {last} for the interpreter, which runs what `optimize` makes")
    started = time.perf_counter()
    noun = run_until(model, options, last)
    if stop_after is not None:
        write_text(text_of(noun), output)
        return
    assert isinstance(noun, Artifact), noun
    path = output or model.with_suffix(".onnxc")
    write_artifact(noun, path)
    if report:
        print_parts(report_parts(noun.report))
    click.echo(f"{path}: {path.stat().st_size / 1e6:.2f} MB in {time.perf_counter() - started:.2f} s")


@main.command("run")
@MODEL
@INPUT
@TARGET
@DIM
@SHAPE
@DTYPE
@OPSET
@OPERATORS
@ALLOW_LINKS
@PRECISION
@CONFIG
@DEVICES
@THREADS
@SEED
@click.option("--repeat", type=click.IntRange(min=1), help="Call this often, and print the median latency.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the outputs as .npz.")
@reporting_errors
def run_command(
    model: Path,
    inputs: Mapping[str, object],
    target: str,
    dims: Mapping[str, Range],
    shapes: Mapping[str, Shape],
    dtypes: Mapping[str, str] | str | None,
    opset: int | None,
    operators: tuple[CustomOperator, ...],
    precision: str,
    config: str | None,
    devices: str | None,
    threads: int | None,
    seed: int,
    repeat: int | None,
    output: Path | None,
    *,
    allow_links: bool,
) -> None:
    """Call MODEL, an .onnx or .onnxc file, once.

    Inputs that are not given are drawn at random; their symbolic sizes are what --dim NAME=8 says, or what the given
    inputs have, or 1. Of several processes, as mpirun starts them, the first one speaks for all.
    """
    executable = open_model(
        model,
        target,
        dims,
        shapes,
        precision,
        threads,
        dtypes,
        opset,
        config,
        devices,
        operators,
        allow_links=allow_links,
    )
    feed = complete_inputs(executable.inputs, inputs, shapes, fixed_sizes(dims), seed)
    results = executable.run(feed)
    seconds = [timed(lambda: executable.run(feed)) for _ in range(repeat or 0)]
    if not speaks_for_all(devices):
        return
    print_parts([describe.arrays_table(results)])
    if seconds:
        click.echo(f"median of {repeat} calls: {statistics.median(seconds) * 1e3:.4f} ms")
    if output is not None:
        write_npz(output, results)
        click.echo(f"{output}: {len(results)} arrays")


def speaks_for_all(devices: str | None) -> bool:
    """Whether this process is the first, or the only one, of those that run the devices."""
    return devices != RANKS or connect().rank == 0


@main.command("precision")
@MODEL
@click.option("--to", type=click.Choice(list(STORED)), required=True, help="The precision to look at.")
@INPUT
@TARGET
@DIM
@SHAPE
@THREADS
@click.option("--samples", type=click.IntRange(min=1), default=1, show_default=True, help="How many calls to compare.")
@SEED
@click.option("--layers", type=click.IntRange(min=0), default=0, help="Name as many nodes where the error grows most.")
@AS_JSON
@reporting_errors
def precision_command(
    model: Path,
    to: Precision,
    inputs: Mapping[str, object],
    target: str,
    dims: Mapping[str, Range],
    shapes: Mapping[str, Shape],
    threads: int | None,
    samples: int,
    seed: int,
    layers: int,
    *,
    as_json: bool,
) -> None:
    """Say what a lower precision costs MODEL.

    The model runs in fp32 and in the other precision on the given inputs, or on drawn ones as for `run`; the errors of
    each output are printed. --layers interprets both programs node by node, on the first sample.
    """
    with progress(f"compiling {model.name} twice"):
        both = [onnxc.compile(model, target, dims, shapes, precision=each, threads=threads) for each in ("fp32", to)]
    feeds = [complete_inputs(both[0].inputs, inputs, shapes, fixed_sizes(dims), seed + n) for n in range(samples)]
    outputs = output_errors(*([dict(named_arrays(each.run(feed))) for feed in feeds] for each in both))
    options = make_options("interpreter", dims, shapes, precision=to)
    given = {
        info.name: import_value(feeds[0][info.name], info.text, info.name)
        for info in both[0].inputs
        if info.name in feeds[0]
    }
    found = layer_errors(model, options, given)[:layers] if layers else ()
    if as_json:
        click.echo(precision_json(to, samples, outputs, found))
    else:
        print_parts(precision_parts(to, samples, outputs, found))


@main.command("check")
@MODEL
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list with an object for each finding.")
@LIMIT
@OPSET
@OPERATORS
@ALLOW_LINKS
@reporting_errors
def check_command(
    model: Path,
    limits: Mapping[str, int],
    opset: int | None,
    operators: tuple[CustomOperator, ...],
    *,
    as_json: bool,
    allow_links: bool,
) -> None:
    """Print every finding about MODEL.

    The exit code is 1 if one of them is an error.
    """
    findings = onnxc.check(model, limits, operators, allow_links, opset)
    if as_json:
        click.echo(json.dumps([finding.to_json() for finding in findings], indent=2, ensure_ascii=False))
    else:
        for finding in findings:
            click.echo(str(finding))
    errors = sum(finding.severity == "error" for finding in findings)
    click.echo(f"{model.name}: {errors} errors, {len(findings) - errors} warnings", err=True)
    if errors:
        raise SystemExit(1)


@main.command("infer")
@MODEL
@DIM
@SHAPE
@DTYPE
@LIMIT
@OPSET
@OPERATORS
@ALLOW_LINKS
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the annotated model.")
@click.option("--report", is_flag=True, help="Print only the values whose rank data decides, and why.")
@reporting_errors
def infer_command(
    model: Path,
    dims: Mapping[str, Range],
    shapes: Mapping[str, Shape],
    dtypes: Mapping[str, str] | str | None,
    limits: Mapping[str, int],
    opset: int | None,
    operators: tuple[CustomOperator, ...],
    output: Path | None,
    *,
    allow_links: bool,
    report: bool,
) -> None:
    """Print the type of every value of MODEL.

    That is its element type and its shape, in the names of the symbolic sizes. What lies within a graph of a node has
    the place of that graph before its name. Weights in files of their own stay there.
    """
    with progress(f"inferring {model.name}"):
        if output is not None:
            typed = onnxc.infer(model, dims, shapes, dtypes, operators, allow_links, limits, opset)
            write_model(typed, output, model)
        if output is not None and not report:
            return
        options = make_options(
            "interpreter",
            dims,
            shapes,
            dtypes,
            limits=limits,
            operators=operators,
            allow_links=allow_links,
            opset=opset,
        )
        types = find_types(model, options)
    for value in types.values:
        if not report or value.reason:
            click.echo(f"{value}\n  {value.reason}" if report else str(value))
    if report:
        ranked = sum(not value.reason for value in types.values)
        click.echo(f"{ranked} of {len(types.values)} values have a known rank")


@main.command("inspect")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with its graph instead.")
@reporting_errors
def inspect_command(file: Path, html: Path | None) -> None:
    """Say what is in a model or an artifact.

    FILE is an .onnx or .onnxc file; its signature, size, and operators or kernels are printed. --html writes a page
    to look at in a browser: graphs, types, weights and findings, or steps, launches and memory.
    """
    if html is not None:
        with progress(f"inspecting {file.name}"):
            page = artifact_page(file) if is_artifact(file) else model_page(file)
        write_page(html, page)
        click.echo(f"{html}: {html.stat().st_size / 1e3:.0f} kB")
        return
    print_parts(describe.artifact_parts(file) if is_artifact(file) else describe.model_parts(file))


@main.command("report")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON value.")
@reporting_errors
def report_command(file: Path, *, as_json: bool) -> None:
    """Say how a model was compiled.

    FILE is an .onnxc file. Of code for a GPU, its launches with what the cost model expects of them, its kernels, and
    every copy between host and device inside of a call are printed.
    """
    report = read_artifact(file).report
    if as_json:
        click.echo(json.dumps(report, indent=1, ensure_ascii=False))
    else:
        print_parts(report_parts(report))


@main.command("verify")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@reporting_errors
def verify_command(file: Path) -> None:
    """Say whether every byte of an artifact is what was written.

    FILE is an .onnxc file; all of it is read, weights included, and nothing is executed. The exit code is 1 if it is
    damaged. Who wrote it, this does not say.
    """
    digest = verify_artifact(file)
    click.echo(f"{file}: all {file.stat().st_size} bytes are what was written, sha256 {digest}")


@main.command("demo")
@TARGET
@THREADS
@reporting_errors
def demo_command(target: str, threads: int | None) -> None:
    """Read handwritten digits with a compiled model.

    The model comes with onnxc; its accuracy, size and speed are printed.
    """
    with progress("compiling digits.onnx"):
        found = run_demonstration(target, threads)
    shades = SHADES if (sys.stdout.encoding or "").lower().startswith("utf") else ASCII_SHADES
    click.echo("\n".join([*draw_digits(found, chosen(found), shades), "", *report_lines(found)]))


def run_until(model: Path, options: CompileOptions, last: str) -> Noun:
    """What the stage `last` makes of the model; the terminal shows which stage runs."""
    with progress(f"{model.name}: {STAGES[0]}") as say:
        end = back_end(options, lambda done, total: say(f"{model.name}: compiling", done, total))
        stages = run_stages if options.config is None else run_divided_stages
        for name, noun in stages(model, options, end):
            if name == last:
                return noun
            say(f"{model.name}: {STAGES[STAGES.index(name) + 1]}")
    raise AssertionError(f"there is no stage {last}")


def emit_c_library(model: Path, options: CompileOptions, folder: Path, *, weights_file: bool) -> None:
    """Writes the files of a C library that is named like the model, and says which."""
    started = time.perf_counter()
    with progress(f"compiling {model.name}"):
        files = c_library(model, options, c_name(model), weights_file=weights_file)
    write_files(files, folder)
    size = sum(map(len, files.values()))
    listed = ", ".join(files)
    click.echo(f"{folder}: {listed}, {size / 1e6:.2f} MB in {time.perf_counter() - started:.2f} s")


def timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def write_text(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text)
    else:
        output.write_text(text + "\n")
