"""The engines that a program is computed with: the native one in its turns, ONNX Runtime, and onnx's reference."""

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator

import onnxc
from onnxc.runtime.errors import OnnxcError
from onnxc.runtime.executable import Executable
from tests.differential.engines import ORT_IR_VERSION, plain
from tests.whole_programs.program import Program

# ONNX Runtime is asked for opsets newer than it says it supports.
os.environ["ALLOW_RELEASED_ONNX_OPSET_ONLY"] = "0"


@dataclass(frozen=True)
class Refusal:
    """Why there are no outputs."""

    reason: str


Answers = Sequence["list[object] | Refusal"]


@dataclass(frozen=True)
class Ours:
    """The answers of an executable, and of the same one saved, loaded and called with two threads, last call first."""

    first: Answers
    loaded: Answers
    interpreted: Answers
    compile_s: float


def ours(program: Program) -> Ours | Refusal:
    """What onnxc makes of the program; a refusal where it does not compile."""
    data = program.model.SerializeToString()
    started = time.process_time()
    try:
        executable = onnxc.compile(data, threads=1, freeze_params=False)
    except OnnxcError as refused:
        return Refusal(f"{refused.code}: {refused}"[:600])
    compile_s = time.process_time() - started
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.onnxc"
        executable.save(path)
        loaded = onnxc.load(path, threads=2)
        answers = [called(loaded, feed) for feed in reversed(program.calls)]
    first = [called(executable, feed) for feed in program.calls]
    interpreter = onnxc.compile(data, target="interpreter", freeze_params=False)
    return Ours(first, answers[::-1], [called(interpreter, feed) for feed in program.calls], compile_s)


def called(executable: Executable, feed: Mapping[str, np.ndarray]) -> "list[object] | Refusal":
    try:
        return [plain(value) for value in executable.run(feed).values()]
    except OnnxcError as refused:
        return Refusal(f"{refused.code}: {refused}"[:600])


def ort(program: Program, *, is_optimized: bool = True) -> "Answers | Refusal":
    """What ONNX Runtime makes of the calls."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not is_optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = ModelProto()
    model.CopyFrom(program.model)
    model.ir_version = min(model.ir_version, ORT_IR_VERSION)
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as problem:
        return Refusal(f"{type(problem).__name__}: {problem}"[:400])
    answers: list[list[object] | Refusal] = []
    for feed in program.calls:
        try:
            answers.append([plain(value) for value in session.run(None, dict(feed))])
        except Exception as problem:
            answers.append(Refusal(f"{type(problem).__name__}: {problem}"[:400]))
    return answers


def reference(program: Program) -> "Answers | Refusal":
    """What onnx's reference evaluator makes of the calls."""
    try:
        evaluator = ReferenceEvaluator(program.model)
    except Exception as problem:
        return Refusal(f"{type(problem).__name__}: {problem}"[:400])
    answers: list[list[object] | Refusal] = []
    for feed in program.calls:
        defaults = {t.name for t in program.model.graph.initializer}
        given = dict(feed)
        try:
            answers.append([plain(value) for value in evaluator.run(None, given)])
        except Exception as problem:
            missing = defaults - set(given)
            answers.append(Refusal(f"{type(problem).__name__}: {problem} ({sorted(missing)})"[:400]))
    return answers
