"""`onnxc serve`: a folder of models, over HTTP and gRPC."""

import gc
import importlib
import logging
import os
import sys
from pathlib import Path
from types import ModuleType

import click

from onnxc.command_line.shared import THREADS, reporting_errors
from onnxc.runtime.errors import DeviceError

__all__ = ["serve_command"]

PORT = click.IntRange(0, 65535)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
TOKEN_VARIABLE = "ONNXC_SERVE_TOKEN"
GRPC_VARIABLE, GRPC_EXPERIMENTS = "GRPC_EXPERIMENTS", "-event_engine_listener"
"""What gRPC's core reads when it is loaded: the thread that waits for calls is to read the sockets itself.

Unless told so it has threads of its own read them and wake that one.
"""

LOCK_S = 5e-4
"""For how long a thread that loads a model, or looks through the repository, may keep Python's lock from those that
answer; by default 5 ms, for which all requests wait. With a reload every 5 s and 64 clients at 66 % of the capacity
1 % of the requests took 1.9 and 2.9 ms or more, and take 1.1 to 1.6; with 0.1 ms 1.6 and 2.0 (two virtual cores of
Zen 5, the server and its clients under a scheduler of real time).
"""


def expect_repository(_context: click.Context, _option: click.Parameter, path: Path) -> Path:
    """The folder of models. Raises click.BadParameter for a file, with the commands that make a folder of it."""
    if path.is_file():
        version = f"models/{path.stem}/1"
        shown = f"mkdir -p {version} && cp {path} {version}/model{path.suffix} && onnxc serve models"
        raise click.BadParameter(f"{str(path)!r} is a file, not a folder of models: {shown}")
    return path


@click.command("serve")
@click.argument("repository", type=click.Path(exists=True, path_type=Path), callback=expect_repository)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--http-port", type=PORT, default=8000, show_default=True, help="0 for any free one.")
@click.option("--grpc-port", type=PORT, default=8001, show_default=True)
@click.option("--metrics-port", type=PORT, default=8002, show_default=True, help="/metrics is at the HTTP port too.")
@click.option("--token-file", type=FILE, help=f"The bearer token that requests must have. Default: ${TOKEN_VARIABLE}.")
@click.option("--tls-cert", type=FILE, help="The certificate, in PEM; for all ports.")
@click.option("--tls-key", type=FILE, help="Its key, in PEM.")
@click.option("--poll", type=click.FloatRange(min=0), default=0, help="Look for changed models every so many seconds.")
@click.option("--max-batch", type=click.IntRange(min=1), default=64, show_default=True, help="Rows of a joined call.")
@click.option("--max-queue", type=click.IntRange(min=0), default=64, show_default=True, help="Of a model, waiting.")
@click.option("--max-requests", type=click.IntRange(min=1), default=128, show_default=True, help="Of all, at a time.")
@click.option("--max-body", type=click.IntRange(min=1), default=64, show_default=True, help="MiB of a request.")
@click.option("--grace", type=click.FloatRange(min=0), default=30, show_default=True, help="Seconds, when it ends.")
@THREADS
@reporting_errors
def serve_command(
    repository: Path,
    host: str,
    http_port: int,
    grpc_port: int,
    metrics_port: int,
    token_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    poll: float,
    max_batch: int,
    max_queue: int,
    max_requests: int,
    max_body: int,
    grace: float,
    threads: int | None,
) -> None:
    """Serve the models of a folder over the Open Inference Protocol V2.

    REPOSITORY has a folder for each model, with folders 1, 2, ... in it for its versions, each with a model.onnx or
    model.onnxc. The clients of Triton and KServe can call it; a page to look at is at the HTTP port. The models are
    native code or become it: serve only what you trust.
    """
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key go together")
    os.environ.setdefault(GRPC_VARIABLE, GRPC_EXPERIMENTS)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    registry, served, repositories, services, servers = map(
        _serving, ("model_registry", "served_model", "repository", "service", "server")
    )
    limits = served.ServingLimits(max_batch, max_queue, threads)
    service = services.Service(
        registry.ModelRegistry(repositories.Repository(repository), limits),
        token=_token(token_file),
        max_body=max_body << 20,
        max_requests=max_requests,
    )
    options = servers.ServerOptions(host, http_port, grpc_port, metrics_port, tls_cert, tls_key, poll, grace)
    scheme = "http" if tls_cert is None else "https"

    def started(ports: object) -> None:
        ready = {name: getattr(ports, name) for name in ("http", "grpc", "metrics")}
        click.echo(f"{scheme}://{host}:{ready['http']}  gRPC {host}:{ready['grpc']}  metrics {host}:{ready['metrics']}")

    # What has been imported stays, so that the collector need not look at it: a request of 64 clients of mnist_cnn
    # takes 148 us of the processor in place of 159. Models are loaded later, as they go again.
    gc.freeze()
    sys.setswitchinterval(LOCK_S)
    servers.serve(service, options, started, lambda: click.echo("ready"))


def _serving(name: str) -> ModuleType:
    """A module of the server; its libraries are an extra, and only serving loads them."""
    try:
        return importlib.import_module(f"onnxc.serving.{name}")
    except ModuleNotFoundError as problem:
        message = f"{problem.name} is not installed; pip install 'onnxc[serve]'"
        raise DeviceError(message, code="library-missing") from problem


def _token(file: Path | None) -> str:
    return os.environ.get(TOKEN_VARIABLE, "") if file is None else file.read_text().strip()
