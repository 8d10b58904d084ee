"""What `onnxc compile` does where the compiler has work: the stages one after the other, and C libraries."""

import time
from pathlib import Path

import click

from onnxc.command_line.progress import progress
from onnxc.command_line.texts.stage_text import text_of
from onnxc.compiler.back_ends import back_end
from onnxc.compiler.c_library import c_library, c_name, write_files
from onnxc.compiler.compile_for_devices import run_divided_stages
from onnxc.compiler.driver import Noun, run_stages
from onnxc.compiler.frontend.read import LoadedModel
from onnxc.compiler.options import CompileOptions
from onnxc.compiler.stage_names import STAGES

__all__ = ["emit_c_library", "run_until", "write_stage"]


def run_until(model: Path | LoadedModel, shown: str, options: CompileOptions, last: str) -> Noun:
    """What the stage `last` makes of the model; the terminal shows its name, and which stage runs."""
    with progress(f"{shown}: {STAGES[0]}") as say:
        end = back_end(options, lambda done, total: say(f"{shown}: compiling", done, total))
        stages = run_stages if options.config is None else run_divided_stages
        for name, noun in stages(model, options, end):
            if name == last:
                return noun
            say(f"{shown}: {STAGES[STAGES.index(name) + 1]}")
    raise AssertionError(f"there is no stage {last}")


def write_stage(model: Path, options: CompileOptions, last: str, output: Path | None) -> None:
    """Writes what the stage `last` makes of the model as a text, into a file or to the terminal."""
    text = text_of(run_until(model, model.name, options, last))
    if output is None:
        click.echo(text)
    else:
        output.write_text(text + "\n")


def emit_c_library(model: Path, options: CompileOptions, folder: Path, *, weights_file: bool) -> None:
    """Writes the files of a C library that is named like the model, and says which."""
    started = time.perf_counter()
    with progress(f"compiling {model.name}"):
        files = c_library(model, options, c_name(model), weights_file=weights_file)
    write_files(files, folder)
    size = sum(map(len, files.values()))
    listed = ", ".join(files)
    click.echo(f"{folder}: {listed}, {size / 1e6:.2f} MB in {time.perf_counter() - started:.2f} s")
