"""Models as ONNX Runtime's optimiser and quantiser save them, at each level: compiled, compared and timed beside it.

    python -m benchmarks.saved_models --dir DIR [--filter RE] [--rounds N]

Times are of the calling thread, one thread each, in turns: the median call, and the least median of three attempts.
"""

import argparse
import logging
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

import onnxc
from benchmarks.inputs import make_inputs, read_manifest
from benchmarks.measure_calls import alternate, largest_difference, ort_session
from benchmarks.models.small_llama import small_llama, small_llama_feeds

Feeds = Mapping[str, np.ndarray]
ATTEMPTS = 3
LEVELS = {
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
EXPORTED = {
    "mnist_cnn": {"batch": 7},
    "bert_tiny": {"batch": 3, "sequence": 13},
    "gpt2_decode": {"batch": 1, "sequence": 1, "past": 32},
}
"""The exports that are saved, with the sizes of their symbols."""


class _Samples(CalibrationDataReader):
    def __init__(self, feeds: Feeds) -> None:
        self.samples: Iterator[Feeds] = iter([feeds])

    def get_next(self) -> Feeds | None:
        return next(self.samples, None)


def exported(name: str, folder: Path, _scratch: Path) -> tuple[Path, Feeds]:
    """An export of a folder of models, with inputs."""
    spec = next(spec for spec in read_manifest(folder) if spec.name == name)
    return spec.path, make_inputs(spec.inputs, EXPORTED[name])


def quantised(folder: Path, scratch: Path) -> tuple[Path, Feeds]:
    """mnist_cnn in integers of 8 bits, in the operators that ONNX Runtime's quantiser writes."""
    path, feeds = exported("mnist_cnn", folder, scratch)
    quantize_static(path, scratch / "quantised.onnx", _Samples(feeds), quant_format=QuantFormat.QOperator)
    return scratch / "quantised.onnx", feeds


def llama(_folder: Path, scratch: Path) -> tuple[Path, Feeds]:
    """The small decoder, at a step behind 32 tokens."""
    onnx.save(small_llama(), scratch / "llama.onnx")
    return scratch / "llama.onnx", small_llama_feeds(2, 32)


SOURCES: Mapping[str, Callable[[Path, Path], tuple[Path, Feeds]]] = {
    **{name: partial(exported, name) for name in EXPORTED},
    "mnist_cnn int8": quantised,
    "small_llama": llama,
}


def saved(source: Path, level: onnxruntime.GraphOptimizationLevel, scratch: Path) -> Path:
    """The model as ONNX Runtime's optimiser saves it at a level."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(scratch / "saved.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    return scratch / "saved.onnx"


def row(path: Path, feeds: Feeds, rounds: int) -> str:
    """How far the results lie apart and how long calls take, or why the model is refused."""
    session = ort_session(path, 1)
    try:
        executable = onnxc.compile(path, threads=1)
    except onnxc.UnsupportedError as problem:
        return f"refused: {problem.code}"
    given = {info.name: feeds[info.name] for info in executable.inputs}
    difference = largest_difference(tuple(executable.run(given).values()), session.run(None, given))
    ours, theirs = partial(executable.run, given), partial(session.run, None, given)
    seconds = [alternate(ours, theirs, rounds, time.thread_time) for _ in range(ATTEMPTS)]
    ours_ms, theirs_ms = (1e3 * min(map(statistics.median, side)) for side in zip(*seconds, strict=True))
    return (
        f"off by {difference:.1e}, {ours_ms:.3f} ms, ONNX Runtime {theirs_ms:.3f} ms, ratio {ours_ms / theirs_ms:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.saved_models", description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, default=os.environ.get("ONNXC_MODELS", "."), metavar="DIR")
    parser.add_argument("--filter", default="", metavar="RE", help="only models that match")
    parser.add_argument("--rounds", type=int, default=15, metavar="N")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        for name in (name for name in SOURCES if re.search(options.filter, name)):
            source, feeds = SOURCES[name](options.dir, Path(folder))
            print(f"{name}, as it is: {row(source, feeds, options.rounds)}", flush=True)
            for level, value in LEVELS.items():
                path = saved(source, value, Path(folder))
                print(f"{name}, {level}: {row(path, feeds, options.rounds)}", flush=True)


if __name__ == "__main__":
    main()
