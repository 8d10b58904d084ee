"""Programs edited at random, written with valid checksums, loaded and called.

`python -m tests.runtime.edits SEED COUNT` prints how many were refused when they were loaded, refused when they were
called, ran, and ran without an end. What is not an error of ours ends it with a traceback.
"""

import copy
import json
import resource
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeAlias
from unittest.mock import patch

import numpy as np

import onnxc
from onnxc.runtime import artifact as artifact_module
from onnxc.runtime.artifact import Artifact, to_json, write_artifact
from onnxc.runtime.encoding import encode_program
from onnxc.runtime.errors import OnnxcError
from onnxc.runtime.program import (
    Binding,
    BindSizes,
    Check,
    Constant,
    Guard,
    If,
    Parameter,
    Program,
    Release,
    Step,
    Symbol,
    TensorSpec,
    While,
)
from onnxc.runtime.texts import encode_texts
from tests.runtime.programs import AFFINE, artifact, body, host, vector

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | None"

# An edited loop may run for ever, an edited size ask for all memory.
SECONDS, MEMORY_BYTES = 2.0, 6 << 30

INTEGERS = (0, 1, -1, 2, 7, 63, 2**31, 2**63 - 1, -(2**63), 10**30)
OTHERS: Sequence[Json] = (None, True, 0, 1.5, "", "s[0]", "f32", "string", "a\0b", [], {}, [1], {"size": "s[9]"})


def everything() -> Program:
    """A program of host steps of every kind, with texts, sizes by data, a branch, and a loop that scans."""
    doubled = body(3, [0], [1], [host("concatenate", [0, 0], [1], axis=0)], bindings=[Binding(0, 0, 1)])
    same = body(3, [0], [0], [Release((1,))], bindings=[], checks=[Check(0, 0, "s[0]")])
    constants = [Constant(3, 8, TensorSpec("bool", ()))]
    element = [host("neg", [1], [4]), host("abs", [2], [5])]
    turn = body(6, [0, 1, 2], [3, 4, 5], element, bindings=[Binding(1, 0, 1)], constants=constants)
    steps: list[Step] = [
        host("non_zero", [0], [6], Binding(6, 1, 1)),
        host("iota", [], [7], shape=[{"size": "s[1] + 1"}, 2], axis=0, dtype={"dtype": "f32"}),
        BindSizes(1, (2, 3)),
        Guard("s[2]", "floordiv(s[3], 2)", "at_least", "too short", "node 4"),
        If(2, (0,), (8,), doubled, same, (Binding(8, 0, 4),)),
        While(3, 2, (8,), (0,), (9, 10), (TensorSpec("f32", ("s[5]", "s[0]")),), turn, 5),
        host("constant", [], [12], value={"array": ["f32", [2], "0000803f00000040"]}),
        host("pad", [9, 17], [11], low=[{"size": "s[2]"}], high=[0]),
        host("string_concatenate", [4, 16], [13]),
        host("sequence_construct", [11, 12], [14]),
        host("sequence_at", [14, 5], [15]),
        Release((6, 9)),
    ]
    inputs = [
        vector("x"), Parameter("k", "i64", ("2",), "i64[2]", 16), Parameter("flag", "bool", (), "bool[]"),
        Parameter("limit", "i64", (), "i64[]"), Parameter("texts", "string", ("2",), "string[2]"),
    ]  # fmt: skip
    outputs = [
        vector("one"), Parameter("all", "", None, "sequence(f32[?any])"), vector("scan"), vector("more"),
        Parameter("words", "string", ("2",), "string[2]"),
    ]  # fmt: skip
    constants = [
        Constant(5, 0, TensorSpec("i64", ())), Constant(16, 32, TensorSpec("string", ("2",))),
        Constant(17, 4, TensorSpec("f32", ())),
    ]  # fmt: skip
    content = body(18, [0, 1, 2, 3, 4], [15, 14, 10, 7, 13], steps, checks=[Check(1, 0, "2")], constants=constants)
    names = ("N", "?nz", "K", "L", "M", "?trip")
    return Program("everything", tuple(Symbol(name, 0, None) for name in names), tuple(inputs), tuple(outputs), content)


@dataclass(frozen=True)
class Seed:
    """An artifact to edit, and what it is called with."""

    artifact: Artifact
    feed: Mapping[str, object]


