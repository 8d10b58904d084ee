"""Targets: their names, what they imply, what is refused."""

import pytest

from onnxc.compiler import target as target_module
from onnxc.compiler.target import Target, known_targets, parse_target, without
from onnxc.runtime.errors import InputError

NAMES = [name for name in known_targets() if name.startswith("cpu:")]


@pytest.mark.parametrize("text", [*NAMES, "cpu:x86-64-v4+avx512bf16+avx512vnni", "cuda", "cuda:sm_90", "cuda:sm_90a",
                                  "interpreter"])  # fmt: skip
def test_text_round_trips(text: str) -> None:
    target = parse_target(text)
    assert str(target) == text
    assert parse_target(str(target)) == target


def test_this_machine_round_trips_by_its_full_name() -> None:
    host = parse_target("cpu")
    assert host.kind == "cpu"
    assert str(host).startswith("cpu:")
    assert parse_target(str(host)) == host


@pytest.mark.parametrize("text", ["", "tpu", "cpu:", "cpu:z80", "cpu:x86-64-v5", "cuda:90", "cuda:sm_", "interpreter:x",
                                  "cpu:x86-64-v3+avx1024", "cpu:aarch64+avx512vnni", "CPU"])  # fmt: skip
def test_unknown_targets_are_refused_with_what_is_known(text: str) -> None:
    with pytest.raises(InputError, match="known are") as caught:
        parse_target(text)
    assert caught.value.code == "unknown-target"


def test_levels_imply_one_another() -> None:
    levels = [set(parse_target(f"cpu:{name}").features) for name in ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")]
    assert levels[0] < levels[1] < levels[2] < levels[3]


@pytest.mark.parametrize(
    ("text", "bits", "registers"),
    [("cpu:x86-64-v2", 128, 16), ("cpu:haswell", 256, 16), ("cpu:znver4", 512, 32), ("cpu:neoverse-v1", 128, 32)],
)
def test_vectors(text: str, bits: int, registers: int) -> None:
    target = parse_target(text)
    assert (target.vector_bits, target.vector_registers) == (bits, registers)


def test_extras_add_to_the_features_and_repeat_nothing() -> None:
    plain, extended = parse_target("cpu:znver4"), parse_target("cpu:znver4+avxvnni+avx512vnni")
    assert extended.extras == ("avxvnni",)
    assert extended.has("avxvnni", "avx512vnni", "fma")
    assert not plain.has("avxvnni")


def test_a_target_without_an_instruction_set_has_all_others() -> None:
    target = parse_target("cpu:x86-64-v4+amx-int8+avx512vnni")
    assert str(without(target, "amx-int8")) == "cpu:x86-64-v4+avx512vnni"
    assert without(parse_target("cpu:znver4"), "amx-int8") == parse_target("cpu:znver4")


V4 = set(parse_target("cpu:x86-64-v4").features)
V3 = set(parse_target("cpu:x86-64-v3").features)


@pytest.mark.parametrize(
    ("architecture", "features", "expected"),
    [
        ("x86_64", V4 | {"avx512vnni", "sgx"}, "cpu:x86-64-v4+avx512vnni"),
        ("x86_64", V4 - {"avx512dq"} | {"avx512vnni", "avxvnni"}, "cpu:x86-64-v3+avxvnni"),
        ("x86_64", V4 | {"amx-int8"}, "cpu:x86-64-v4+amx-int8"),
        ("x86_64", V3 | {"amx-int8"}, "cpu:x86-64-v3"),
        ("x86_64", V3 - {"fma"}, "cpu:x86-64-v2"),
        ("x86_64", set(), "cpu:x86-64"),
        ("aarch64", {"neon", "dotprod", "bf16"}, "cpu:aarch64+bf16+dotprod"),
    ],
)
def test_the_host_is_the_best_level_it_fulfils(
    monkeypatch: pytest.MonkeyPatch, architecture: str, features: set[str], expected: str
) -> None:
    monkeypatch.setattr(target_module, "host_architecture", lambda: architecture)
    monkeypatch.setattr(target_module, "host_features", lambda: frozenset(features))
    assert str(parse_target("cpu")) == expected


def test_other_machines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_module, "host_architecture", lambda: "riscv64")
    with pytest.raises(InputError, match="this machine is riscv64"):
        parse_target("cpu")


def test_targets_compare_and_hash_by_value() -> None:
    assert len({parse_target("cpu:znver4"), parse_target("cpu:znver4"), Target("interpreter")}) == 2
