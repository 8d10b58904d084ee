"""Decoders for a GPU, on a fake one: the caches stay in its memory, and values are those of decoders for the CPU."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

import onnxc
from benchmarks.gpu.emitted import emitted_decoder
from onnxc.compiler.codegen_gpu.schedules import attention
from onnxc.compiler.codegen_host import segment_parts
from onnxc.compiler.compile_decoder import plan_decoder
from onnxc.compiler.options import make_options
from onnxc.compiler.planning.check_plan import check_plan
from onnxc.compiler.planning.kernel_plan import Segment
from onnxc.runtime.decoding.decoder import Decoder
from onnxc.runtime.decoding.load_decoder import make_compiled_decoder, make_decoder
from onnxc.runtime.decoding.session import Session
from onnxc.runtime.encoding import DecodeError, decode_program, encode_program
from onnxc.runtime.gpu import load as runtime_of_devices
from onnxc.runtime.gpu.arrays import DeviceArray
from onnxc.runtime.load import read_artifact
from tests.decoding.models import attending, positioned, summing
from tests.models import builders
from tests.support.fake_gpu import FakeDecoder, decoder_on_fake, fake_kernels
from tests.support.models import model_from_text

_BF16 = make_options("cuda:sm_90", precision="bf16", cache=False)


@pytest.fixture(scope="module")
def sums_there() -> FakeDecoder:
    return decoder_on_fake(model_from_text(summing()))


def memory_of(session: Session) -> list[DeviceArray]:
    """The caches of a session on a device."""
    arrays = [value for value in session._memory.values if isinstance(value, DeviceArray)]
    assert len(arrays) == len(session._memory.values)
    return arrays


def assert_same_logits(there: Session, here: Session, chunks: Sequence[object]) -> None:
    """Both sessions give the same logits for what they are fed, as far as sums in another order do."""
    for chunk in chunks:
        got, expected = there.feed(chunk), here.feed(chunk)
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("build", [builders.decoder, builders.llama], ids=["gpt", "grouped_heads"])
def test_logits_are_those_of_a_decoder_for_the_cpu(build: object) -> None:
    model = build("dynamo").model  # type: ignore[operator]
    fake, host = decoder_on_fake(model), onnxc.compile_decoder(model, threads=1)
    for batch in (1, 2):
        there, here = fake.decoder.session(batch, capacity=5), host.session(batch)
        tokens = np.random.default_rng(batch).integers(0, builders.VOCABULARY, (batch, 8))
        # A prompt, tokens one by one over the end of the memory, then several at once.
        assert_same_logits(there, here, (tokens[:, :3], *np.hsplit(tokens[:, 3:6], 3), tokens[:, 6:]))
        assert (there.length, there.capacity) == (8, 64)
        there.truncate(4)
        here.truncate(4)
        assert_same_logits(there, here, [tokens[:, :1]])
    fake.driver.check()


def test_new_rows_are_written_where_the_cache_is_and_nothing_else(sums_there: FakeDecoder) -> None:
    session = sums_there.decoder.session(capacity=8)
    (memory,) = memory_of(session)
    with memory.device.current():
        # What lies behind the rows in use is read by nobody.
        memory.device.upload(memory.address, np.full((1, 8, 2), np.nan, np.float32))
    assert [session.feed([token]).tolist() for token in (3, 0)] == [[[2, 0, 2, 4, 0]], [[2, 1, 3, 4, 2]]]
    assert memory_of(session) == [memory]
    expected = np.full((1, 8, 2), np.nan, np.float32)
    expected[0, :2] = (2, 0), (0, 1)
    assert np.array_equal(memory.numpy(), expected, equal_nan=True)
    assert session.cache_bytes == memory.nbytes == 8 * 2 * 4


def test_nothing_of_a_cache_is_copied_in_a_step(sums_there: FakeDecoder) -> None:
    driver = sums_there.driver
    session = sums_there.decoder.session(capacity=4)
    session.feed([0])
    before = len(driver.calls)
    session.feed([0])
    calls = [name for name in driver.calls[before:] if "Mem" in name or "Synchronize" in name]
    # One copy brings the tokens and the mask; two take back the logits, and whether the data was legal.
    copies = ["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync_v2"]
    assert calls == [*copies, "cuStreamSynchronize"]


@pytest.mark.parametrize("build", [builders.decoder, builders.llama], ids=["gpt", "grouped_heads"])
def test_the_report_says_that_a_step_reads_each_element_of_a_cache_once(build: object) -> None:
    """By attention, in the type that is multiplied; keys and values of a layer are written by one launch."""
    report = emitted_decoder(build("dynamo").model, _BF16, fake_kernels).report  # type: ignore[operator]
    assert isinstance(report, dict)
    writes = [each for each in report["launches"] if each["kind"] == "concatenate"]
    assert writes
    assert not [each for each in writes if "capacity" in each["read_bytes"]["size"] + each["written_bytes"]["size"]]


def graph_counts(fake: FakeDecoder) -> tuple[int, int]:
    """How many graphs were captured, and how many launched, so far."""
    return fake.driver.calls.count("cuGraphInstantiateWithFlags"), fake.driver.calls.count("cuGraphLaunch")


def test_one_graph_serves_all_steps_until_the_memory_grows() -> None:
    fake = decoder_on_fake(model_from_text(summing()))
    assert fake.artifact.report["growing"]["one_graph"]  # type: ignore[index, call-overload]
    session = fake.decoder.session(batch=2, capacity=70)
    assert session.feed([[0] * 6, [1] * 6]).tolist() == [[0, 6, 6, 0, 12], [6, 0, 6, 12, 0]]
    assert graph_counts(fake) == (0, 0)
    for count in range(7, 71):
        expected = [[0, count, count, 0, 2 * count], [count, 0, count, 2 * count, 0]]
        assert session.feed([0, 1]).tolist() == expected
    # The first call is not captured: it may be the last of its kind.
    assert graph_counts(fake) == (1, 63)
    session.feed([0, 1])
    assert session.capacity == 105
    assert graph_counts(fake) == (1, 63)
    # What was forgotten, and sequences in another order, are the same to a graph.
    session.truncate(3)
    session.reorder([1, 0])
    assert session.feed([3, 3]).tolist() == [[5, 0, 5, 10, 0], [2, 3, 5, 4, 6]]
    assert session.feed([3, 3]).tolist() == [[7, 0, 7, 14, 0], [4, 3, 7, 8, 6]]
    assert graph_counts(fake) == (2, 65)
    fake.driver.check()


def test_a_prompt_has_no_more_memory_than_its_own_sizes_need() -> None:
    small: list[int] = []
    large: list[int] = []
    for capacity, arenas in ((8, small), (5000, large)):
        session = decoder_on_fake(model_from_text(attending())).decoder.session(capacity=capacity)
        for tokens in ([0, 1, 2, 1], [1], [1]):
            session.feed(tokens)
            arenas.append(session._executable._engine.stats().arena_bytes)
    # Steps, which come again, have memory for the capacity.
    assert small[0] == large[0]
    assert large[2] > small[2] >= small[0]


def test_a_call_takes_the_variants_of_its_own_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    # So many keys or more are divided among programs.
    monkeypatch.setattr(attention, "LEAST_KEYS", 8)
    model = builders.llama("dynamo").model
    fake, host = decoder_on_fake(model), onnxc.compile_decoder(model, threads=1)
    assert_same_logits(fake.decoder.session(capacity=16), host.session(), [[7, 1, 3, 9], *([k] for k in range(6))])
    # With 5, 6 and 7 keys one variant, with 8, 9 and 10 another: of these the first one is not captured.
    assert graph_counts(fake) == (2, 5)
    fake.driver.check()


def test_attention_of_the_standard_reads_its_cache_in_one_graph() -> None:
    model = model_from_text(attending())
    fake, host = decoder_on_fake(model), onnxc.compile_decoder(model, threads=1)
    for batch, graphs in ((1, (1, 2)), (2, (2, 4))):
        there, here = fake.decoder.session(batch, capacity=8), host.session(batch)
        tokens = np.random.default_rng(batch).integers(0, 3, (batch, 7))
        assert_same_logits(there, here, (tokens[:, :4], *np.hsplit(tokens[:, 4:], 3)))
        assert graph_counts(fake) == graphs
    fake.driver.check()


def test_functions_of_a_long_segment_share_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_parts, "MOST_LAUNCHES", 4)
    model = builders.decoder("dynamo").model
    fake, host = decoder_on_fake(model), onnxc.compile_decoder(model, threads=1)
    assert_same_logits(fake.decoder.session(capacity=9), host.session(), [[3, 1], [4], [1], [5], [9]])
    assert graph_counts(fake) == (1, 3)
    fake.driver.check()


def test_what_one_graph_cannot_serve_is_launched_kernel_by_kernel_and_the_report_says_so() -> None:
    outputs, ops = "present, float[batch, total] weights)", "weights = Cast <to = 1> (attention_mask)\n  one = "
    text = summing().replace("present)", outputs, 1).replace("one = ", ops, 1)
    fake = decoder_on_fake(model_from_text(text))
    assert fake.artifact.program.growth is None
    expected = {"one_graph": False, "reason": "the size of an output grows"}
    assert fake.artifact.report["growing"] == expected  # type: ignore[index, call-overload]
    session = fake.decoder.session(capacity=8)
    assert [session.feed([0]).tolist() for _ in range(3)] == [[[0, k, k, 0, 2 * k]] for k in (1, 2, 3)]
    assert graph_counts(fake) == (0, 0)


def test_a_file_with_a_table_that_does_not_fit_is_refused(sums_there: FakeDecoder) -> None:
    program = sums_there.artifact.program
    growth = program.growth
    assert growth is not None
    for wrong in (
        replace(growth, limits=((0, 99),)),
        replace(growth, choices=growth.words + 1),
        replace(growth, words=-1),
        replace(growth, room=growth.room[1:]),
        replace(growth, room=("import",) * len(growth.room)),
    ):
        with pytest.raises(DecodeError):
            decode_program(encode_program(replace(program, growth=wrong)), sums_there.artifact.weights.nbytes)


def test_memory_grows_by_half_and_keeps_what_it_has(sums_there: FakeDecoder) -> None:
    session = sums_there.decoder.session(batch=2, capacity=2)
    capacities = [(session.feed(np.zeros((2, 32), np.int64)), session.capacity)[1] for _ in range(4)]
    assert capacities == [64, 64, 96, 144]
    assert session.feed([0, 1]).tolist() == [[0, 129, 129, 0, 258], [1, 128, 129, 2, 256]]


def test_a_beam_search_makes_sequences_copies_of_others(sums_there: FakeDecoder) -> None:
    session = sums_there.decoder.session(batch=3)
    session.reorder([2, 1, 0])
    session.feed([[0], [1], [3]])
    (memory,) = memory_of(session)
    # Each is read before any is written.
    session.reorder([2, 0, 0])
    assert memory.numpy()[:, 0].tolist() == [[2, 0], [0, 1], [0, 1]]
    assert session.feed([1, 0, 0]).tolist() == [[3, 0, 3, 6, 0], [0, 2, 2, 0, 4], [0, 2, 2, 0, 4]]


def test_padding_positions_and_rows_are_made_where_the_model_asks_for_them() -> None:
    fake = decoder_on_fake(model_from_text(positioned()))
    padded = fake.decoder.session(batch=2)
    assert padded.feed([[0, 0, 1], [0, 1, 1]], mask=[[0, 0, 1], [1, 1, 1]]).tolist() == [[0, 1, 2, 3], [2, 3, 2, 3]]
    assert padded.feed([[0], [0]]).tolist() == [[1, 2, 3, 4], [3, 4, 3, 4]]
    # No memory is for more rows than there are positions.
    assert padded.capacity == 9
    fake.driver.check()


def test_a_cache_that_is_read_in_halves_is_kept_in_them() -> None:
    fake = decoder_on_fake(builders.decoder("dynamo").model, precision="bf16")
    session = fake.decoder.session()
    wide = decoder_on_fake(builders.decoder("dynamo").model).decoder.session()
    got, expected = session.feed([3, 100, 41]), wide.feed([3, 100, 41])
    np.testing.assert_allclose(got, expected, rtol=0, atol=2**-6 * np.abs(expected).max())
    assert 2 * session.cache_bytes == wide.cache_bytes
    fake.driver.check()


def test_a_plan_writes_keys_and_values_of_a_layer_in_one_launch() -> None:
    plan, _ = plan_decoder(builders.llama("dynamo").model, make_options("cuda:sm_90"))
    check_plan(plan)
    (segment,) = [step for step in plan.body.steps if isinstance(step, Segment)]
    written = [launch.outputs for launch in segment.launches if launch.is_in_place]
    assert [[buffer.kind for buffer in outputs] for outputs in written] == [["input", "input"]] * 2


def test_tokens_are_picked_as_on_the_cpu_and_a_file_holds_all_of_it(
    sums_there: FakeDecoder, sums: Decoder, tmp_path: Path
) -> None:
    options = {"temperature": 1.0, "seed": 4}
    expected = list(sums.generate([0, 1], 6, **options))  # type: ignore[arg-type]
    assert list(sums_there.decoder.generate([0, 1], 6, **options)) == expected  # type: ignore[arg-type]
    sums_there.decoder.save(tmp_path / "sums.onnxc")
    driver = sums_there.driver.driver
    loaded = make_decoder(read_artifact(tmp_path / "sums.onnxc"), driver=driver)
    assert list(loaded.generate([0, 1], 6, **options)) == expected  # type: ignore[arg-type]


def test_a_call_that_fails_has_changed_nothing() -> None:
    session = decoder_on_fake(model_from_text(positioned())).decoder.session()
    session.feed([1])
    with pytest.raises(onnxc.InputError) as caught:
        session.feed([0] * 9)
    assert caught.value.code == "sequence-length"
    assert session.feed([1]).tolist() == [[1, 2, 1, 2]]


def test_more_memory_than_a_device_has_is_refused(sums_there: FakeDecoder) -> None:
    session = sums_there.decoder.session(capacity=4)
    session.feed([0])
    with pytest.raises(onnxc.DeviceError) as caught:
        sums_there.decoder.session(capacity=1 << 40)
    assert caught.value.code == "out-of-device-memory"
    assert session.feed([0]).tolist() == [[0, 2, 2, 0, 4]]


def test_what_is_compiled_where_there_is_no_gpu_can_be_saved(
    sums_there: FakeDecoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_of_devices, "this_driver", no_driver)
    decoder = make_compiled_decoder(sums_there.artifact)
    with pytest.raises(onnxc.DeviceError) as caught:
        decoder.session().feed([0])
    assert caught.value.code == "no-cuda-driver"
    decoder.save(tmp_path / "sums.onnxc")
    loaded = make_decoder(read_artifact(tmp_path / "sums.onnxc"), driver=sums_there.driver.driver)
    assert loaded.session().feed([0]).tolist() == [[0, 1, 1, 0, 2]]


def no_driver() -> NoReturn:
    raise onnxc.DeviceError("there is no driver here", code="no-cuda-driver")
