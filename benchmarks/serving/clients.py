"""Many gRPC clients in one process, each asking again when its answer is there; every answer is checked."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import grpc

from onnxc.serving.proto.inference_pb2 import ModelInferRequest, ModelInferResponse

__all__ = ["METHOD", "Asked", "Outcome", "percentile", "run_clients"]

METHOD = "/inference.GRPCInferenceService/ModelInfer"


@dataclass(frozen=True)
class Asked:
    """A request, and whether an answer is that to it; a malformed one wants an error."""

    request: ModelInferRequest
    is_answered: Callable[[ModelInferResponse], bool]
    is_malformed: bool = False


@dataclass
class Outcome:
    """latencies: of requests that were answered rightly, in seconds. lost: errors where there should be none.

    mixed: wrong answers, and answers to what is malformed. refused: malformed requests that had their error.
    """

    latencies: list[float] = field(default_factory=list)
    lost: int = 0
    mixed: int = 0
    refused: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Answers in a second."""
        return len(self.latencies) / self.seconds


def percentile(latencies: Sequence[float], part: float) -> float:
    """What this part of the latencies does not exceed, in milliseconds."""
    ordered = sorted(latencies)
    return 1e3 * ordered[min(int(part * len(ordered)), len(ordered) - 1)]


async def run_clients(
    address: str, clients: int, seconds: float, ask: Callable[[random.Random], Asked], pause_s: float = 0.0
) -> Outcome:
    """What becomes of the requests of so many clients; pause_s: the mean of a client's pauses between them."""
    outcome = Outcome()
    last = time.perf_counter() + seconds
    started = time.perf_counter()
    await asyncio.gather(*(_client(address, last, random.Random(i), ask, pause_s, outcome) for i in range(clients)))
    outcome.seconds = time.perf_counter() - started
    return outcome


async def _client(
    address: str, last: float, rng: random.Random, ask: Callable[[random.Random], Asked], pause_s: float, to: Outcome
) -> None:
    options = (("grpc.use_local_subchannel_pool", 1),)
    async with grpc.aio.insecure_channel(address, options) as channel:
        method = channel.unary_unary(METHOD, ModelInferRequest.SerializeToString, ModelInferResponse.FromString)
        while time.perf_counter() < last:
            if pause_s:
                await asyncio.sleep(rng.expovariate(1 / pause_s))
            await _one(method, ask(rng), to)


async def _one(
    method: "grpc.aio.UnaryUnaryMultiCallable[ModelInferRequest, ModelInferResponse]", asked: Asked, to: Outcome
) -> None:
    started = time.perf_counter()
    try:
        answer = await method(asked.request, timeout=60)
    except grpc.aio.AioRpcError as problem:
        is_refused = asked.is_malformed and problem.code() == grpc.StatusCode.INVALID_ARGUMENT
        to.refused += is_refused
        to.lost += not is_refused
        return
    took = time.perf_counter() - started
    if asked.is_malformed or not asked.is_answered(answer):
        to.mixed += 1
        return
    to.latencies.append(took)
