"""What an artifact says of a decoder: which input is what, and where caches grow."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from onnxc.runtime.program import JsonValue, Program
from onnxc.runtime.records import record

__all__ = ["Description", "decode_description"]


@record
class Description:
    """The names of the inputs of a decoder; an empty one where it has none of that kind.

    caches: for each the axis along which it grows. length: the input without elements whose first `lengths` sizes say
    how many rows caches have. vocabulary, longest: how many tokens and positions there are, None where that is not
    known. others: inputs that stay the same for a session.
    """

    tokens: str
    logits: str
    mask: str
    positions: str
    row_positions: str
    length: str
    lengths: int
    caches: Mapping[str, int]
    others: tuple[str, ...] = ()
    vocabulary: int | None = None
    longest: int | None = None

    def encoded(self) -> dict[str, JsonValue]:
        """The description as JSON."""
        return {**asdict(self), "others": list(self.others)}


def decode_description(value: JsonValue, program: Program) -> Description:
    """The description that `encoded` wrote, of this program. Raises ValueError where it does not fit it."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is no object")
    inputs = {parameter.name: len(parameter.shape or ()) for parameter in program.inputs}
    names = {field: str(value[field]) for field in _INPUT_FIELDS}
    caches = {str(name): _count(axis) for name, axis in _mapping(value["caches"]).items()}
    others = tuple(str(name) for name in _list(value["others"]))
    known = (*filter(None, names.values()), *caches, *others)
    if sorted(known) != sorted(inputs) or not all(0 < axis < inputs[name] for name, axis in caches.items()):
        raise ValueError(f"it names {', '.join(known)}, and the inputs are {', '.join(inputs)}")
    lengths, logits = _count(value["lengths"]), str(value["logits"])
    if inputs[names["length"]] != lengths + 1 or [parameter.name for parameter in program.outputs].count(logits) != 1:
        raise ValueError(f"it has {lengths} lengths and the logits {logits}")
    vocabulary, longest = (
        None if value[field] is None else _count(value[field]) for field in ("vocabulary", "longest")
    )
    return Description(
        **names, logits=logits, lengths=lengths, caches=caches, others=others, vocabulary=vocabulary, longest=longest
    )


_INPUT_FIELDS = ("tokens", "mask", "positions", "row_positions", "length")


def _count(value: JsonValue) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is no object")
    return value


def _list(value: JsonValue) -> Sequence[JsonValue]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{value!r} is no list")
    return value
