"""Floats of a byte or less as numbers of bits; the tables are those of ml_dtypes, whose casts are the meaning."""

from onnxc.compiler.ir.dtypes import (
    F4E2M1,
    F6E2M3,
    F6E3M2,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
)
from onnxc.runtime.records import record

__all__ = ["F32_MANTISSA", "FORMATS", "HALF", "Format"]

F32_MANTISSA, F32_BIAS = 23, 127


@record
class Format:
    """A narrow float; a code is its bits without the sign, which is the bit before them.

    `largest` is the code of the largest finite number, `overflow` what stands for all above it, `nan` what NaN becomes.
    Zero has no sign in an `unsigned_zero` format, where the bits of -0.0 are the one NaN.
    """

    bits: int
    mantissa: int
    bias: int
    largest: int
    overflow: int
    nan: int
    unsigned_zero: bool = False

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << (self.bits - 1)

    @property
    def least(self) -> float:
        """The least number above 0, whose code is 1."""
        return 2.0 ** (1 - self.bias - self.mantissa)

    @property
    def rebias(self) -> int:
        """What the exponent of f32 is larger by."""
        return F32_BIAS - self.bias

    @property
    def shift(self) -> int:
        """How many bits of an f32 mantissa have no room."""
        return F32_MANTISSA - self.mantissa


FORMATS = {
    F8E4M3FN: Format(8, mantissa=3, bias=7, largest=0x7E, overflow=0x7F, nan=0x7F),
    F8E4M3FNUZ: Format(8, mantissa=3, bias=8, largest=0x7F, overflow=0x80, nan=0x80, unsigned_zero=True),
    F8E5M2: Format(8, mantissa=2, bias=15, largest=0x7B, overflow=0x7C, nan=0x7E),
    F8E5M2FNUZ: Format(8, mantissa=2, bias=16, largest=0x7F, overflow=0x80, nan=0x80, unsigned_zero=True),
    # These three have no infinity and no NaN: what is too large is the largest number, and NaN a zero.
    F6E2M3: Format(6, mantissa=3, bias=1, largest=0x1F, overflow=0x1F, nan=0x20),
    F6E3M2: Format(6, mantissa=2, bias=3, largest=0x1F, overflow=0x1F, nan=0x20),
    F4E2M1: Format(4, mantissa=1, bias=1, largest=0x07, overflow=0x07, nan=0x08),
}

HALF = Format(16, mantissa=10, bias=15, largest=0x7BFF, overflow=0x7C00, nan=0x7E00)
"""f16, for processors without instructions that convert it."""
