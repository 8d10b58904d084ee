"""`onnxc demo`: handwritten digits, read by a compiled model."""

import sys

import click

from onnxc.command_line.progress import progress
from onnxc.command_line.shared import TARGET, THREADS, reporting_errors
from onnxc.demo import ASCII_SHADES, SHADES, chosen, draw_digits, report_lines, run_demonstration

__all__ = ["demo_command"]


@click.command("demo")
@TARGET
@THREADS
@reporting_errors
def demo_command(target: str, threads: int | None) -> None:
    """Read handwritten digits with a compiled model.

    The model comes with onnxc; its accuracy, size and speed are printed.
    """
    with progress("compiling digits.onnx"):
        outcome = run_demonstration(target, threads)
    shades = SHADES if (sys.stdout.encoding or "").lower().startswith("utf") else ASCII_SHADES
    click.echo("\n".join([*draw_digits(outcome, chosen(outcome), shades), "", *report_lines(outcome)]))
