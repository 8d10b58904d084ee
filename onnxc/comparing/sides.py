"""What is compared: a model and what runs it, as texts name them: model.onnx@cpu:precision=bf16, or @onnxruntime.

Other runtimes than ours are imported when they are asked for; none is needed.
"""

import importlib
import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import numpy as np

import onnxc
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.read import read_model
from onnxc.measuring.runtimes import Feed, NamedCall
from onnxc.runtime.errors import DeviceError, InputError, OnnxcError
from onnxc.runtime.gpu.arrays import DeviceArray
from onnxc.runtime.records import record

__all__ = ["FORM", "Side", "embedded_model", "parse_side"]

FORM = "MODEL[@cpu|@interpreter|@cuda|@onnxruntime|@reference][:precision=bf16][:threads=1]"
DEFAULT_ENGINE = "cpu"

T = TypeVar("T")


@record
class Side:
    """A model, and the engine that runs it: a target of `onnxc.compile`, or another runtime by its name."""

    text: str
    model: Path
    engine: str
    precision: str = "fp32"
    threads: int | None = None

    def open(self, model: ModelProto) -> NamedCall:
        """What calls a model by name. Raises OnnxcError; whatever another runtime raises is a DeviceError."""
        make = _OTHERS.get(self.engine, _open_onnxc)
        call = _as_errors(self, lambda: make(model, self))
        return lambda feed: _as_errors(self, lambda: call(feed))


def parse_side(text: str, other: Path | None = None) -> Side:
    """The side that a text names; one without a model has that of the `other` side. Raises InputError."""
    path, at, engine = text.rpartition("@")
    if not at or not _is_engine(engine):
        path, engine = text, DEFAULT_ENGINE
    if not path and other is None:
        raise InputError(f"{text!r} names no model, expected {FORM}", code="diff-side")
    name, options = _split(text, engine)
    side = Side(text, Path(path) if path else other or Path(), name)
    return replace(side, precision=options.get("precision", "fp32"), threads=_threads(text, options.get("threads")))


def embedded_model(path: Path) -> ModelProto:
    """The model of a file with all its weights in the message. Raises OnnxcError."""
    loaded = read_model(path)
    if not any(tensor.external_data for tensor in loaded.outline.graph.initializer):
        return loaded.proto
    with tempfile.TemporaryDirectory(prefix="onnxc-diff-") as folder:
        onnxc.save_model(path, Path(folder) / "model.onnx")
        return read_model(Path(folder) / "model.onnx").proto


def _is_engine(text: str) -> bool:
    return text.partition(":")[0] in ("cpu", "cuda", "interpreter", *_OTHERS)


def _split(text: str, engine: str) -> tuple[str, dict[str, str]]:
    """The engine without its options, and these by name."""
    parts = engine.split(":")
    options = dict(part.split("=", 1) for part in parts if "=" in part)
    unknown = [name for name in options if name not in ("precision", "threads")]
    if unknown:
        raise InputError(f"{text!r} has the option {unknown[0]!r}, expected {FORM}", code="diff-side")
    return ":".join(part for part in parts if "=" not in part), options


def _threads(text: str, count: str | None) -> int | None:
    if count is None:
        return None
    if not (count.isdecimal() and 0 < int(count) < 10_000):
        raise InputError(f"{text!r} has {count!r} threads, expected {FORM}", code="diff-side")
    return int(count)


def _as_errors(side: Side, act: Callable[[], T]) -> T:
    try:
        return act()
    except (OnnxcError, MemoryError):
        raise
    except Exception as problem:
        raise DeviceError(f"{side.text} fails: {type(problem).__name__}: {problem}", code="side-failed") from problem


def _open_onnxc(model: ModelProto, side: Side) -> NamedCall:
    executable = onnxc.compile(model, side.engine, precision=side.precision, threads=side.threads)

    def call(feed: Feed) -> Mapping[str, object]:
        named = executable.run(dict(feed))
        return {name: value.numpy() if isinstance(value, DeviceArray) else value for name, value in named.items()}

    return call


def _library(name: str) -> ModuleType:
    if importlib.util.find_spec(name) is None:
        raise DeviceError(f"{name} is not installed: pip install {name}", code="library-missing")
    return importlib.import_module(name)


def _open_onnxruntime(model: ModelProto, side: Side) -> NamedCall:
    library = _library("onnxruntime")
    options = library.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = side.threads or 0
    session = library.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda feed: dict(zip(names, session.run(None, dict(feed)), strict=True))


def _open_reference(model: ModelProto, side: Side) -> NamedCall:
    library = _library("onnx")
    reference = importlib.import_module("onnx.reference")
    evaluator = reference.ReferenceEvaluator(library.load_model_from_string(model.SerializeToString()))
    names = [info.name for info in model.graph.output]

    def call(feed: Feed) -> Mapping[str, object]:
        outputs = zip(names, evaluator.run(None, dict(feed)), strict=True)
        # A scalar of NumPy is no array.
        return {name: np.asarray(value) if isinstance(value, np.generic) else value for name, value in outputs}

    return call


_OTHERS: Mapping[str, Callable[[ModelProto, Side], NamedCall]] = {
    "onnxruntime": _open_onnxruntime,
    "reference": _open_reference,
}
