"""What exchanges between devices take: messages that cost alpha seconds each, and beta seconds for each byte.

The closed forms are the usual ones, as in Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication
Operations in MPICH" (2005), 2.1: p devices, of which each brings n bytes. Nothing shares a link.
"""

import json
import math
import os
import re
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from pathlib import Path

from onnxc.runtime.errors import InputError
from onnxc.runtime.files.plain_files import open_plain_file
from onnxc.runtime.records import record

__all__ = ["Exchanged", "Link", "Network", "exchanged", "parse_network"]

_FORM = "alpha=SECONDS,beta=SECONDS_PER_BYTE, or a file of JSON"
_MOST_BYTES = 1 << 16
"""A file of a network has a dozen numbers; what is larger is another file."""


@record
class Link:
    """alpha: seconds of a message. beta: seconds for each byte."""

    alpha: float
    beta: float

    def seconds(self, messages: int, nbytes: Fraction | int) -> float:
        """The time of messages one after the other, which bring so many bytes in all."""
        return messages * self.alpha + float(nbytes) * self.beta


@record
class Network:
    """A link between any two devices; another one within nodes of `node_devices` devices that follow one another."""

    link: Link
    node_link: Link | None = None
    node_devices: int = 1

    def link_of(self, group: Collection[int]) -> Link:
        """The slowest link that the devices of a group need."""
        is_within = self.node_link is not None and len({device // self.node_devices for device in group}) == 1
        return self.node_link if is_within and self.node_link is not None else self.link

    def __str__(self) -> str:
        text = f"alpha={self.link.alpha:g},beta={self.link.beta:g}"
        if self.node_link is None:
            return text
        return f"{text}; within {self.node_devices} devices alpha={self.node_link.alpha:g},beta={self.node_link.beta:g}"


@record
class Exchanged:
    """sent_bytes: what a device sends, on average over its group."""

    algorithm: str
    sent_bytes: Fraction
    seconds: float


@record
class _Form:
    """An algorithm of p devices that bring n bytes each: messages and bytes one after the other, and bytes sent."""

    algorithm: str
    messages: Callable[[int], int]
    bytes: Callable[[int, int], Fraction]
    sent: Callable[[int, int], Fraction]


def _doublings(p: int) -> int:
    return (p - 1).bit_length()


def _blocks(p: int, n: int) -> Fraction:
    """A part of what each brings goes to each other device."""
    return Fraction((p - 1) * n, p)


def _wholes(p: int, n: int) -> Fraction:
    return Fraction((p - 1) * n)


_FORMS: Mapping[str, tuple[_Form, ...]] = {
    "all_reduce": (
        _Form("ring", lambda p: 2 * (p - 1), lambda p, n: 2 * _blocks(p, n), lambda p, n: 2 * _blocks(p, n)),
        # All but the root send to their parents; what comes back is sent as often.
        _Form(
            *("tree", lambda p: 2 * _doublings(p), lambda p, n: Fraction(2 * _doublings(p) * n)),
            lambda p, n: 2 * _blocks(p, n),
        ),
    ),
    "all_gather": (_Form("ring", lambda p: p - 1, _wholes, _wholes),),
    "reduce_scatter": (_Form("ring", lambda p: p - 1, _blocks, _blocks),),
    "all_to_all": (_Form("pairwise", lambda p: p - 1, _blocks, _blocks),),
    "permute": (_Form("direct", lambda p: 1, lambda p, n: Fraction(n), lambda p, n: Fraction(n)),),
    "send": (_Form("direct", lambda p: 1, lambda p, n: Fraction(n), lambda p, n: Fraction(n, p - 1)),),
}


def exchanged(name: str, nbytes: int, group: Collection[int], network: Network) -> Exchanged:
    """The exchange `name` of a group whose devices bring `nbytes` each, by the fastest algorithm, the first of equals.

    A send is from one of two devices to the other.
    """
    count = len(group)
    if count == 1:
        return Exchanged("none", Fraction(0), 0.0)
    link = network.link_of(group)
    made = (
        Exchanged(
            form.algorithm, form.sent(count, nbytes), link.seconds(form.messages(count), form.bytes(count, nbytes))
        )
        for form in _FORMS[name]
    )
    return min(made, key=lambda each: each.seconds)


def parse_network(said: object) -> Network:
    """The network of a text, of a path to a file of JSON, or of what such a file holds. Raises InputError."""
    if isinstance(said, str) and "=" in said:
        pairs = [re.fullmatch(r"\s*(\w+)\s*=([^=]*)", part) for part in said.split(",")]
        if None in pairs:
            raise _error(f"network is {said!r}, expected {_FORM}")
        said = {pair[1]: pair[2] for pair in pairs if pair is not None}
    elif isinstance(said, str | os.PathLike):
        said = _read(Path(said))
    if not isinstance(said, Mapping) or not {"alpha", "beta"} <= said.keys() <= {"alpha", "beta", "node"}:
        raise _error(f"network is {said!r}, expected {_FORM} with alpha, beta and perhaps node")
    if "node" not in said:
        return Network(_link(said, "network"))
    node = said["node"]
    if not isinstance(node, Mapping) or node.keys() != {"alpha", "beta", "devices"}:
        raise _error(f"the node of the network is {node!r}, expected devices, alpha and beta")
    devices = node["devices"]
    if type(devices) is not int or devices < 1:
        raise _error(f"the devices of a node of the network are {devices!r}, expected 1 or more")
    return Network(_link(said, "network"), _link(node, "node of the network"), devices)


def _read(path: Path) -> object:
    with open_plain_file(path, what="the network") as file:
        try:
            read: object = json.loads(file.read(_MOST_BYTES))
        except (ValueError, RecursionError) as problem:
            raise _error(f'"{path}" is no JSON of a network: {problem}') from problem
    return read


def _link(said: Mapping[str, object], what: str) -> Link:
    return Link(*(_seconds(said[name], f"{name} of the {what}") for name in ("alpha", "beta")))


def _seconds(value: object, what: str) -> float:
    """A time; texts are those of numbers."""
    try:
        seconds = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise _error(f"{what} is {value!r}, expected seconds, 0 or more")
    return seconds


def _error(message: str) -> InputError:
    return InputError(message, code="network-figures")
