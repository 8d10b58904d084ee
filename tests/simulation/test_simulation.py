"""Simulated calls: the exchanges that real devices make, bytes by closed forms, and memory, without weights."""

import json
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import ModelProto

import onnxc
from benchmarks.models.llama_outline import LLAMA_70B, Llama, llama_outline
from onnxc.command_line.main import main
from onnxc.compiler.codegen_cpu.plan_target import cpu_plan_target
from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.simulation.network import Link, Network, exchanged, parse_network
from onnxc.compiler.simulation.simulation import Simulation
from onnxc.compiler.simulation.timeline import Sent, turns
from onnxc.compiler.simulation.walk_plan import Machines, walk_plan
from onnxc.compiler.target import parse_target
from onnxc.runtime.errors import InputError, ModelError, OnnxcError, UnsupportedError
from onnxc.runtime.host.rendezvous import Combine, Rendezvous
from onnxc.runtime.host.values import HostValue
from onnxc.runtime.values import as_array
from tests.sharding.annotated import CONFIG
from tests.sharding.test_devices import column_then_row, told
from tests.sharding.test_overlap import branches
from tests.sharding.test_stages import mlp

NETWORK = "alpha=1e-6,beta=1e-9"


# The network


@pytest.mark.parametrize(
    ("name", "devices", "messages", "nbytes", "sent"),
    [
        ("all_reduce", 4, 6, 1536, 1536),
        ("all_gather", 4, 3, 3072, 3072),
        ("reduce_scatter", 4, 3, 768, 768),
        ("all_to_all", 4, 3, 768, 768),
        ("permute", 4, 1, 1024, 1024),
        ("send", 2, 1, 1024, 1024),
        ("all_reduce", 1, 0, 0, 0),
    ],
)
def test_exchanges_of_1024_bytes_take_the_closed_forms(
    name: str, devices: int, messages: int, nbytes: int, sent: int
) -> None:
    """A byte takes as long as a message, so that the ring is the faster all_reduce."""
    made = exchanged(name, 1024, range(devices), Network(Link(1.0, 1.0)))
    assert (made.seconds, made.sent_bytes) == (messages + nbytes, sent)


def test_few_bytes_are_reduced_by_a_tree_and_many_by_a_ring() -> None:
    network = Network(Link(1.0, 1e-3))
    short, long = (exchanged("all_reduce", nbytes, range(64), network) for nbytes in (8, 1 << 20))
    assert (short.algorithm, short.seconds) == ("tree", pytest.approx(12 * (1 + 8e-3)))
    assert (long.algorithm, long.seconds) == ("ring", pytest.approx(126 + 126 / 64 * (1 << 20) * 1e-3))


def test_a_group_within_a_node_has_its_faster_link() -> None:
    said = {"alpha": 10, "beta": 0, "node": {"devices": 4, "alpha": 1, "beta": 0}}
    network = parse_network(said)
    assert [exchanged("all_gather", 8, group, network).seconds for group in ((4, 5, 6, 7), (2, 3, 4, 5))] == [3, 30]


def test_a_network_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "net.json").write_text('{"alpha": 2e-6, "beta": 3e-11}')
    assert parse_network(tmp_path / "net.json") == parse_network("alpha=2e-6, beta=3e-11") == Network(Link(2e-6, 3e-11))


