"""The cards: which targets have one, and how many CTAs they hold."""

import pytest

from onnxc.compiler.codegen_gpu.schedules.cards import CARDS, card_of
from onnxc.compiler.target import parse_target
from onnxc.runtime.errors import UnsupportedError


@pytest.mark.parametrize("name", CARDS)
def test_a_card_stands_for_its_architecture(name: str) -> None:
    card = card_of(parse_target(f"cuda:{name}"))
    assert name == f"sm_{card.architecture}"
    assert card.shared_bytes + card.reserved_shared_bytes == card.shared_bytes_per_sm
    assert card.registers_per_thread * card.threads_per_block // 4 < card.registers_per_sm
    assert card.peak["bf16"] == card.peak["fp16"] > card.peak["tf32"] > card.peak["fp32"]
    assert card.source


def test_the_forms_of_an_architecture_have_its_card() -> None:
    assert card_of(parse_target("cuda:sm_90a")) is CARDS["sm_90"]
    assert card_of(parse_target("cuda:sm_100f")) is CARDS["sm_100"]


@pytest.mark.parametrize("name", ["sm_75", "sm_9", "sm_1000"])
def test_an_architecture_without_a_card_is_named(name: str) -> None:
    with pytest.raises(UnsupportedError, match=rf'"cuda:{name}"; known are cuda:sm_80, cuda:sm_90') as refused:
        card_of(parse_target(f"cuda:{name}"))
    assert refused.value.code == "unknown-architecture"


@pytest.mark.parametrize(
    ("threads", "registers", "shared_bytes", "blocks"),
    [
        (32, 1, 0, 32),
        (1, 0, 0, 32),
        (128, 32, 0, 16),
        (1024, 64, 0, 1),
        (1024, 65, 0, 0),
        (256, 255, 0, 1),
        # 65 registers of a warp are 2080, which takes nine units of 256.
        (128, 65, 0, 7),
        (128, 32, 113 * 1024, 2),
        (128, 32, 113 * 1024 + 1, 1),
        (128, 32, 227 * 1024, 1),
        (128, 32, 227 * 1024 + 1, 0),
    ],
)
def test_blocks_at_once(threads: int, registers: int, shared_bytes: int, blocks: int) -> None:
    assert CARDS["sm_90"].blocks_at_once(threads, registers, shared_bytes) == blocks
