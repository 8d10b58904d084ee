"""What is compiled of a decoder: which models are decoders, plans whose caches stay in place, files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import onnxc
from onnxc.compiler.compile_decoder import plan_decoder
from onnxc.compiler.options import make_options
from onnxc.compiler.planning.check_plan import check_plan
from onnxc.compiler.planning.kernel_plan import Buffer, KernelPlan, Segment
from onnxc.runtime.artifact import write_artifact
from onnxc.runtime.decoding.decoder import Decoder
from onnxc.runtime.load import read_artifact
from onnxc.runtime.program import JsonValue
from tests.decoding.models import summing
from tests.models import builders
from tests.support.models import model_from_text


def launches(plan: KernelPlan) -> list[tuple[str, tuple[Buffer, ...], tuple[Buffer, ...]]]:
    """The kind of each launch, what it reads and what it writes."""
    segments = [step for step in plan.body.steps if isinstance(step, Segment)]
    return [
        (plan.kernels[launch.general.kernel].kind, launch.inputs, launch.outputs)
        for segment in segments
        for launch in segment.launches
    ]


@pytest.mark.parametrize("build", [builders.decoder, builders.llama])
def test_caches_are_written_in_place_and_read_where_they_are(build: object) -> None:
    plan, description = plan_decoder(build("dynamo").model, make_options())  # type: ignore[operator]
    check_plan(plan)
    written = [(kind, read) for kind, read, (buffer,) in launches(plan) if buffer.kind == "input" and buffer in read]
    assert [kind for kind, _ in written] == ["concatenate"] * 4
    assert plan.function.result_names == ("logits",)
    assert (description.tokens, description.mask, description.logits) == ("input_ids", "attention_mask", "logits")
    # Attention reads keys and values in the memory of the caches.
    attention = [read for kind, read, _ in launches(plan) if kind == "attention"]
    assert [sum(buffer.kind == "input" for buffer in read) for read in attention] == [2, 2]


def test_the_report_says_that_a_step_writes_the_new_rows_alone(gpt: Decoder) -> None:
    report = gpt.report()
    assert isinstance(report, dict)
    written = [each["written_bytes"]["size"] for each in report["launches"] if each["kind"] == "concatenate"]
    row_bytes = builders.HEADS * builders.HEAD * 4
    assert written.count(f"{row_bytes}*batch*sequence") == 4


def test_steps_behind_sizes_that_data_decides_find_the_new_rows() -> None:
    # How many tokens count is known in the middle of a call only; the sum is added up as often.
    text = summing().replace(
        "sum = ReduceSum (counted, one)",
        """whole = ReduceSum (counted, one)
        zero = Constant <value = int64[1] {0}> ()
        ones = Constant <value = int64[2] {1, 1}> ()
        places = NonZero (attention_mask)
        numbers = Shape (places)
        count = Slice (numbers, one, last)
        shape = Concat <axis = 0> (count, ones)
        repeated = Expand (whole, shape)
        sum = ReduceSum (repeated, zero)""",
    )
    session = onnxc.compile_decoder(model_from_text(text), threads=1).session()
    assert session.feed([0, 3]).tolist() == [[4, 2, 6, 8, 4]]
    assert session.feed([1]).tolist() == [[9, 3, 12, 18, 6]]


def test_of_two_outputs_that_continue_an_input_the_first_is_its_cache() -> None:
    text = summing().replace(
        "float[batch, all, 2] present)", "float[batch, all, 2] present, float[batch, all, 2] other)"
    )
    text = text.replace("one = Constant", "other = Concat <axis = 1> (past, state) one = Constant")
    text = text.replace("present = Concat", "state = Sub (embedded, embedded) present = Concat")
    session = onnxc.compile_decoder(model_from_text(text), threads=1).session()
    assert [session.feed([token]).tolist() for token in (1, 0)] == [[[1, 0, 1, 2, 0]], [[1, 1, 2, 2, 2]]]


def test_a_plan_that_writes_over_what_it_still_reads_is_noticed() -> None:
    plan, _ = plan_decoder(model_from_text(summing()), make_options())
    (ordinal, segment), *_ = [(i, step) for i, step in enumerate(plan.body.steps) if isinstance(step, Segment)]
    *others, last = segment.launches
    wrong = replace(segment, launches=(*others, replace(last, outputs=(Buffer("input", 0),))))
    steps = (*plan.body.steps[:ordinal], wrong, *plan.body.steps[ordinal + 1 :])
    with pytest.raises(AssertionError, match="writes over"):
        check_plan(replace(plan, body=replace(plan.body, steps=steps)))


def test_what_would_stay_in_place_is_copied_where_the_result_is_elsewhere() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    replaced (float[N, 5] x, float[N, 2] new) => (float[N, 5] y)
    <int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3}, int64[1] five = {5}> {
      left = Slice (x, zero, one, one) right = Slice (x, three, five, one) y = Concat <axis = 1> (left, new, right)
    }"""
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    y = onnxc.compile(model_from_text(text), threads=1)(x, -np.ones((2, 2), np.float32))
    assert np.asarray(y).tolist() == [[0, -1, -1, 3, 4], [5, -1, -1, 8, 9]]


