"""One version of a model, loaded and warm: what it takes and gives, and its answers."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from onnxc.runtime.decoding.decoder import Decoder
from onnxc.runtime.decoding.load_decoder import make_decoder
from onnxc.runtime.devices.shards import Shards
from onnxc.runtime.dtypes import STRING
from onnxc.runtime.errors import InputError, OnnxcError
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import DECODER, make_executable, read_artifact, signature_of, verify_artifact
from onnxc.runtime.program import Symbol, compile_sizes
from onnxc.runtime.records import record
from onnxc.runtime.signature import Signature, TensorInfo
from onnxc.serving.batching import Asker, Batcher, BatchingRules, Done, Feed, Request, Shapes
from onnxc.serving.compile_apart import GENERATES, compiled_model
from onnxc.serving.datatypes import datatype_of
from onnxc.serving.generation import MOST_TOKENS, TokensFace
from onnxc.serving.model_config import Configuration
from onnxc.serving.statistics import Statistics

__all__ = ["PLATFORM", "ServedModel", "ServingLimits", "WireTensor", "open_version"]

PLATFORM = "onnxc"


@record
class ServingLimits:
    """What holds for all models that say nothing else: rows of a joined call, requests that wait, threads of a call."""

    max_rows: int = 64
    max_queue: int = 64
    threads: int | None = None


class WireTensor(NamedTuple):
    """A tensor as it came: its datatype is what the client said."""

    datatype: str
    array: np.ndarray


class Callee(Protocol):
    """What answers calls: an executable, or a decoder behind the face of one."""

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """The inputs in order."""

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """The outputs in order."""

    def run(self, inputs: Feed, /) -> Mapping[str, object]:
        """The outputs by name for inputs by name."""


class ServedModel:
    """A version of a model. `batch` is the symbol along which its requests may be joined, empty if they may not.

    decoder: what generates, for a model that does.
    """

    def __init__(
        self,
        name: str,
        version: int,
        executable: Callee,
        signature: Signature,
        batch: str,
        configuration: Configuration,
        limits: ServingLimits,
        decoder: Decoder | None = None,
    ) -> None:
        self.name, self.version, self.batch, self.decoder = name, version, batch, decoder
        self.inputs, self.outputs = executable.inputs, executable.outputs
        self.configuration, self.statistics = configuration, Statistics()
        self._executable, self._signature = executable, signature
        self._datatypes = {info.name: datatype_of(info) for info in (*self.inputs, *self.outputs)}
        self._infos = {info.name: info for info in self.inputs}
        self._needed = {info.name for info in self.inputs if not info.optional}
        self.rules = _rules(configuration, limits, _most_rows(batch, signature.symbols, limits))
        begin = executable.begin_calls() if isinstance(executable, Executable) else None
        self.batcher = Batcher(self._call, self.rules, self.statistics, begin)

    def datatype(self, name: str) -> str:
        """The protocol's name of the type of an input or output."""
        return self._datatypes[name]

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        return tuple(info.name for info in self.outputs)

    async def infer(self, tensors: Mapping[str, WireTensor], timeout_ns: int = 0) -> Feed:
        """Every output for the inputs of a request; one of `timeout_ns` 0 has the deadline that the model gives it."""
        return await self.batcher.infer(self._request(tensors, timeout_ns))

    def submit(
        self, tensors: Mapping[str, WireTensor], timeout_ns: int, done: Done, asker: Asker
    ) -> Callable[[], bool]:
        """As `infer`, but `done` is given the outputs or the error. Gives what withdraws the request."""
        request = self._request(tensors, timeout_ns)
        request.done = done
        self.batcher.submit(request, asker)
        return partial(self.batcher.withdraw, request)

    def _request(self, tensors: Mapping[str, WireTensor], timeout_ns: int) -> Request:
        feed = {name: self._checked(name, tensor) for name, tensor in tensors.items()}
        if not self._needed <= feed.keys():
            missing = [info.name for info in self.inputs if info.name in self._needed - feed.keys()]
            raise InputError(f"input {', '.join(missing)} is missing", code="missing-input")
        shapes = tuple([(info.name, feed[info.name].shape) for info in self.inputs if info.name in feed])
        request = Request(feed, *self._joined(shapes), shapes)
        timeout_ns = timeout_ns or self.rules.timeout_ns
        request.deadline_ns = request.arrived_ns + timeout_ns if timeout_ns else 0
        return request

    def _checked(self, name: str, tensor: WireTensor) -> np.ndarray:
        info = self._infos.get(name)
        if info is None:
            raise InputError(f"there is no input {name!r}; they are {', '.join(self._infos)}", code="unknown-input")
        if tensor.datatype != self._datatypes[name]:
            message = f'input "{name}" is {self._datatypes[name]}, {tensor.datatype} came'
            raise InputError(message, code="input-dtype")
        assert info.dtype is not None, info
        if info.dtype == tensor.array.dtype:
            return tensor.array
        return tensor.array.view(info.dtype)

    def _joined(self, shapes: Shapes) -> tuple[int, Shapes | None]:
        """The rows of a request, and what requests have in common that may be one call."""
        if not self.batch or not all(shape for _, shape in shapes):
            return 1, None
        rows = {shape[0] for _, shape in shapes}
        if len(rows) != 1 or not 0 < min(rows) < self.rules.max_rows:
            return max(rows, default=1), None
        return rows.pop(), tuple([(name, shape[1:]) for name, shape in shapes])

    def _call(self, feed: Feed) -> Feed:
        outputs = self._executable.run(dict(feed))
        whole = {name: value.whole() if isinstance(value, Shards) else value for name, value in outputs.items()}
        return {name: array for name, array in whole.items() if isinstance(array, np.ndarray)}

    def warm_up(self) -> OnnxcError | MemoryError | None:
        """Calls the model once at its smallest sizes, and joined; what it says where it does not like zeros."""
        sizes = [max(symbol.low, 1) for symbol in self._signature.symbols]
        names = [symbol.name for symbol in self._signature.symbols]
        try:
            for rows in {1, min(2, self.rules.max_rows)}:
                if self.batch:
                    sizes[names.index(self.batch)] = rows
                self._call(_zeros(self._signature, sizes))
        except (OnnxcError, MemoryError) as problem:
            return problem
        return None

    def rehearse(self, before: "ServedModel") -> None:
        """Makes calls like those of the version before, shortest first, so that their times are known when it is asked.

        With none known, the first calls go to threads and take all that waits: of 12,000 requests a second those of 80
        ms were slow. Calls that take zeros for an error, or that this version has no inputs for, are left out.
        """
        left_ns = float(_LONGEST_REHEARSAL_NS)
        for call in before.batcher.known_calls():
            left_ns -= call.ns
            if left_ns < 0:
                return
            rows = min(call.rows, self.rules.max_rows)
            shapes = call.shapes(rows)
            if not self._needed <= shapes.keys() <= self._infos.keys():
                continue
            feed = {name: _zeros_of(self._infos[name], shape) for name, shape in shapes.items()}
            with suppress(OnnxcError, MemoryError):
                self.batcher.rehearse(call.kind, rows, feed)


