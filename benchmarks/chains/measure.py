"""Some chains on one thread: onnxc and ONNX Runtime in turns, on the same inputs. Run by `chains`."""

import json
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import onnx

import onnxc
from benchmarks.chains.chain import Chain
from benchmarks.chains.draw import draw
from benchmarks.measure_calls import alternate, ort_session
from benchmarks.operators.measure import ORT_ERRORS, first_line
from onnxc.measuring.values import compare_outputs

ROUNDS = 7


def main() -> None:
    asked: Mapping[str, object] = json.loads(sys.argv[1])
    first, count, folder = int(str(asked["first"])), int(str(asked["count"])), Path(str(asked["folder"]))
    for seed in range(first, first + count):
        chain = draw(seed)
        model = chain.model()
        if model is not None:
            row = {"seed": seed, **describe(chain), **measure(chain, model)}
            print(json.dumps(row), flush=True)
            if "error" in row or not row["same"] or row["ours"] > row["theirs"]:
                save(chain, model, folder / f"chain_{seed}.onnx")


def describe(chain: Chain) -> Mapping[str, object]:
    shape = [*chain.inputs[0].shape]
    return {"shape": shape, "symbolic": chain.is_symbolic, "nodes": " ".join(node.op_type for node in chain.nodes)}


def measure(chain: Chain, model: onnx.ModelProto) -> dict[str, object]:
    """Seconds a call of both, the least of some rounds, and how far their outputs are apart."""
    data, feeds = model.SerializeToString(), chain.feeds()
    try:
        session = ort_session(data, 1)
        theirs = session.run(None, feeds)
    except ORT_ERRORS as error:
        return {"skipped": first_line(error), "ours": 0.0, "theirs": 0.0, "same": True}
    try:
        started = time.process_time()
        executable = onnxc.compile(data, threads=1)
        compile_s = time.process_time() - started
        with np.errstate(all="ignore"):
            mine = executable.run(feeds)
            agreement = compare_outputs(mine, dict(zip(mine, theirs, strict=True)))
    except onnxc.OnnxcError as error:
        return {"error": first_line(error)}
    # Others may share the processor, but not the time of a thread.
    calls = partial(executable.run, feeds), partial(session.run, None, feeds)
    ours, peers = (min(seconds) for seconds in alternate(*calls, ROUNDS, time.thread_time, settle_s=0))
    return {
        "ours": ours, "theirs": peers, "compile_s": compile_s,
        "same": agreement.is_same, "difference": agreement.difference,
    }  # fmt: skip


def save(chain: Chain, model: onnx.ModelProto, path: Path) -> None:
    """The model and its inputs, as `benchmarks.folder` reads them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    np.savez(path.with_suffix(".npz"), **chain.feeds())


if __name__ == "__main__":
    main()
