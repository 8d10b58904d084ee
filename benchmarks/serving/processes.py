"""Servers in processes of their own: ours and the plain one."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Server", "onnxc_server", "plain_server"]

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Server:
    """The address of a server for gRPC, and its process."""

    address: str
    pid: int

    def processor_seconds(self) -> float:
        """The processor time that it has taken."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def resident_bytes(self) -> int:
        """The memory that it has."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def onnxc_server(repository: Path, threads: int, *options: str) -> Iterator[Server]:
    """`onnxc serve` on free ports, ready."""
    ports = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", "--threads", str(threads))
    command = (sys.executable, "-m", "onnxc", "serve", str(repository), *ports, *options)
    with _process(command) as process:
        assert process.stdout is not None
        match = re.search(r"gRPC (\S+)", process.stdout.readline())
        assert match is not None
        assert process.stdout.readline() == "ready\n"
        yield Server(match[1], process.pid)


@contextmanager
def plain_server(model: Path, threads: int, *options: str) -> Iterator[Server]:
    """The plain server of ONNX Runtime."""
    module = "benchmarks.serving.onnxruntime_server"
    with _process((sys.executable, "-m", module, str(model), str(threads), *options)) as process:
        assert process.stdout is not None
        yield Server(f"127.0.0.1:{int(process.stdout.readline())}", process.pid)


@contextmanager
def _process(command: tuple[str, ...]) -> "Iterator[subprocess.Popen[str]]":
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)