@pytest.mark.parametrize(
    "said",
    [
        *("alpha=1", "alpha=1,beta=x", "alpha=-1,beta=0", "alpha=nan,beta=0", "alpha=1,beta=0,gamma=1", "alpha"),
        *({"alpha": 1}, {"alpha": True, "beta": 0}, {"alpha": 10**400, "beta": 0}, {"alpha": [], "beta": 0}, 3),
        {"alpha": 1, "beta": 0, "node": {"devices": 0, "alpha": 1, "beta": 0}},
        {"alpha": 1, "beta": 0, "node": 8},
    ],
)
def test_what_is_no_network_is_an_input_error(said: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("alpha").write_text("no JSON")
    with pytest.raises(InputError) as problem:
        parse_network(said)
    assert problem.value.code == "network-figures"


# The timeline


def test_stages_that_take_equally_long_overlap_but_for_filling_the_pipeline() -> None:
    """m parts through s stages take m + s - 1 times as long as one stage does one part."""
    sent = [Sent(0, 1, 0.0), Sent(1, 2, 0.0)]
    assert max(turn.end for turn in turns([(0,), (1,), (2,)], [[2.0] * 3] * 4, [sent] * 4)) == 2.0 * (4 + 3 - 1)


def test_a_stage_waits_for_what_is_sent_and_for_its_devices() -> None:
    """The third segment is of the devices of the first one again."""
    made = turns([(0,), (1,), (0,)], [[1.0] * 3] * 2, [[Sent(0, 1, 0.5), Sent(1, 2, 0.25)]] * 2)
    assert [(turn.segment, turn.part, turn.start) for turn in made] == [
        *((0, 0, 0.0), (1, 0, 1.5), (2, 0, 2.75)),
        *((0, 1, 3.75), (1, 1, 5.25), (2, 1, 6.5)),
    ]


# What devices really exchange


class Counted(Rendezvous):
    """Counts what devices bring to exchanges, and what they send."""

    def __init__(self, count: int, seconds: float) -> None:
        super().__init__(count, seconds)
        self.brought: Counter[tuple[str, int]] = Counter()
        CALLS.append(self)

    def bring(
        self, device: int, name: str, operand: np.ndarray, attributes: Mapping[str, object], combine: Combine
    ) -> Callable[[], np.ndarray]:
        self.brought[name, operand.nbytes] += 1
        return super().bring(device, name, operand, attributes, combine)

    def send(self, device: int, target: int, key: Hashable, value: HostValue) -> None:
        self.brought["send", as_array(value).nbytes] += 1
        super().send(device, target, key, value)


CALLS: list[Counted] = []


def brought(found: Simulation) -> Counter[tuple[str, int]]:
    """How often a device brings so many bytes to an exchange."""
    of_stage = Counter({stage: len(each.devices) for each in found.classes for stage in each.stages})
    total: Counter[tuple[str, int]] = Counter()
    for each in found.exchanges:
        total[each.op, each.nbytes] += each.count * of_stage[each.stage]
    return total


@pytest.mark.parametrize(
    ("model", "config", "width", "options"),
    [
        (column_then_row(), CONFIG, 8, {}),
        (onnxc.shard(mlp(4, 16, 1), tp=2, pp=2, dp=2), "tp2pp2dp2", 16, {"microbatches": 3}),
    ],
)
def test_real_devices_exchange_what_is_simulated_and_hold_the_same_weights(
    model: ModelProto, config: str, width: int, options: Mapping[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onnxc.runtime.devices.device_threads.Rendezvous", Counted)
    exe = onnxc.compile(model, config=config, microbatches=options.get("microbatches"))
    CALLS.clear()
    exe(np.ones((8, width), np.float32))
    found = onnxc.simulate(model, NETWORK, {"N": 8}, config=config, microbatches=options.get("microbatches"))
    assert sum(CALLS[-1].brought.values()) > 0
    assert brought(found) == CALLS[-1].brought
    devices = told(exe)
    listed = devices.get("segments", [devices])
    assert isinstance(listed, list)
    real = [each["share_bytes"] for each in listed if isinstance(each, dict)]
    assert [[each.memory.weights] * len(each.devices) for each in found.classes] == real


# What overlaps


def test_of_an_exchange_and_what_does_not_depend_on_it_the_longer_one_counts() -> None:
    """Two products with gathers behind them, and one that is read with both: its time is within that of the gathers."""
    found = onnxc.simulate(branches(), "alpha=1e-3,beta=0", {"N": 64})
    (each,) = found.classes
    computing = [event for event in each.events if event.kind == "compute"]
    exchanging = [event for event in each.events if event.kind == "collective"]
    assert [event.seconds for event in exchanging] == pytest.approx([3e-3, 3e-3])
    assert exchanging[1].start == pytest.approx(exchanging[0].start + 3e-3)
    first, *between, last = computing
    assert (first.start, exchanging[0].start) == (0, first.seconds)
    assert last.start == exchanging[1].start + exchanging[1].seconds
    assert each.overlapped_seconds == pytest.approx(sum(event.seconds for event in between)) != 0
    assert found.seconds == pytest.approx(first.seconds + 6e-3 + last.seconds)
    assert sum(found.shares.values()) == pytest.approx(1)


GATHERED = """module "m" {
function main(%x: f32[N, 4], %w: f32[4, 4], %v: f32[4, 64]) -> ("y", "z") where N in [0, ...] {
  %0 = dot %x, %w {dtype = f32, equation = "mk,kn->mn"} : f32[N, 4]
  %1 = all_gather %0 {axis = 0, groups = [[0, 1]]} : f32[2*N, 4]
  %2 = dot %x, %v {dtype = f32, equation = "mk,kn->mn"} : f32[N, 64]
  return %1, %2
}
}"""


def test_what_is_brought_to_an_exchange_is_in_memory_until_its_result_is_read() -> None:
    """Behind the second product there are the first one, which is released, what is gathered of it, and the second."""
    target = parse_target("cpu")
    plan = plan_kernels(parse_module(GATHERED), cpu_plan_target(target))
    cost = walk_plan(plan, (), {"N": 64}, Machines(target, Network(Link(1e-3, 0))))
    assert cost.peak_bytes == 64 * 4 * (4 + 2 * 4 + 64)


# A large model


@pytest.fixture(scope="module")
def large() -> Simulation:
    """Eight layers as wide as those of Llama 70B on 1,024 devices; there is no file with the weights."""
    sizes = Llama(8, LLAMA_70B.width, LLAMA_70B.heads, LLAMA_70B.groups, LLAMA_70B.inner, LLAMA_70B.vocabulary)
    model = llama_outline(sizes)
    return onnxc.simulate(model, NETWORK, {"batch": 128, "sequence": 128}, tp=8, pp=4, dp=32, devices=1024)


def test_a_model_without_its_weights_is_planned_for_1024_devices(large: Simulation) -> None:
    assert large.devices == 1024
    assert large.parts == 4
    assert sum(large.shares.values()) == pytest.approx(1)
    assert 0 < large.shares["exchanging"] < 1


def test_the_bytes_of_a_large_model_are_those_of_the_closed_forms(large: Simulation) -> None:
    """Each layer scatters the sums of attention and of the MLP, and gathers them where they are read.

    In each part of the call each of the 32 blocks of the batch has one row of it.
    """
    layers, parts, row = 8, 4, 128 * LLAMA_70B.width * 2
    counts: Counter[str] = Counter()
    for each in large.exchanges:
        if each.op == "reduce_scatter":
            assert (each.devices, each.nbytes, each.sent_bytes) == (8, row, row * 7 / 8)
        if each.op == "all_gather" and each.nbytes == row // 8:
            assert (each.devices, each.sent_bytes) == (8, row // 8 * 7)
        counts[each.op] += each.count
    # The lookup is divided by columns, too; logits are gathered along the vocabulary and the batch.
    assert counts == {
        "reduce_scatter": 2 * layers * parts,
        "all_gather": (2 * layers + 1 + 2) * parts,
        "send": 3 * parts,
    }
    sums = [(each.sent_bytes * each.count, each.stage) for each in large.exchanges]
    for found in large.classes:
        assert found.sent_bytes == pytest.approx(sum(nbytes for nbytes, stage in sums if stage in found.stages))


def test_the_weights_of_a_large_model_are_on_the_devices_of_a_block(large: Simulation) -> None:
    """Eight devices of each of four stages hold it once, but for scales, which each device of a stage holds whole."""
    sizes = Llama(8, LLAMA_70B.width, LLAMA_70B.heads, LLAMA_70B.groups, LLAMA_70B.inner, LLAMA_70B.vocabulary)
    held = sum(each.memory.weights * 8 for each in large.classes)
    scales = (2 * sizes.layers + 1) * sizes.width * 2
    assert held == sizes.weights * 2 + 7 * scales


def test_a_gpu_computes_faster_and_exchanges_the_same() -> None:
    model = llama_outline(Llama(1, 256, 8, 2, 512, 1024))
    cpu, gpu = (
        onnxc.simulate(model, NETWORK, {"batch": 4, "sequence": 64}, target, tp=2) for target in ("cpu", "cuda:sm_90")
    )
    assert cpu.exchanges == gpu.exchanges
    assert cpu.classes[0].computing_seconds > gpu.classes[0].computing_seconds > 0


# What is told, and errors


def test_the_command_prints_json_and_writes_a_page(tmp_path: Path) -> None:
    onnx.save(column_then_row(), tmp_path / "m.onnx")
    arguments = ["simulate", str(tmp_path / "m.onnx"), "--network", NETWORK, "--dim", "N=8"]
    said = CliRunner().invoke(main, [*arguments, "--json", "--html", str(tmp_path / "m.html")])
    assert said.exit_code == 0, said.output
    told_json = json.loads(said.stdout)
    assert told_json == json.loads(json.dumps(onnxc.simulate(column_then_row(), NETWORK, {"N": 8}).to_json()))
    page = (tmp_path / "m.html").read_text()
    assert '"configuration": "mesh"' in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    tables = CliRunner().invoke(main, arguments)
    assert "all_reduce" in tables.stdout


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"config": "other"}, "unknown-config"),
        ({"devices": 1024}, "device-count-differs"),
        ({"devices": 0}, "device-count-differs"),
        ({"devices": 4.0}, "option-type"),
        ({"dims": {}}, "simulated-sizes"),
        ({"dims": {"N": (1, 8)}}, "simulated-sizes"),
        ({"dims": {"N": 8, "M": 1}}, "unknown-dim"),
        ({"config": CONFIG, "tp": 2}, "config-twice"),
        ({"tp": 0}, "shard-count"),
        ({"microbatches": 2}, "microbatches-without-stages"),
        ({"microbatches": 0}, "microbatch-count"),
        ({"target": "interpreter"}, "option-type"),
    ],
)
def test_what_cannot_be_simulated_is_an_error(options: Mapping[str, object], code: str) -> None:
    with pytest.raises(OnnxcError) as problem:
        onnxc.simulate(**{"model": column_then_row(), "network": NETWORK, "dims": {"N": 8}, **options})  # type: ignore[arg-type]
    assert problem.value.code == code


