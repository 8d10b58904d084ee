"""Files that a command reads, as the types of its arguments and options."""

from pathlib import Path

import click

from onnxc.runtime.errors import MissingFileError, OnnxcError
from onnxc.runtime.files.plain_files import open_plain_file

__all__ = ["PLAIN_FILE"]


class _PlainFile(click.Path):
    """A path to a plain file. Where there is none, the command ends as it does for any error of onnxc."""

    def convert(self, value: object, option: click.Parameter | None, context: click.Context | None) -> Path:
        path = Path(super().convert(value, option, context))  # type: ignore[arg-type]
        try:
            open_plain_file(path, what="the file").close()
        except MissingFileError as problem:
            raise _Missing(str(problem)) from problem
        except OnnxcError as problem:
            raise _Refused(str(problem)) from problem
        return path


class _Refused(click.ClickException):
    """Says what onnxc says, without the usage of the command, which is not at fault."""

    def show(self, file: object = None) -> None:
        click.echo(self.message, err=True)


class _Missing(_Refused):
    """A path that leads nowhere, which has the exit code of wrong arguments."""

    exit_code = 2


PLAIN_FILE = _PlainFile(path_type=Path)