_LONGEST_REHEARSAL_NS = 200_000_000
"""By the times of the version before; a reload is to be short, and what is seldom asked is learned when it is."""

_LONGEST_DELAY_NS, _LONGEST_TIMEOUT_NS = 60 * 10**9, 365 * 24 * 3600 * 10**9
"""Of a configuration: a call that waits longer for others serves nobody, and what locks can wait for is bounded."""


def _rules(configuration: Configuration, limits: ServingLimits, most_rows: int) -> BatchingRules:
    batching = configuration.message.dynamic_batching
    policy = batching.default_queue_policy
    stated = configuration.message.max_batch_size
    return BatchingRules(
        max_rows=min(most_rows, stated if stated > 0 else most_rows) if configuration.may_batch else 1,
        delay_ns=min(batching.max_queue_delay_microseconds * 1000, _LONGEST_DELAY_NS),
        max_queue=policy.max_queue_size or limits.max_queue,
        instances=configuration.instances,
        timeout_ns=min(policy.default_timeout_microseconds * 1000, _LONGEST_TIMEOUT_NS),
    )


def _most_rows(batch: str, symbols: Sequence[Symbol], limits: ServingLimits) -> int:
    """How many rows a call may have, 1 where they are not independent."""
    high = next((symbol.high for symbol in symbols if symbol.name == batch), 1)
    return limits.max_rows if high is None else min(high, limits.max_rows)


def _zeros(signature: Signature, sizes: Sequence[int]) -> Feed:
    """Zeros, or empty texts, for each input that a call must pass, at these sizes of the symbols."""
    shapes = [[size if isinstance(size, int) else 1 for size in info.shape or ()] for info in signature.inputs]
    for binding in signature.bindings:
        shapes[binding.slot][binding.axis] = sizes[binding.symbol]
    computed = compile_sizes([check.size for check in signature.checks])(sizes)
    for check, size in zip(signature.checks, computed, strict=True):
        shapes[check.slot][check.axis] = size
    return {
        info.name: _zeros_of(info, shape)
        for info, shape in zip(signature.inputs, shapes, strict=True)
        if not info.optional
    }


def _zeros_of(info: TensorInfo, shape: Sequence[int]) -> np.ndarray:
    return np.full(shape, "", object) if info.dtype == STRING else np.zeros(shape, info.dtype)


def open_version(
    name: str, version: int, file: Path, configuration: Configuration, limits: ServingLimits
) -> ServedModel:
    """The version of a model in a file, warm. Raises what compiling or loading it raises."""
    if file.suffix == ".onnx":
        artifact = compiled_model(file, _compile_options(configuration))
    else:
        # The file may be replaced while it is served, so nothing of it stays mapped.
        verify_artifact(file)
        artifact = read_artifact(file, "resident")
    threads = configuration.options.get("threads")
    if threads is not None and not threads.isdecimal():
        raise InputError(f"threads of {name} is {threads!r}, expected an integer", code="model-config")
    count = int(threads) if threads else limits.threads
    if DECODER in artifact.provenance:
        decoder = make_decoder(artifact, count, MOST_TOKENS)
        face = TokensFace(decoder)
        return ServedModel(name, version, face, face.signature, "", configuration, limits, decoder)
    executable = make_executable(artifact, count)
    batch = artifact.provenance.get("independent_batch")
    signature = signature_of(artifact)
    return ServedModel(
        name, version, executable, signature, batch if isinstance(batch, str) else "", configuration, limits
    )


def _compile_options(configuration: Configuration) -> Mapping[str, object]:
    """What of a configuration is for compiling."""
    options = configuration.options
    chosen: dict[str, object] = {name: options[name] for name in ("target", "precision") if name in options}
    return {**chosen, GENERATES: True} if configuration.generates else chosen