def test_a_model_without_annotations_is_told_what_to_ask_for() -> None:
    model = column_then_row()
    del model.configuration[:]
    for each in model.graph.node:
        del each.device_configurations[:]
    with pytest.raises(InputError, match="has none: give tp, pp or dp"):
        onnxc.simulate(model, NETWORK, {"N": 8})


def test_weights_that_no_memory_can_be_reserved_for_are_an_error() -> None:
    model = llama_outline(Llama(1, 256, 8, 2, 512, 1024))
    model.graph.initializer[0].dims[:] = [1 << 40, 1 << 20]
    del model.graph.initializer[0].external_data[2]
    with pytest.raises(ModelError, match="more than can be reserved"):
        onnxc.simulate(model, NETWORK, {"batch": 4, "sequence": 64}, tp=2)


def test_a_size_that_only_data_decides_is_refused() -> None:
    model = onnx.parser.parse_model("""<ir_version: 11, opset_import: ["": 21]>
        g (float[N, 4] x) => (int64[2, M] y) { h = Relu(x) i = NonZero(h) y = Mul(i, i) }""")
    with pytest.raises(UnsupportedError) as problem:
        onnxc.simulate(model, NETWORK, {"N": 8}, dp=2)
    assert problem.value.code == "unsupported-simulation"
