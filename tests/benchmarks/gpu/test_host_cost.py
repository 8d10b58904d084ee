"""The cost of calls on the host: what a call asks of a driver that does nothing. No times are looked at."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.gpu.host_cost import Stubbed, arrays_at, host_cost, main, on_stub, table_of
from benchmarks.inputs import InputSpec, ModelSpec
from onnxc.runtime.gpu.arrays import DeviceArray
from tests.models.builders import Built, decoder


@pytest.fixture(scope="module")
def built() -> Built:
    return decoder("dynamo")


@pytest.fixture(scope="module")
def stubbed(built: Built) -> Iterator[Stubbed]:
    return on_stub(built.model.SerializeToString())


def spec_of(built: Built) -> ModelSpec:
    inputs = tuple(InputSpec(x.name, x.dtype, tuple(x.shape), x.fill, x.high) for x in built.inputs)
    return ModelSpec("decoder", None, inputs, (), built.sizes)  # type: ignore[arg-type]


def called(stubbed: Stubbed, arrays: list[DeviceArray]) -> dict[str, int]:
    """What a call calls, and how often."""
    before = stubbed.stub.calls
    stubbed.executable(*arrays)
    return {name: count - before[name] for name, count in stubbed.stub.calls.items() if count != before[name]}


def test_a_call_at_known_addresses_is_one_graph(stubbed: Stubbed, built: Built) -> None:
    same = arrays_at(stubbed, spec_of(built), built.sizes["one"])
    for _ in range(3):
        called(stubbed, same)
    assert called(stubbed, same) == {
        "cuCtxGetCurrent": 1, "cuEventRecord": 1, "cuStreamWaitEvent": 1, "cuGraphLaunch": 1, "cuStreamSynchronize": 1,
    }  # fmt: skip


def test_the_tenth_growing_call_allocates_nothing_and_keeps_the_graphs(stubbed: Stubbed, built: Built) -> None:
    spec, sizes = spec_of(built), dict.fromkeys(built.sizes["one"], 9) | {"batch": 1}
    same = arrays_at(stubbed, spec, sizes)
    for _ in range(3):
        called(stubbed, same)
    grown = [called(stubbed, arrays_at(stubbed, spec, sizes | {"past": 9 + step})) for step in range(1, 11)]
    assert grown[-1].keys() >= {"cuLaunchKernelEx"}
    assert not grown[-1].keys() & {"cuMemAlloc_v2", "cuMemHostAlloc", "cuGraphExecDestroy"}
    assert grown[-1]["cuStreamSynchronize"] == 1


def test_a_model_that_the_folder_does_not_have_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    monkeypatch.setattr(sys, "argv", ["host_cost", "--models", str(tmp_path), "--only", "bert"])
    with pytest.raises(SystemExit):
        main()
    assert f"{tmp_path} has no bert" in capsys.readouterr().err


def test_the_table_has_a_row_for_a_model(stubbed: Stubbed, built: Built) -> None:
    row = host_cost(stubbed, spec_of(built), calls=3, rounds=1)
    assert row.launches > 1
    assert row.inputs == len(built.inputs)
    head, _, line = table_of([row]).splitlines()
    assert head.startswith("| model | inputs | outputs | launches | same us | growing us | allocations | waits |")
    assert line.startswith("| decoder |")
