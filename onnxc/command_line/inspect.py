"""`onnxc inspect`: what is in a model or an artifact, as tables or as a page."""

from pathlib import Path

import click

from onnxc.command_line.option_files import PLAIN_FILE
from onnxc.command_line.progress import progress
from onnxc.command_line.shared import is_artifact, print_parts, reporting_errors, write_page
from onnxc.command_line.texts import describe
from onnxc.inspecting.pages import artifact_page, model_page

__all__ = ["inspect_command"]


@click.command("inspect")
@click.argument("file", type=PLAIN_FILE)
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