def seeds() -> tuple[Seed, ...]:
    """A program of host steps alone, twice as often as what is tied to native code."""
    numbers = np.array([1, 1, 2, 1], np.int64)
    texts = encode_texts(np.array(["a", "\u00fc"], object))
    weights = np.concatenate([numbers.view(np.uint8), texts])
    steps = Seed(
        Artifact(everything(), {}, weights, {"locations": ["node 0"]}),
        {
            "x": np.array([1.0, 0.0, 2.0], np.float32), "k": np.array([2, 3]), "flag": np.array(True),
            "limit": np.array(3), "texts": np.array(["x", "y"], object),
        },
    )  # fmt: skip
    return steps, Seed(artifact(AFFINE), {"x": np.ones(3, np.float32)}), steps


@dataclass(frozen=True)
class Part:
    """What a list has at an index, or an object at a key."""

    holder: "list[Json] | dict[str, Json]"
    index: int
    key: str

    @property
    def value(self) -> Json:
        return self.holder[self.index] if isinstance(self.holder, list) else self.holder[self.key]

    def put(self, value: Json) -> None:
        if isinstance(self.holder, list):
            self.holder[self.index] = value
        else:
            self.holder[self.key] = value

    def drop(self) -> None:
        if isinstance(self.holder, list):
            del self.holder[self.index]
        else:
            del self.holder[self.key]


def parts_of(value: Json) -> Iterator[Part]:
    """Every part of a value, at any depth."""
    if isinstance(value, list):
        parts = [Part(value, index, "") for index in range(len(value))]
    else:
        parts = [Part(value, 0, key) for key in value] if isinstance(value, dict) else []
    for part in parts:
        yield part
        yield from parts_of(part.value)


def edit(program: Json, random: Random) -> None:
    """Drops, repeats, exchanges or replaces a part or two."""
    for _ in range(random.choice((1, 1, 2))):
        parts = list(parts_of(program))
        part, other = random.choice(parts), random.choice(parts)
        match random.randrange(6):
            case 0:
                part.drop()
            case 1 if isinstance(part.holder, list):
                part.holder.insert(random.randrange(len(part.holder) + 1), copy.deepcopy(part.value))
            case 2:
                value = copy.deepcopy(part.value)
                part.put(copy.deepcopy(other.value))
                other.put(value)
            case 3:
                part.put(random.choice(OTHERS))
            case _:
                part.put(changed(part.value, random))


def changed(value: Json, random: Random) -> Json:
    """Another integer or text; of an object or a list, one with another part."""
    if isinstance(value, int):
        return random.choice([value + 1, value - 1, random.randrange(20), *INTEGERS])
    if isinstance(value, str) and value:
        index = random.randrange(len(value))
        return value[:index] + random.choice(["", *"0129s[]()+*-,fi\0"]) + value[index + 1 :]
    parts = list(parts_of(value))
    if parts:
        part = random.choice(parts)
        part.put(changed(part.value, random))
        return value
    return random.choice(OTHERS)


class LateError(BaseException):
    """The time is over; no code of ours catches this."""


def raise_late(*_: object) -> None:
    raise LateError


def outcome(seed: Seed, path: Path, random: Random) -> str:
    """What becomes of one edited program."""
    program: Json = json.loads(to_json(encode_program(seed.artifact.program)))
    edit(program, random)
    with patch.object(artifact_module, "encode_program", lambda _: program):
        write_artifact(seed.artifact, path)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    stage = "refused when loaded"
    try:
        executable = onnxc.load(path, threads=1)
        stage = "refused when called"
        executable.run({info.name: seed.feed.get(info.name) for info in executable.inputs})
    except OnnxcError:
        return stage
    except LateError:
        return "endless"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "ran"


def count_outcomes(made: Sequence[Seed], seed: int, count: int) -> Counter[str]:
    """How often each outcome was seen."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGALRM, raise_late)
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            random = Random(f"{seed} {number}")
            try:
                found[outcome(made[number % len(made)], Path(folder) / "a.onnxc", random)] += 1
            except Exception:
                print(f"edit {number} of seed {seed}", file=sys.stderr)
                raise
    return found


if __name__ == "__main__":
    print(json.dumps(count_outcomes(seeds(), int(sys.argv[1]), int(sys.argv[2]))))
