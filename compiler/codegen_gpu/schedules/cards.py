"""The cards that kernels are compiled for: the limits that a kernel must keep, and peaks for the cost model.

An architecture stands for the card of its generation that models are served on. Limits are those of the CUDA C++
Programming Guide, "Technical Specifications per Compute Capability"; the rest is from the data sheet named. Peaks are
dense, without sparsity, and no kernel reaches them; measured figures belong to calibration data, not here.
"""

import re
from collections.abc import Mapping
from typing import Literal

from onnxc.compiler.target import Target
from onnxc.runtime.errors import UnsupportedError
from onnxc.runtime.records import record

__all__ = ["CARDS", "WARP_THREADS", "Card", "Unit", "card_of"]

# What multiplies: the tensor cores by the type of the operands, and the plain fp32 units.
Unit = Literal["bf16", "fp16", "tf32", "int8", "fp8", "fp32"]

WARP_THREADS = 32
"""The threads of a warp, of every card."""

WARP_GROUPS_FROM = 90
"""The first architecture whose tensor cores are fed by groups of warps."""


@record
class Card:
    """A card of an architecture.

    architecture: 90 for sm_90. shared_bytes: static and dynamic shared memory that a CTA may have.
    shared_bytes_per_sm: what the CTAs on an SM share, of which each takes `reserved_shared_bytes` for the system.
    bandwidth: of the device memory, bytes/s. peak: operations/s of each unit, a multiply-add being two.
    """

    name: str
    source: str
    architecture: int
    sms: int
    shared_bytes: int
    shared_bytes_per_sm: int
    reserved_shared_bytes: int
    l2_bytes: int
    memory_bytes: int
    bandwidth: float
    peak: Mapping[Unit, float]
    registers_per_sm: int = 65536
    registers_per_thread: int = 255
    threads_per_block: int = 1024
    threads_per_sm: int = 2048
    blocks_per_sm: int = 32

    @property
    def multiplies_in_groups(self) -> bool:
        """Whether groups of four warps multiply, which read operands in shared memory; else single warps do."""
        return self.architecture >= WARP_GROUPS_FROM

    @property
    def hands_over(self) -> bool:
        """Whether warps that copy leave registers to those that multiply: compiled for, and read, on sm_90 alone."""
        return self.architecture == WARP_GROUPS_FROM

    def blocks_at_once(self, threads: int, registers: int, shared_bytes: int) -> int:
        """How many CTAs of so many threads, registers of each, and shared memory an SM can hold at once."""
        # Warps get registers in units of 256.
        warps = -(-threads // 32)
        registers_of_block = warps * -(-registers * WARP_THREADS // 256) * 256
        shared_of_block = shared_bytes + self.reserved_shared_bytes
        return min(
            self.blocks_per_sm,
            self.threads_per_sm // (warps * WARP_THREADS),
            self.registers_per_sm // max(1, registers_of_block),
            self.shared_bytes_per_sm // max(1, shared_of_block),
        )


_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30

CARDS: Mapping[str, Card] = {
    "sm_80": Card(
        name="A100 80GB SXM",
        source="NVIDIA A100 Tensor Core GPU data sheet; NVIDIA A100 Tensor Core GPU Architecture",
        architecture=80,
        sms=108,
        shared_bytes=163 * _KIB,
        shared_bytes_per_sm=164 * _KIB,
        reserved_shared_bytes=_KIB,
        l2_bytes=40 * _MIB,
        memory_bytes=80 * _GIB,
        bandwidth=2.039e12,
        peak={"bf16": 312e12, "fp16": 312e12, "tf32": 156e12, "int8": 624e12, "fp32": 19.5e12},
    ),
    "sm_90": Card(
        name="H200 SXM",
        source="NVIDIA H200 Tensor Core GPU data sheet; NVIDIA H100 Tensor Core GPU Architecture",
        architecture=90,
        sms=132,
        shared_bytes=227 * _KIB,
        shared_bytes_per_sm=228 * _KIB,
        reserved_shared_bytes=_KIB,
        l2_bytes=50 * _MIB,
        memory_bytes=141 * 10**9,
        bandwidth=4.8e12,
        peak={"bf16": 989e12, "fp16": 989e12, "tf32": 494e12, "int8": 1979e12, "fp8": 1979e12, "fp32": 67e12},
    ),
    "sm_100": Card(
        name="B200 SXM",
        source="NVIDIA HGX B200 data sheet; NVIDIA Blackwell Architecture Technical Brief",
        architecture=100,
        sms=148,
        shared_bytes=227 * _KIB,
        shared_bytes_per_sm=228 * _KIB,
        reserved_shared_bytes=_KIB,
        l2_bytes=126 * _MIB,
        memory_bytes=180 * 10**9,
        bandwidth=7.7e12,
        peak={"bf16": 2250e12, "fp16": 2250e12, "tf32": 1100e12, "int8": 4500e12, "fp8": 4500e12, "fp32": 75e12},
    ),
}  # fmt: skip


def card_of(target: Target) -> Card:
    """The card that a CUDA target stands for; UnsupportedError where kernels are not made for it."""
    assert target.kind == "cuda", target
    card = CARDS.get(re.sub(r"[af]$", "", target.name))
    if card is None:
        message = f'no kernels are made for "{target}"; known are {", ".join(f"cuda:{name}" for name in CARDS)}'
        raise UnsupportedError(message, code="unknown-architecture")
    return card
