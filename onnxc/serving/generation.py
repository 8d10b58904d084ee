"""Generation: requests for tokens in Triton's form, and the answers to them, at once or one by one."""

import time
from collections.abc import Iterator, Mapping

import numpy as np

from onnxc.runtime.decoding.decoder import Decoder
from onnxc.runtime.decoding.sampling import SamplingOptions
from onnxc.runtime.errors import InputError
from onnxc.runtime.program import Binding, Symbol
from onnxc.runtime.records import record
from onnxc.runtime.signature import Signature, TensorInfo
from onnxc.serving.batching import Feed
from onnxc.serving.statistics import Durations, Statistics

__all__ = ["MOST_TOKENS", "GenerateRequest", "TokensFace", "read_generate_request"]

MOST_TOKENS = 32768
"""The most tokens of a sequence, also where the model has more positions: no client may take all memory."""

DEFAULT_NEW_TOKENS = 16

KNOWN = ("tokens", "max_new_tokens", "stop", "temperature", "top_k", "top_p", "repetition_penalty", "seed")
PASSED_OVER = ("id", "parameters", "stream")


@record
class GenerateRequest:
    """A request for the tokens behind a prompt."""

    prompt: list[int]
    max_new_tokens: int
    stop: list[int]
    options: SamplingOptions
    id: str

    def tokens(self, decoder: Decoder, statistics: Statistics) -> Iterator[int]:
        """The tokens, one by one, noted as one request. Raises InputError before the first."""
        sampler = decoder.sampler_with(self.options)
        tokens = decoder.generate_with(sampler, self.prompt, self.max_new_tokens, self.stop)
        return _noted(tokens, statistics)


def _noted(tokens: Iterator[int], statistics: Statistics) -> Iterator[int]:
    started = time.monotonic_ns()
    try:
        yield from tokens
    except Exception:
        statistics.failed(time.monotonic_ns() - started)
        raise
    took = Durations(0, time.monotonic_ns() - started, 0)
    statistics.executed(1, took)
    statistics.answered(1, took.infer_ns, 0, took)


def read_generate_request(request: Mapping[str, object]) -> GenerateRequest:
    """The request that a JSON object is: `tokens`, and parameters beside it or in `parameters`."""
    inner = request.get("parameters", {})
    if not isinstance(inner, dict):
        raise InputError("parameters is no object", code="malformed-request")
    values = {name: value for name, value in {**request, **inner}.items() if name not in PASSED_OVER}
    unknown = [name for name in values if name not in KNOWN]
    if unknown:
        message = f"{unknown[0][:100]!r} is no parameter; they are {', '.join(KNOWN)}"
        raise InputError(message, code="request-parameter")
    options = SamplingOptions(
        temperature=_float(values, "temperature", 0.0),
        top_k=_integer(values, "top_k", 0),
        top_p=_float(values, "top_p", 1.0),
        repetition_penalty=_float(values, "repetition_penalty", 1.0),
        seed=_integer(values, "seed", 0),
    )
    count = _integer(values, "max_new_tokens", DEFAULT_NEW_TOKENS)
    prompt, stop = (_integers(values, name) for name in ("tokens", "stop"))
    return GenerateRequest(prompt, count, stop, options, str(request.get("id", "")))


def _float(values: Mapping[str, object], name: str, default: float) -> float:
    value = values.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(name, value, "a number")
    return value


def _integer(values: Mapping[str, object], name: str, default: int) -> int:
    value = values.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(name, value, "an integer")
    return value


def _integers(values: Mapping[str, object], name: str) -> list[int]:
    """A list of integers; one alone stands for itself, and none for nothing."""
    value = values.get(name, [])
    items: list[object] = value if isinstance(value, list) else [value]
    integers = [item for item in items if type(item) is int and -(2**63) <= item < 2**63]
    if len(integers) != len(items):
        raise _wrong(name, value, "a list of integers")
    return integers


def _wrong(name: str, value: object, expected: str) -> InputError:
    return InputError(f"{name} is {value!r:.100}, expected {expected}", code="request-parameter")


class TokensFace:
    """A decoder behind the face of an executable: tokens of a prompt in, as many as are usual out, without a choice."""

    def __init__(self, decoder: Decoder) -> None:
        dtype = np.dtype(np.int64)
        self.inputs = (TensorInfo("tokens", dtype, ("count",), "i64[count]"),)
        self.outputs = (TensorInfo("generated", dtype, ("new",), "i64[new]"),)
        self.signature = Signature((Symbol("count", 1, None),), self.inputs, self.outputs, (Binding(0, 0, 0),), ())
        self._decoder = decoder

    def run(self, inputs: Feed, /) -> Mapping[str, object]:
        """The likeliest tokens behind the prompt."""
        tokens = self._decoder.generate(np.asarray(inputs["tokens"]), DEFAULT_NEW_TOKENS)
        return {"generated": np.array(list(tokens), np.int64)}