def test_only_the_last_row_of_logits_is_computed() -> None:
    plan, _ = plan_decoder(builders.decoder("dynamo").model, make_options())
    (head,) = [kernel for kernel in plan.kernels if kernel.kind == "contraction" and "101" in str(kernel.block.results)]
    assert head.block.results[0].shape[1:] == (1, builders.VOCABULARY)


def test_caches_are_kept_in_the_type_that_a_lower_precision_reads_them_in() -> None:
    plan, description = plan_decoder(builders.decoder("dynamo").model, make_options(precision="bf16"))
    parameters = {value.producer.name: value for value in plan.function.body.parameters}
    assert {str(parameters[name].type) for name in description.caches} == {"bf16[batch, 4, capacity, 8]"}
    # What attention reads of a cache is no copy of it.
    attention = [read for kind, read, _ in launches(plan) if kind == "attention"]
    assert [sum(buffer.kind == "input" for buffer in read) for read in attention] == [2, 2]


@pytest.mark.parametrize(("read", "dtype"), [("embedded", "bf16"), ("past", "f32")])
def test_a_cache_is_narrower_only_if_nothing_reads_it_as_it_is(read: str, dtype: str) -> None:
    rounded = "half = Cast <to = 16> (present) single = Cast <to = 1> (half) counted = Mul (single,"
    text = summing().replace("counted = Mul (present,", rounded)
    text = text.replace("row = Add (spread, sum)", f"other = ReduceSum ({read}, one) both = Add (sum, other)")
    text = text.replace("logits = MatMul", "row = Add (spread, both) logits = MatMul")
    plan, _ = plan_decoder(model_from_text(text), make_options())
    types = {value.producer.name: str(value.type) for value in plan.function.body.parameters}
    assert types["past"] == f"{dtype}[batch, capacity, 2]"


def test_a_decoder_is_saved_and_loaded(gpt: Decoder, tmp_path: Path) -> None:
    file = tmp_path / "gpt.onnxc"
    gpt.save(file)
    options = {"temperature": 1.0, "seed": 4}
    loaded = onnxc.load_decoder(file, threads=1)
    assert list(loaded.generate([1, 2], 5, **options)) == list(gpt.generate([1, 2], 5, **options))  # type: ignore[arg-type]
    assert onnxc.load_decoder(file, max_length=7).max_length == 7
    with pytest.raises(onnxc.InputError) as caught:
        onnxc.load(file)
    assert caught.value.code == "decoder-file"


def test_a_file_without_a_decoder_or_with_a_damaged_one_is_refused(sums: Decoder, tmp_path: Path) -> None:
    plain, damaged = tmp_path / "plain.onnxc", tmp_path / "damaged.onnxc"
    onnxc.compile(model_from_text(summing())).save(plain)
    with pytest.raises(onnxc.InputError) as caught:
        onnxc.load_decoder(plain)
    assert caught.value.code == "no-decoder"
    sums.save(plain)
    artifact = read_artifact(plain)
    said = artifact.provenance["decoder"]
    assert isinstance(said, dict)
    changes = ({"caches": {"past": 9}}, {"length": "x"}, {"lengths": -1}, {"logits": "z"}, {"vocabulary": "1"})
    wrong: list[dict[str, JsonValue]] = [{"decoder": {**said, **change}} for change in changes]
    for changed in (*wrong, {"sampler": ["?"]}, {"sampler": "AA=="}, {"decoder": 4}):
        write_artifact(replace(artifact, provenance={**artifact.provenance, **changed}), damaged)
        with pytest.raises(onnxc.DeviceError) as failed:
            onnxc.load_decoder(damaged)
        assert failed.value.code == "decoder-damaged"


def without_tokens() -> str:
    """Two inputs could be the tokens."""
    return summing().replace("input_ids,", "a, int64[batch, sequence] b,", 1).replace("input_ids", "a")


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (summing(present="Concat <axis = 1> (embedded, past)"), "decoder-cache", 'of input "past"'),
        (summing(present="Identity (embedded)"), "decoder-cache", 'of input "past"'),
        (without_tokens(), "decoder-roles", "no tokens"),
    ],
)
def test_models_that_are_no_decoders(text: str, code: str, said: str) -> None:
    with pytest.raises(onnxc.InputError, match=said) as caught:
        onnxc.compile_decoder(model_from_text(text))
    assert caught.value.code == code


def test_a_cache_with_a_size_that_nobody_says_is_refused() -> None:
    text = summing(present="Concat <axis = 1> (past, states)").replace("all, 2] present", "all, width] present")
    text = text.replace(
        "float[batch, past, 2] past", "float[batch, past, width] past, float[batch, sequence, width] states"
    )
    text = text.replace(
        "column = Unsqueeze (counts, last)", "column = Unsqueeze (counts, last) summed = ReduceSum (present)"
    )
    text = text.replace("counted = Mul (present, column)", "counted = Mul (column, summed)")
    decoder = onnxc.compile_decoder(model_from_text(text), threads=1)
    assert [info.name for info in decoder.inputs] == ["states"]
    with pytest.raises(onnxc.UnsupportedError) as caught:
        decoder.session(inputs={"states": np.zeros((1, 1, 3), np.float32)})
    assert caught.value.code == "unsupported-decoder-cache"


def test_targets_that_decoders_are_not_for() -> None:
    with pytest.raises(onnxc.UnsupportedError) as caught:
        onnxc.compile_decoder(model_from_text(summing()), target="interpreter")
    assert caught.value.code == "unsupported-decoder-target"
