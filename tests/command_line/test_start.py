"""What starts without the compiler: commands of artifacts, help, and the server, in processes that lack modules."""

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import get_args

import click
import pytest
from click.shell_completion import BashComplete

import onnxc
from onnxc.command_line.main import COMMANDS, load_command, main
from onnxc.command_line.shared import PRECISIONS
from onnxc.compiler.passes.lower.precision_policy import Precision

ROOT = Path(onnxc.__file__).parents[1]
COMPILER = ("onnxc.compiler", "llvmlite", "onnx", "triton")
OTHERS = (*COMPILER, "starlette", "uvicorn", "grpc", "google", "asyncio")

WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(",")))  # importing one is now an error
from onnxc.command_line.main import main
main(prog_name="onnxc")
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the server: a model, compiled."""
    folder = tmp_path_factory.mktemp("repository")
    path = folder / "digits" / "1" / "model.onnxc"
    path.parent.mkdir(parents=True)
    onnxc.compile((files("onnxc") / "data" / "digits.onnx").read_bytes()).save(path)
    return folder


def started(absent: Sequence[str], *arguments: object) -> "subprocess.Popen[str]":
    """The command line in a process that lacks these modules."""
    command = (sys.executable, "-c", WITHOUT, ",".join(absent), *map(str, arguments))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=environment)


@pytest.mark.parametrize(
    ("arguments", "absent", "expected"),
    [
        (["--help"], (*OTHERS, "numpy", "rich"), r"(?s)Usage: .*  serve +Serve the models of a folder over "),
        (["--version"], (*OTHERS, "numpy", "rich"), r"onnxc, version \S+\n"),
        (["run", "ARTIFACT"], (*OTHERS, "onnxc.runtime.host"), r"(?s)output.*\n\S+ +float32\[1, 10\]"),
        (["verify", "ARTIFACT"], (*OTHERS, "onnxc.runtime.host"), r".*: all \d+ bytes are what was "),
    ],
    ids=["help", "version", "run", "verify"],
)  # fmt: skip
def test_what_needs_no_compiler_starts_without_it(
    arguments: list[str], absent: Sequence[str], expected: str, repository: Path
) -> None:
    artifact = str(repository / "digits" / "1" / "model.onnxc")
    with started(absent, *(argument.replace("ARTIFACT", artifact) for argument in arguments)) as process:
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert re.match(expected, output), output


def test_artifacts_are_served_without_the_compiler(repository: Path) -> None:
    ports = ("--http-port", 0, "--grpc-port", 0, "--metrics-port", 0)
    with started(COMPILER, "serve", repository, *ports) as process:
        try:
            assert process.stdout is not None
            lines = list(takewhile(lambda line: line != "ready\n", process.stdout))
            address = re.search(r"http://(\S+)  gRPC", "".join(lines))
            assert address is not None, lines
            with urllib.request.urlopen(f"http://{address[1]}/v2/models/digits/ready") as answer:
                assert answer.status == 200
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_help_of_each(name: str) -> None:
    command = load_command(name)
    assert command.name == name
    assert (command.help or "").partition("\n\n")[0].strip() == COMMANDS[name][1]


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [([], "ver", ["verify"]), (["verify"], "--h", ["--help"]), (["run", "m.onnx"], "--th", ["--threads"])],
)
def test_names_and_options_are_completed(words: list[str], incomplete: str, expected: list[str]) -> None:
    completed = BashComplete(main, {}, "onnxc", "_ONNXC_COMPLETE").get_completions(words, incomplete)
    assert [item.value for item in completed] == expected


def test_an_unknown_command_is_an_error_of_usage() -> None:
    with pytest.raises(click.UsageError, match="No such command 'main'"):
        main(["main"], standalone_mode=False)


def test_the_precisions_are_those_of_the_compiler() -> None:
    assert get_args(Precision) == PRECISIONS
