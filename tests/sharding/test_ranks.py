"""Divided programs under mpirun: the bits of threads; what ends one rank ends the others, who name it."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from onnx import ModelProto, helper

import onnxc
from onnxc.command_line.run import speaks_for_all
from onnxc.runtime.values import host_value
from tests.sharding.annotated import CONFIG, annotate, attention_nodes, graph_model, set_stage
from tests.sharding.test_devices import node, weight
from tests.sharding.test_models import TOKENS, WIDTH, decoder, decoder_feeds, images, routed, routes

MPIRUN = shutil.which("mpirun") or shutil.which("mpirun", path=str(Path(sys.executable).parent))
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    MPIRUN is None or find_spec("mpi4py") is None, reason="needs mpi4py and mpirun, as onnxc[mpi] brings them"
)


def start(ranks: int, *command: str) -> "subprocess.CompletedProcess[str]":
    """What mpirun gives; more ranks than processors, and root, are allowed in tests."""
    assert MPIRUN is not None
    options = ["--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [MPIRUN, *options, "-n", str(ranks), sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment,
        cwd=ROOT,
    )


# Models


def mlp(devices: int, pattern: str) -> ModelProto:
    """Two layers in one of the patterns of Megatron; the sums of rows are large enough to go in blocks."""
    nodes = [
        node("Relu", ["z"], ["x"]),
        node("MatMul", ["x", "w1"], ["a"]),
        node("Gelu", ["a"], ["g"]),
        node("MatMul", ["g", "w2"], ["y"]),
    ]
    constants = {"w1": weight(64, 48), "w2": weight(48, 64)}
    model = graph_model(nodes, {"z": ["N", 64]}, {"y": ["N", 64]}, constants, devices)
    everyone = range(devices)
    annotate(nodes_of(model)[1], "w1", {1: devices}, everyone)
    annotate(nodes_of(model)[3], "w2", {0: devices}, everyone)
    if pattern == "scattered":
        annotate(nodes_of(model)[3], "y", {1: devices}, everyone)
    if pattern == "sequence":
        annotate(nodes_of(model)[0], "z", {0: devices}, everyone)
        annotate(nodes_of(model)[1], "x", {}, everyone)
        annotate(nodes_of(model)[3], "y", {0: devices}, everyone)
    return model


def nodes_of(model: ModelProto) -> Sequence["helper.NodeProto"]:
    return model.graph.node


def block(devices: int) -> ModelProto:
    """A block of a transformer: attention with divided heads, then an MLP, each behind a norm and around a residual."""
    nodes = [node("LayerNormalization", ["x", "s"], ["n1"])]
    nodes += attention_nodes("n1", "attended")
    nodes += [
        node("Add", ["x", "attended"], ["r"]),
        node("LayerNormalization", ["r", "s"], ["n2"]),
        node("MatMul", ["n2", "w1"], ["a"]),
        node("Gelu", ["a"], ["g"]),
        node("MatMul", ["g", "w2"], ["m"]),
        node("Add", ["r", "m"], ["y"]),
    ]
    constants = {name: weight(16, 16) for name in ("wq", "wk", "wv", "wo")}
    constants |= {"w1": weight(16, 32), "w2": weight(32, 16), "s": np.ones(16, np.float32)}
    constants |= {"split": np.array([0, 0, 4, 4]), "join": np.array([0, 0, 16])}
    model = graph_model(nodes, {"x": ["B", "S", 16]}, {"y": ["B", "S", 16]}, constants, devices)
    for each in model.graph.node:
        for name, axis in {"wq": 1, "wk": 1, "wv": 1, "wo": 0, "w1": 1, "w2": 0}.items():
            if each.op_type == "MatMul" and name in each.input:
                annotate(each, name, {axis: devices}, range(devices))
    return model


def exchanged(devices: int) -> ModelProto:
    """Uneven blocks that go from one axis to another."""
    nodes = [node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["y"])]
    model = graph_model(nodes, {"x": ["N", 6]}, {"y": ["N", 6]}, {}, devices)
    annotate(model.graph.node[0], "x", {0: devices}, range(devices))
    annotate(model.graph.node[1], "a", {1: devices}, range(devices))
    return model


def gather(devices: int) -> ModelProto:
    """Each device looks up its part of the indices."""
    nodes = [node("Gather", ["w", "i"], ["r"]), node("MatMul", ["r", "v"], ["y"])]
    model = graph_model(nodes, {}, {"y": [4, 6]}, {"w": weight(5, 8), "v": weight(8, 6)}, devices)
    model.graph.input.append(helper.make_tensor_value_info("i", 7, [4]))
    annotate(model.graph.node[0], "i", {0: devices}, range(devices))
    return model


def pipeline(devices: int) -> ModelProto:
    """A layer on each device; the last stage adds what the first one makes, which is an output, too."""
    nodes = [node("MatMul", [f"x{k}", f"w{k}"], [f"x{k + 1}"]) for k in range(devices)]
    nodes.append(node("Add", [f"x{devices}", "x1"], ["y"]))
    constants = {f"w{k}": weight(16, 16) for k in range(devices)}
    model = graph_model(nodes, {"x0": ["N", 16]}, {"x1": ["N", 16], "y": ["N", 16]}, constants, devices)
    for k in range(devices):
        set_stage(model.graph.node[k], k)
    return model


def grid(devices: int) -> ModelProto:
    """Two stages, each an MLP whose weights are divided over half of the devices."""
    nodes = [node("MatMul", [f"x{k}", f"w{k}"], [f"x{k + 1}"]) for k in range(4)]
    constants = {f"w{k}": weight(16, 16) for k in range(4)}
    model = graph_model(nodes, {"x0": ["N", 16]}, {"x4": ["N", 16]}, constants, devices)
    half = devices // 2
    for k, each in enumerate(model.graph.node):
        set_stage(each, k // 2)
        annotate(each, f"w{k}", {1 - k % 2: half}, range(k // 2 * half, (k // 2 + 1) * half))
    return model


def counter(devices: int) -> ModelProto:
    """A state whose rows are divided, which each call adds to."""
    model = graph_model([node("Add", ["s", "x"], ["t"])], {"s": ["N", 6], "x": [6]}, {"t": ["N", 6]}, {}, devices)
    annotate(model.graph.node[0], "t", {0: devices}, range(devices))
    return model


MODELS: dict[str, tuple[Callable[[int], ModelProto], dict[str, np.ndarray]]] = {
    "mlp": (lambda devices: mlp(devices, "reduced"), {"z": weight(2100, 64)}),
    "scattered": (lambda devices: mlp(devices, "scattered"), {"z": weight(8, 64)}),
    "sequence": (lambda devices: mlp(devices, "sequence"), {"z": weight(16, 64)}),
    "block": (block, {"x": weight(2, 5, 16)}),
    "exchanged": (exchanged, {"x": weight(7, 6)}),
    "gather": (gather, {"i": np.array([0, 1, 4, 3])}),
    "pipeline": (pipeline, {"x0": weight(7, 16)}),
    "grid": (grid, {"x0": weight(5, 16)}),
    "local": (exchanged, {"x": weight(7, 6)}),
    "state": (counter, {"s": weight(5, 6), "x": weight(6)}),
    "gpt2": (partial(decoder, "gpt2"), decoder_feeds("gpt2")),
    "llama": (partial(decoder, "llama"), decoder_feeds("llama")),
    "experts": (routed, {"to": routes(), "x": weight(4, TOKENS, WIDTH)}),
    "images": (images, {"x": weight(8, 3, 16, 16)}),
}


TWO = ("mlp", "scattered", "sequence", "block", "gather", "pipeline", "gpt2", "llama", "experts", "images")


def save_all(folder: Path, devices: int, names: Sequence[str]) -> Path:
    """The artifacts, inputs, and the outputs on threads."""
    for name in names:
        make, feed = MODELS[name]
        exe = onnxc.compile(make(devices), config=CONFIG, outputs="local" if name in ("local", "state") else "whole")
        exe.save(folder / f"{name}.onnxc")
        np.savez(folder / f"{name}.x.npz", **feed)
        np.savez(
            folder / f"{name}.y.npz", **{key: np.asarray(host_value(value)) for key, value in exe.run(feed).items()}
        )
    return folder


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_all(tmp_path_factory.mktemp("four"), 4, tuple(MODELS))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_all(tmp_path_factory.mktemp("two"), 2, TWO)


def told(folder: Path, ranks: int) -> list[dict[str, object]]:
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(ranks)]


# What all ranks do together


def test_four_ranks_give_the_bits_of_threads(four: Path) -> None:
    done = start(4, "tests.sharding.rank_program", "parity", str(four))
    assert done.returncode == 0, done.stderr
    assert told(four, 4) == [{name: [True, True] for name in sorted(MODELS)}] * 4


def test_two_ranks_give_the_bits_of_threads(two: Path) -> None:
    done = start(2, "tests.sharding.rank_program", "parity", str(two))
    assert done.returncode == 0, done.stderr
    assert told(two, 2) == [{name: [True, True] for name in sorted(TWO)}] * 2


def test_what_is_wrong_in_one_rank_is_an_error_in_all(four: Path, two: Path, tmp_path: Path) -> None:
    for name in ("gather.onnxc", "mlp.onnxc", "local.onnxc", "local.x.npz", "state.onnxc", "state.x.npz"):
        shutil.copy(four / name, tmp_path / name)
    shutil.copy(two / "gather.onnxc", tmp_path / "two.onnxc")
    done = start(4, "tests.sharding.rank_program", "errors", str(tmp_path))
    assert done.returncode == 0, done.stderr
    expected = {
        "an index on device 2": r"index-out-of-range: (.|\n)*index 9 is outside(.|\n)*on device 2",
        "an input of device 1": r"input-dtype: (.|\n)*f32(.|\n)*on device 1",
        "a file of device 3": r"file-not-found: (.|\n)*none(.|\n)*on device 3",
        "another artifact": r"artifacts-differ: .*device 1, 2, 3 has another artifact than device 0",
        "another count": r"device-count-differs: .*there are 4 ranks(.|\n)*divided over 2 devices",
        "shards of other types": r"input-dtype: (.|\n)*\"x\" is f64\[7, 6\], expected f32\[N, 6\]",
        "shards of different outputs": r"shards-differ: .*f32\[7, 6\] on device 1, f32\[8, 6\] on device 2",
        "the whole on device 1": r"collectives-differ: ",
        "two threads": r"overlapping-calls: .*another thread",
    }
    for found in told(tmp_path, 4):
        assert found.pop("after all") is True
        assert found.pop("shards") == [True] * 3
        assert found.pop("state") == [True, 0]
        for what, pattern in expected.items():
            assert re.match(pattern, str(found[what])), (what, found[what])


@pytest.mark.parametrize(("devices", "rank", "speaks"), [("mpi", 0, True), ("mpi", 3, False), ("cpu:4", 3, True)])
def test_the_first_rank_speaks_for_all(devices: str, rank: int, speaks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxc.runtime.ranks.world.connect", lambda: SimpleNamespace(rank=rank))
    assert speaks_for_all(devices) is speaks


# Nothing hangs

LOST = r"device {device} \(process \d+ on .*\) "


@pytest.mark.parametrize(
    ("how", "ranks", "why"),
    [
        ("kill", 4, "has died"),
        ("stop", 2, "has not shown any life for 5 s"),
        ("exit", 2, "has ended, and takes no part in this call"),
    ],
)
def test_the_others_end_with_an_error_that_names_the_rank(
    how: str, ranks: int, why: str, two: Path, four: Path
) -> None:
    done = start(ranks, "tests.sharding.rank_program", how, str(two if ranks == 2 else four))
    assert done.returncode != 0
    lost = LOST.format(device=ranks - 1)
    for rank in range(ranks - 1):
        assert re.search(rf"rank {rank} says error\[device-\w+\]: {lost}{why}", done.stderr), done.stderr


@pytest.mark.parametrize(
    ("how", "name", "ranks", "leaver", "why"),
    [
        ("kill", "pipeline", 2, 1, "has died"),
        ("kill", "pipeline", 4, 1, "has died"),
        ("stop", "grid", 4, 2, "has not shown any life for 5 s"),
    ],
)
def test_a_pipeline_that_loses_a_rank_within_a_call_ends_with_an_error_that_names_it(
    how: str, name: str, ranks: int, leaver: int, why: str, two: Path, four: Path
) -> None:
    folder = two if ranks == 2 else four
    done = start(ranks, "tests.sharding.rank_program", how, str(folder), name, str(leaver))
    assert done.returncode != 0
    lost = LOST.format(device=leaver)
    for rank in set(range(ranks)) - {leaver}:
        assert re.search(rf"rank {rank} says error\[device-\w+\]: {lost}{why}", done.stderr), done.stderr


def test_a_rank_that_computes_prints_what_ends_it(two: Path) -> None:
    done = start(2, "tests.sharding.rank_program", "compute", str(two))
    assert done.returncode != 0
    assert re.search(rf"^error\[device-lost\]: {LOST.format(device=1)}has died", done.stderr, re.MULTILINE), done.stderr
