"""What long work shows: nothing in a pipe, a line for each stage with --verbose, a moving line on a terminal."""

import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from onnxc.command_line import progress
from onnxc.command_line.main import main
from tests.support.models import model_from_text

ROOT = Path(__file__).parents[2]
TEXT = '<ir_version: 10, opset_import: ["": 21]> m (float[N] x) => (float[N] y) { y = Abs (x) }'
STAGES = ("read", "check", "lower", "optimize", "plan", "emit")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.onnx"
    path.write_bytes(model_from_text(TEXT).SerializeToString())
    return path


def test_a_pipe_sees_nothing_but_results(model: Path) -> None:
    assert CliRunner().invoke(main, ["compile", str(model)]).stderr == ""


@pytest.mark.parametrize("ordinal", [0, 1, 2])
def test_verbose_logs_every_stage_with_its_time(ordinal: int, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the command, behind it, and behind its arguments; nothing is in the cache, which would have no stages."""
    monkeypatch.setenv("ONNXC_CACHE", str(model.parent / "cache"))
    arguments = ["compile", str(model)]
    arguments.insert(ordinal, "--verbose")
    result = CliRunner().invoke(main, arguments)
    lines = result.stderr.splitlines()
    stages = [match[1] for line in lines if (match := re.fullmatch(r"tiny\.onnx: (\w+), \d+ s", line))]
    assert tuple(stages) == STAGES


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((0, 0), "compiling, 12 s"),
        ((0, 112), "compiling: 0 of 112, 12 s"),
        ((37, 111), "compiling: 37 of 111, 12 s, about 20 s left"),
        ((112, 112), "compiling: 112 of 112, 12 s"),
    ],
)
def test_a_line_says_how_far_it_is_and_what_is_left(counts: tuple[int, int], expected: str) -> None:
    assert progress._line("compiling", *counts, 12.4, 10.0) == expected


def test_a_log_has_the_first_and_the_last_count_of_many(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_is_verbose", lambda: True)
    with progress.progress("begun") as say:
        for done in range(101):
            say("compiling", done, 100)
    lines = [line.partition(", ")[0] for line in capsys.readouterr().err.splitlines()]
    assert lines == ["begun", "compiling: 0 of 100", "compiling: 100 of 100"]


def test_a_terminal_shows_a_line_that_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(progress, "Console", lambda stderr: Console(file=shown, force_terminal=True, width=80))
    with progress.progress("reading") as say:
        say("compiling", 3, 4)
    assert "compiling: 3 of 4, 0 s, about 0 s left" in shown.getvalue()


def test_ctrl_c_ends_a_command_and_what_it_started_without_a_traceback(model: Path) -> None:
    # Where a shell has started the tests in the background, SIGINT is ignored.
    script = (
        "import signal, sys, time, onnxc.command_line.reduce as r\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from onnxc.command_line.main import main\n"
        "def wait(model, fails, job, attempts, say):\n"
        "    print(attempts._process.pid, flush=True)\n"
        "    time.sleep(60)\n"
        "r.reduce_model = wait\n"
        "sys.argv = ['onnxc', 'reduce', sys.argv[1], '--fails', 'x', '-o', 'out.onnx']\n"
        "main()\n"
    )
    command, environment = [sys.executable, "-c", script, str(model)], os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        assert running.stdout is not None
        child = int(running.stdout.readline())
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=30)
    assert (running.returncode, errors.strip()) == (1, "Aborted!")
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
