"""A server in a process of its own, over a repository of small models."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnxc
from tests.support.models import model_from_text

ROOT = Path(__file__).parents[2]
DATATYPES = {
    "BOOL": "bool", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "INT8": "int8",
    "INT16": "int16", "INT32": "int32", "INT64": "int64", "FP16": "float16", "BF16": "bfloat16", "FP32": "float",
    "FP64": "double", "BYTES": "string",
}  # fmt: skip

HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'


def scaled(factor: int) -> str:
    """x: f32[batch, 4] -> y = factor * x: rows are independent."""
    return HEAD + (
        f"scaled (float[batch, 4] x) => (float[batch, 4] y) <float factor = {{{factor}}}> {{ y = Mul(x, factor) }}"
    )


def centred() -> str:
    """x: f32[batch, 4] -> y = x - mean of x along the batch: rows are not independent."""
    nodes = "axis = Constant<value_ints = [0]>() m = ReduceMean(x, axis) y = Sub(x, m)"
    return HEAD + f"centred (float[batch, 4] x) => (float[batch, 4] y) {{ {nodes} }}"


def every_type() -> str:
    """An input and an output of each type, equal."""
    inputs = ", ".join(f"{name}[N] {datatype}" for datatype, name in DATATYPES.items())
    outputs = ", ".join(f"{name}[N] {datatype}_out" for datatype, name in DATATYPES.items())
    nodes = " ".join(f"{datatype}_out = Identity({datatype})" for datatype in DATATYPES)
    return HEAD + f"types ({inputs}) => ({outputs}) {{ {nodes} }}"


def write_version(repository: Path, name: str, version: int, text: str) -> None:
    """Puts a version of a model into the repository, compiled here, which takes less time than where it is served."""
    folder = repository / name / str(version)
    folder.mkdir(parents=True, exist_ok=True)
    onnxc.compile(model_from_text(text), threads=1).save(folder / "model.onnxc")


def write_decoder(repository: Path, name: str, text: str) -> None:
    """Puts a model that generates into the repository."""
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    onnxc.compile_decoder(model_from_text(text), threads=1).save(folder / "model.onnxc")


@dataclass(frozen=True)
class LiveServer:
    """The ports of a server, its repository and its process."""

    http: str
    grpc: str
    metrics: str
    repository: Path
    process: "subprocess.Popen[str]"


@contextmanager
def live_server(repository: Path, cache: Path, options: Sequence[str] = ()) -> Iterator[LiveServer]:
    """A server that is ready; it is told to end at the end, and must do so without an error."""
    ports = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
    command = (sys.executable, "-m", "onnxc", "serve", str(repository), *ports, *options)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ONNXC_CACHE": str(cache)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            ports_found = re.fullmatch(r"https?://(\S+)  gRPC (\S+)  metrics (\S+)\n", line)
            assert ports_found is not None, line
            assert process.stdout.readline() == "ready\n"
            yield LiveServer(*ports_found.groups(), repository, process)
            process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()
