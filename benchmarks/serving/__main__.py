"""The commands; all answers are checked.

`python -m benchmarks.serving load --seconds 600`: 64 clients, a model that is replaced every 20 s, 5 % of the requests
malformed. `steady MODEL`: latencies at 70 % of what it can answer. `restart MODEL ...`: killed and started again.
`compare MODEL --sizes batch=1`: beside a plain server of ONNX Runtime. `added MODEL`: what a request of one client
takes beyond the call.
"""

import asyncio
import gc
import os
import random
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import grpc
import numpy as np
import onnxruntime

import onnxc
from benchmarks.serving.clients import METHOD, Asked, Outcome, percentile, run_clients
from benchmarks.serving.prepared_clients import run_prepared_clients
from benchmarks.serving.processes import Server, onnxc_server, plain_server
from onnxc.serving.proto.inference_pb2 import ModelInferRequest, ModelInferResponse

SCALED = """<ir_version: 10, opset_import: ["" : 21]>
scaled (float[batch, 64] x) => (float[batch, 64] y) <float factor = {%d}> { y = Mul(x, factor) }"""
VALUES = np.arange(64, dtype=np.float32)

Command = Callable[..., None]

CLIENTS = click.option("--clients", default=64)


@click.group()
def main() -> None:
    """Servers under load."""
    # To collect garbage among what is imported takes 12 to 17 ms, in which no answer is read: p99 of the clients
    gc.freeze()


@main.command()
@CLIENTS
@click.option("--seconds", default=60.0)
@click.option("--reload-every", default=20.0)
@click.option("--pause", default=0.0, help="Seconds between the requests of a client, in the mean.")
def load(clients: int, seconds: float, reload_every: float, pause: float) -> None:
    """Check every answer under load, reloads and malformed requests."""
    rng = random.Random(0)
    asked = [_ask_scaled(rng) for _ in range(4096)]
    with tempfile.TemporaryDirectory() as folder:
        repository, staged = Path(folder) / "repository", Path(folder) / "staged"
        # Compiled beforehand: it would keep the clients waiting, which are in this process.
        for version in range(1, int(seconds / reload_every) + 2):
            _write_scaled(staged, version)
        (repository / "scaled").mkdir(parents=True)
        (staged / "1").rename(repository / "scaled" / "1")
        with (
            onnxc_server(repository, 1, "--poll", "1") as server,
            _reloading(staged, repository, reload_every) as versions,
        ):
            run_prepared_clients(server.address, clients, 2.0, asked)
            processor = server.processor_seconds()
            with _sampled(server.resident_bytes, seconds / 10) as memory:
                outcome = run_prepared_clients(server.address, clients, seconds, asked, pause_s=pause)
            processor = server.processor_seconds() - processor
    _print(f"{clients} clients, {len(versions)} reloads", outcome, processor)
    click.echo(f"  lost {outcome.lost}, mixed up {outcome.mixed}, malformed and refused {outcome.refused}")
    click.echo(f"  memory in MB, at each tenth: {', '.join(f'{size / 1e6:.1f}' for size in memory)}")


@contextmanager
def _sampled(sample: Callable[[], int], every_s: float) -> Iterator[list[int]]:
    """What `sample` gives at the start, then every so many seconds."""
    samples = [sample()]
    with _repeated(lambda: samples.append(sample()), every_s):
        yield samples


