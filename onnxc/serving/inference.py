"""A request for inference in no protocol's form: what both protocols read theirs into, and answer theirs from."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from onnxc.runtime.errors import InputError, UnsupportedError
from onnxc.runtime.records import record
from onnxc.serving.batching import Asker, Feed
from onnxc.serving.served_model import ServedModel, WireTensor

__all__ = [
    "Answer", "InferRequest", "Parameters", "RegionPart", "WantedOutput", "answer", "ask", "parse_region", "timeout_of",
]  # fmt: skip

Parameters = Mapping[str, object]
REFUSED = ("sequence_id", "classification")
_MAX_TIMEOUT_US = 1 << 50


@record
class RegionPart:
    """A part of a region of shared memory."""

    region: str
    offset: int
    byte_size: int


class WantedOutput(NamedTuple):
    """An output that a request names, and how it is to come."""

    name: str
    is_binary: bool = True
    part: RegionPart | None = None


class InferRequest(NamedTuple):
    """A request; without outputs, all are wanted."""

    tensors: Mapping[str, WireTensor]
    outputs: Sequence[WantedOutput] = ()
    id: str = ""
    timeout_ns: int = 0
    outputs_binary: bool = True


class Answer(NamedTuple):
    """The outputs in the order in which they were asked for; arrays that went into shared memory are not in it."""

    model: ServedModel
    id: str
    outputs: Sequence[tuple[WantedOutput, np.ndarray]]

    @property
    def size(self) -> int:
        """About how many bytes all outputs take on their way."""
        arrays = [array for _, array in self.outputs]
        return sum(sum(map(len, array.flat)) if array.dtype.hasobject else array.nbytes for array in arrays)


async def answer(model: ServedModel, request: InferRequest) -> Answer:
    """The answer of a model. Raises OnnxcError."""
    wanted = _wanted(model, request)
    outputs = await model.infer(request.tensors, request.timeout_ns)
    return Answer(model, request.id, [(output, outputs[output.name]) for output in wanted])


def ask(
    model: ServedModel, request: InferRequest, done: Callable[[Answer | Exception], None], asker: Asker
) -> Callable[[], bool]:
    """As `answer`, but `done` is given the answer or the error, which raises nothing.

    Gives what withdraws the request: whether it still waited, and will have no answer. Raises OnnxcError at once for
    what is wrong with the request.
    """
    wanted = _wanted(model, request)

    def answered(outcome: Feed | Exception) -> None:
        if isinstance(outcome, Exception):
            done(outcome)
        else:
            done(Answer(model, request.id, [(output, outcome[output.name]) for output in wanted]))

    return model.submit(request.tensors, request.timeout_ns, answered, asker)


def _wanted(model: ServedModel, request: InferRequest) -> Sequence[WantedOutput]:
    """The outputs that the answer is to have; InputError for those that there are not."""
    if not request.outputs:
        return [WantedOutput(name, request.outputs_binary) for name in model.output_names]
    for output in request.outputs:
        if output.name not in model.output_names:
            listed = ", ".join(model.output_names)
            raise InputError(f"there is no output {output.name!r}; they are {listed}", code="unknown-output")
    return request.outputs


def parse_region(parameters: Parameters) -> RegionPart | None:
    """The part of shared memory that a tensor's parameters name, if they do."""
    if "shared_memory_region" not in parameters:
        return None
    name = parameters["shared_memory_region"]
    offset, byte_size = (parameters.get(f"shared_memory_{key}", 0) for key in ("offset", "byte_size"))
    if not isinstance(name, str) or not isinstance(offset, int) or not isinstance(byte_size, int):
        raise InputError("the parameters of a region of shared memory have wrong types", code="shared-memory")
    return RegionPart(name, offset, byte_size)


def timeout_of(parameters: Parameters) -> int:
    """The timeout that a request's parameters state, in ns, 0 for none; refuses what would be silently ignored."""
    for name in REFUSED:
        if parameters.get(name):
            raise UnsupportedError(f"the parameter {name!r} is not supported", code="request-parameter")
    timeout = parameters.get("timeout", 0)
    if not isinstance(timeout, int) or not 0 <= timeout <= _MAX_TIMEOUT_US:
        raise InputError(f"timeout is {timeout!r}, expected microseconds", code="request-parameter")
    return timeout * 1000
