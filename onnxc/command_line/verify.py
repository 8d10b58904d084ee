"""`onnxc verify`: whether an artifact is what was written."""

from pathlib import Path

import click

from onnxc.command_line.option_files import PLAIN_FILE
from onnxc.command_line.shared import reporting_errors
from onnxc.runtime.load import verify_artifact

__all__ = ["verify_command"]


@click.command("verify")
@click.argument("file", type=PLAIN_FILE)
@reporting_errors
def verify_command(file: Path) -> None:
    """Say whether every byte of an artifact is what was written.

    FILE is an .onnxc file; all of it is read, weights included, and nothing is executed. The exit code is 1 if it is
    damaged. Who wrote it, this does not say.
    """
    digest = verify_artifact(file)
    click.echo(f"{file}: all {file.stat().st_size} bytes are what was written, sha256 {digest}")