@contextmanager
def _repeated(work: Callable[[], None], every_s: float) -> Iterator[None]:
    """Does the work every so many seconds, in a thread."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(every_s):
            work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _write_scaled(staged: Path, version: int) -> None:
    folder = staged / str(version)
    folder.mkdir(parents=True)
    onnxc.compile(onnxc.from_text(SCALED % version)).save(folder / "model.onnxc")


@contextmanager
def _reloading(staged: Path, repository: Path, every_s: float) -> Iterator[list[int]]:
    """The next staged version comes every so many seconds: v multiplies by v; the list grows by each."""
    versions = [1]

    def reload() -> None:
        coming = staged / str(versions[-1] + 1)
        if coming.exists():
            coming.rename(repository / "scaled" / coming.name)
            versions.append(versions[-1] + 1)

    with _repeated(reload, every_s):
        yield versions


def _ask_scaled(rng: random.Random) -> Asked:
    values = VALUES + rng.randrange(1 << 12)
    request = _request("scaled", {"x": values[None]})

    def is_answered(answer: ModelInferResponse) -> bool:
        return answer.raw_output_contents[0] == (values * np.float32(int(answer.model_version))).tobytes()

    if rng.random() >= 0.05:
        return Asked(request, is_answered)
    rng.choice((_cut, _renamed, _reshaped))(request)
    return Asked(request, is_answered, is_malformed=True)


def _cut(request: ModelInferRequest) -> None:
    request.raw_input_contents[0] = request.raw_input_contents[0][:-3]


def _renamed(request: ModelInferRequest) -> None:
    request.inputs[0].name = "nothing"


def _reshaped(request: ModelInferRequest) -> None:
    request.inputs[0].shape[1] = 1 << 40


def _request(model: str, feed: dict[str, np.ndarray]) -> ModelInferRequest:
    request = ModelInferRequest(model_name=model)
    for name, array in feed.items():
        request.inputs.add(name=name, datatype={"f": "FP32", "i": "INT64"}[array.dtype.kind], shape=array.shape)
        request.raw_input_contents.append(array.tobytes())
    return request


def of_a_model(command: Command) -> Command:
    """The command with the options of those that ask one model."""
    model = click.argument("model", type=click.Path(exists=True, path_type=Path))
    sizes = click.option("--sizes", default="", metavar="batch=1,sequence=16", help="Of symbols; 1 unless given.")
    seconds = click.option("--seconds", default=10.0)
    threads = click.option("--threads", default=1, help="Of a call.")
    return model(sizes(seconds(threads(command))))


@main.command()
@of_a_model
@CLIENTS
@click.option("--part", default=0.7, help="Of the capacity, which as many clients find that ask again at once.")
def steady(model: Path, sizes: str, clients: int, seconds: float, threads: int, part: float) -> None:
    """p99 against p50 where requests come at random at a part of the capacity."""
    asked = _asked(model, sizes)
    with (
        tempfile.TemporaryDirectory() as folder,
        onnxc_server(_repository(Path(folder), [model]), threads) as server,
    ):
        run_prepared_clients(server.address, clients, 2.0, asked)
        full = run_prepared_clients(server.address, clients, seconds, asked)
        _print(f"{clients} clients that ask again at once", full)
        calm = run_prepared_clients(server.address, clients, seconds, asked, part * full.rate)
    _print(f"{clients} clients, {part * full.rate:.0f} requests/s at random", calm)
    p50, p99 = (percentile(calm.latencies, quantile) for quantile in (0.5, 0.99))
    lost, mixed = full.lost + calm.lost, full.mixed + calm.mixed
    click.echo(
        f"  {calm.rate / full.rate:.0%} of the capacity, p99 = {p99 / p50:.2f} x p50, lost {lost}, mixed up {mixed}"
    )


@main.command()
@click.argument("models", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--times", default=5)
def restart(models: tuple[Path, ...], times: int) -> None:
    """Seconds from the start of a server to its being ready, after one with these models was killed."""
    with tempfile.TemporaryDirectory() as folder:
        repository = _repository(Path(folder) / "models", models)
        os.environ["ONNXC_CACHE"] = str(Path(folder) / "cache")
        for ordinal in range(times + 1):
            started = time.perf_counter()
            with onnxc_server(repository, 1) as server:
                took = time.perf_counter() - started
                os.kill(server.pid, signal.SIGKILL)
            click.echo(f"{'ready again' if ordinal else 'ready, nothing in the cache'}: {took:.2f} s")


@main.command()
@of_a_model
@click.option("--rounds", default=5, help="In which the server, the call and the empty server take turns.")
def added(model: Path, sizes: str, seconds: float, threads: int, rounds: int) -> None:
    """What a request of one client takes beyond the call itself, by gRPC; medians of rounds of medians."""
    asked = _asked(model, sizes)
    called = onnxc.compile(model, threads=threads)
    feeds = [_feed(one.request) for one in asked]
    unchecked = [Asked(one.request, lambda answer: True) for one in asked]
    with (
        tempfile.TemporaryDirectory() as folder,
        onnxc_server(_repository(Path(folder), [model]), threads) as server,
        plain_server(model, threads, "empty") as empty,
    ):
        took: dict[str, list[float]] = {"call": [], **{f"{name}, {kind}": [] for kind in ONE for name in SERVERS}}
        for _ in range(rounds):
            took["call"].append(statistics.median(_timed(called.run, feed) for _ in range(20) for feed in feeds))
            for kind, one_client in ONE.items():
                for name, running, requests in zip(SERVERS, (server, empty), (asked, unchecked), strict=True):
                    one_client(running.address, 0.2, requests)
                    took[f"{name}, {kind}"].append(one_client(running.address, seconds / rounds, requests))
    call = 1e6 * statistics.median(took["call"])
    click.echo(f"the call takes {call:.0f} us")
    for kind in ONE:
        ours, nothing = (1e6 * statistics.median(took[f"{name}, {kind}"]) for name in SERVERS)
        spread = ", ".join(f"{1e6 * each - call:.0f}" for each in sorted(took[f"{SERVERS[0]}, {kind}"]))
        click.echo(f"{kind}: a request takes {ours:.0f} us, so the server adds {ours - call:.0f} us (rounds: {spread})")
        click.echo(f"  grpc.server, which computes nothing, takes {nothing:.0f} us")


def _blocking(address: str, seconds: float, asked: Sequence[Asked]) -> float:
    """The median of the requests of one client that waits for each answer, as that of Triton does."""
    rng, latencies = random.Random(0), []
    with grpc.insecure_channel(address, (("grpc.use_local_subchannel_pool", 1),)) as channel:
        method = channel.unary_unary(METHOD, ModelInferRequest.SerializeToString, ModelInferResponse.FromString)
        last = time.perf_counter() + seconds
        while time.perf_counter() < last:
            one = rng.choice(asked)
            started = time.perf_counter()
            answer = method(one.request, timeout=60)
            latencies.append(time.perf_counter() - started)
            assert one.is_answered(answer)
    return statistics.median(latencies)


def _on_a_loop(address: str, seconds: float, asked: Sequence[Asked]) -> float:
    """As `_blocking`, with grpc.aio."""
    outcome = asyncio.run(run_clients(address, 1, seconds, lambda rng: rng.choice(asked)))
    assert not outcome.lost, outcome.lost
    assert not outcome.mixed, outcome.mixed
    return statistics.median(outcome.latencies)


ONE = {"a client that waits": _blocking, "a client of grpc.aio": _on_a_loop}
SERVERS = ("onnxc", "empty")


def _timed(call: Callable[[dict[str, np.ndarray]], object], feed: dict[str, np.ndarray]) -> float:
    started = time.perf_counter()
    call(feed)
    return time.perf_counter() - started


def _feed(request: ModelInferRequest) -> dict[str, np.ndarray]:
    return {
        tensor.name: np.frombuffer(data, {"FP32": np.float32, "INT64": np.int64}[tensor.datatype]).reshape(tensor.shape)
        for tensor, data in zip(request.inputs, request.raw_input_contents, strict=True)
    }


def _repository(folder: Path, models: Sequence[Path]) -> Path:
    """A repository of these models; the first is called `model`, the others by their files."""
    for ordinal, model in enumerate(models):
        version = folder / (model.stem if ordinal else "model") / "1"
        version.mkdir(parents=True)
        (version / "model.onnx").symlink_to(model.absolute())
    return folder


def _asked(model: Path, sizes: str) -> list[Asked]:
    """Requests with drawn inputs; `sizes` of symbols as `batch=1,sequence=16`."""
    named = {name: int(size) for name, _, size in (part.partition("=") for part in sizes.split(",") if part)}
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    symbols = {size for info in session.get_inputs() for size in info.shape if isinstance(size, str)}
    if not named.keys() <= symbols:
        raise click.BadParameter(f"{model.name} has the symbols {', '.join(sorted(symbols))}", param_hint="--sizes")
    return [_ask_model(session, named, seed) for seed in range(16)]


@main.command()
@of_a_model
@CLIENTS
def compare(model: Path, sizes: str, clients: int, seconds: float, threads: int) -> None:
    """Ours, ours without joined calls, the plain server of ONNX Runtime, and one that computes nothing, in turns."""
    asked = _asked(model, sizes)
    with tempfile.TemporaryDirectory() as folder:
        repositories = [_repository(Path(folder) / name, [model]) for name in ("joined", "single")]
        with (
            onnxc_server(repositories[0], threads) as joined,
            onnxc_server(repositories[1], threads, "--max-batch", "1") as single,
            plain_server(model, threads) as plain,
            plain_server(model, threads, "empty") as empty,
        ):
            servers = {"onnxc": joined, "onnxc, one request a call": single, "ONNX Runtime, plain": plain}
            unchecked = [Asked(one.request, lambda answer: True) for one in asked]
            for count in (1, clients):
                for name, server in servers.items():
                    _measure(f"{name}, {count} clients", server, asked, count, seconds)
                _measure(f"gRPC alone, {count} clients", empty, unchecked, count, seconds)


def _ask_model(session: onnxruntime.InferenceSession, sizes: dict[str, int], seed: int) -> Asked:
    """A request with drawn inputs; its answer is right if its first output is that of ONNX Runtime."""
    rng = np.random.default_rng(seed)
    feed = {}
    for info in session.get_inputs():
        shape = [size if isinstance(size, int) else sizes.get(size, 1) for size in info.shape]
        is_float = info.type == "tensor(float)"
        feed[info.name] = rng.standard_normal(shape, np.float32) if is_float else rng.integers(0, 2, shape)
    expected = session.run(None, feed)[0]
    most = 1e-3 * (1 + np.abs(expected))

    def is_answered(answer: ModelInferResponse) -> bool:
        actual = np.frombuffer(answer.raw_output_contents[0], np.float32).reshape(expected.shape)
        # As np.allclose says it, which takes the client 20 us.
        return bool((np.abs(actual - expected) <= most).all())

    return Asked(_request("model", feed), is_answered)


def _measure(name: str, server: Server, asked: Sequence[Asked], clients: int, seconds: float) -> None:
    run_prepared_clients(server.address, clients, 1.0, asked)
    processor = server.processor_seconds()
    outcome = run_prepared_clients(server.address, clients, seconds, asked)
    _print(name, outcome, server.processor_seconds() - processor)
    assert not outcome.lost, outcome.lost
    assert not outcome.mixed, outcome.mixed
    time.sleep(0.2)


def _print(name: str, outcome: Outcome, processor: float | None = None) -> None:
    p50, p99 = (percentile(outcome.latencies, part) for part in (0.5, 0.99))
    each = "" if processor is None else f", {1e6 * processor / max(len(outcome.latencies), 1):.0f} us of processor each"
    click.echo(f"{name}: {outcome.rate:.0f} requests/s, p50 {p50:.2f} ms, p99 {p99:.2f} ms{each}")


if __name__ == "__main__":
    main()
