"""The README and the documents are true: tables are current, Python runs, commands and options exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from onnxc.command_line.main import COMMANDS, load_command, main
from tests.support.coverage import README, with_table

ROOT = README.parent
DOCUMENTS = (README, *sorted((ROOT / "docs").glob("*.md")))


def test_the_table_of_what_works_is_current() -> None:
    text = README.read_text()
    assert with_table(text) == text, "run python -m tests.support.coverage"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_python_of_a_document_runs(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL)
    (tmp_path / "onnxc").symlink_to(ROOT / "onnxc")
    monkeypatch.chdir(tmp_path)
    expect_to_run(blocks, document)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_files_that_a_document_names_exist(document: Path) -> None:
    for name in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / name).exists(), f"{document.name} names {name}"
    for name in re.findall(r"`((?:compiler|runtime|onnxc|tests|docs|examples)/[\w/.]+)`", document.read_text()):
        assert (ROOT / name).exists(), f"{document.name} names {name}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_commands_of_a_document_exist_with_their_options(document: Path) -> None:
    for command in commands_in(document.read_text()):
        expect_known(command)


@pytest.mark.parametrize(
    "command",
    ["onnxc compil m.onnx", "onnxc run m.onnx --dims N=1", "onnxc run", "onnxc run m.onnx x", "onnxc check m --emit x"],
)
def test_a_command_that_there_is_not_is_noticed(command: str) -> None:
    (words,) = commands_in(f"```bash\n{command}\n```")
    with pytest.raises((click.UsageError, AssertionError)):
        expect_known(words)


def test_an_option_with_a_value_that_it_does_not_take_is_noticed() -> None:
    with pytest.raises(click.BadParameter):
        expect_known(["onnxc", "compile", "m.onnx", "--stop-after", "stage"])


def commands_in(text: str) -> Iterator[list[str]]:
    """The words of each call of onnxc in the shell blocks of a document; in console blocks, behind a prompt."""
    for language, block in re.findall(r"```(bash|sh|console)\n(.*?)```", text, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if language == "console" and not line.startswith("$ "):
                continue
            for part in re.split(r"&&|\||;", line.removeprefix("$ ")):
                words = shlex.split(part, comments=True)
                if words and Path(words[0]).name == "onnxc":
                    yield words


def expect_known(words: list[str]) -> None:
    """Raises click's UsageError, or fails, unless the command takes these arguments and options; runs nothing."""
    assert len(words) > 1, "a command is missing"
    if words[1] in ("--help", "--version"):
        return
    assert words[1] in COMMANDS, f"there is no command {words[1]}"
    command = load_command(words[1])
    # Commands remember what asks them for help, which the group says.
    context = click.Context(command, parent=click.Context(main, **main.context_settings))
    given, rest, _ = command.make_parser(context).parse_args(words[2:])
    assert not rest, f"{words[1]} does not take {rest}"
    for parameter in command.params:
        value = given.get(parameter.name)
        if parameter.value_is_missing(value):
            assert not isinstance(parameter, click.Argument) or not parameter.required, f"{parameter.name} is missing"
        elif isinstance(parameter.type, click.Choice):
            parameter.type_cast_value(context, value)


def expect_to_run(blocks: list[str], document: Path) -> None:
    """Runs the blocks one after another, as a reader would; what fails is raised."""
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(document), "exec"), names)
