"""The command that serves: what it makes of the process before it does."""

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from onnxc.command_line.serve import LOCK_S, serve_command
from onnxc.serving import server


@pytest.fixture
def own_process() -> Iterator[None]:
    """What the command changes for its process is as it was again."""
    interval = sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)
    gc.unfreeze()


@pytest.mark.usefixtures("own_process")
def test_threads_that_load_give_way_to_those_that_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    intervals: list[float] = []

    def serve(service: object, options: object, started: Callable[..., None], ready: Callable[[], None]) -> None:
        intervals.append(sys.getswitchinterval())
        ready()

    monkeypatch.setattr(server, "serve", serve)
    result = CliRunner().invoke(serve_command, [str(tmp_path)])
    assert (result.exit_code, result.output) == (0, "ready\n")
    assert intervals == [pytest.approx(LOCK_S)]
