"""Targets: what code is compiled for, named by a text such as "cpu", "cpu:x86-64-v3", "interpreter" or "cuda:sm_90".

Plain data; nothing here generates code.
"""

import re
from typing import Literal

from onnxc.runtime.cpu import host_architecture, host_features
from onnxc.runtime.errors import InputError
from onnxc.runtime.records import record

__all__ = ["Target", "known_targets", "parse_target", "without"]

Kind = Literal["cpu", "cuda", "interpreter"]


@record
class Target:
    """A kind of device and what it can execute; `parse_target(str(target)) == target`.

    name: the processor as LLVM calls it, "x86-64-v4" or "znver4", or the GPU's "sm_90"; empty if not yet known.
    features: LLVM's names of the instruction sets that kernels ask for; extras: those that `name` does not imply.
    vector_bits, vector_registers: the widest vectors that kernels should use, and how many of them there are.
    """

    kind: Kind
    name: str = ""
    arch: str = ""
    features: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    vector_bits: int = 0
    vector_registers: int = 0

    def __str__(self) -> str:
        return "+".join([f"{self.kind}:{self.name}" if self.name else self.kind, *self.extras])

    def has(self, *features: str) -> bool:
        """Whether all of these instruction sets are there."""
        return set(features) <= set(self.features)


@record
class _Processor:
    arch: str
    vector_bits: int
    vector_registers: int
    features: tuple[str, ...]

    def with_features(self, *features: str) -> "_Processor":
        return _Processor(self.arch, self.vector_bits, self.vector_registers, (*self.features, *features))


_V1 = _Processor("x86_64", 128, 16, ("sse2",))
_V2 = _V1.with_features("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = _Processor("x86_64", 256, 16, (*_V2.features, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"))
_V4 = _Processor("x86_64", 512, 32, (*_V3.features, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"))
_ICELAKE = _V4.with_features("avx512vnni", "avx512vbmi")
_ARM = _Processor("aarch64", 128, 32, ("neon",))
_ARM_DOT = _ARM.with_features("dotprod", "fullfp16")

_PROCESSORS = {
    "x86-64": _V1,
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
    "haswell": _V3,
    "skylake": _V3,
    "alderlake": _V3.with_features("avxvnni"),
    "skylake-avx512": _V4,
    "cascadelake": _V4.with_features("avx512vnni"),
    "icelake-server": _ICELAKE,
    "sapphirerapids": _ICELAKE.with_features("avx512bf16", "avx512fp16", "avxvnni"),
    "graniterapids": _ICELAKE.with_features("avx512bf16", "avx512fp16", "avxvnni"),
    "znver2": _V3,
    "znver3": _V3,
    "znver4": _ICELAKE.with_features("avx512bf16"),
    "znver5": _ICELAKE.with_features("avx512bf16", "avxvnni"),
    "aarch64": _ARM,
    "neoverse-n1": _ARM_DOT,
    "neoverse-v1": _ARM_DOT.with_features("bf16", "i8mm"),
    "neoverse-n2": _ARM_DOT.with_features("bf16", "i8mm"),
    "neoverse-v2": _ARM_DOT.with_features("bf16", "i8mm"),
    "apple-m1": _ARM_DOT,
}

# The levels that the detection of this machine chooses from, best first.
_LEVELS = {"x86_64": ("x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64"), "aarch64": ("aarch64",)}

# What may be added to a name with +: instruction sets that kernels ask for and no level implies.
_EXTRAS = {
    "x86_64": ("amx-bf16", "amx-int8", "avx512bf16", "avx512fp16", "avx512vbmi", "avx512vnni", "avxvnni"),
    "aarch64": ("bf16", "dotprod", "fullfp16", "i8mm"),
}


def known_targets() -> tuple[str, ...]:
    """The texts that `parse_target` knows, without the + forms."""
    return ("cpu", *(f"cpu:{name}" for name in _PROCESSORS), "cuda", "cuda:sm_<number>", "interpreter")


def parse_target(text: str) -> Target:
    """The target of that name; "cpu" is this machine, and instruction sets may be added: "cpu:x86-64-v4+avx512vnni"."""
    if text == "cpu":
        return _host_target()
    if text == "interpreter":
        return Target("interpreter")
    if text == "cuda":
        return Target("cuda")
    kind, _, rest = text.partition(":")
    if kind == "cuda" and re.fullmatch(r"sm_\d+[af]?", rest):
        return Target("cuda", name=rest, arch=rest)
    name, *extras = rest.split("+")
    if kind != "cpu" or name not in _PROCESSORS:
        raise InputError(f"target {text!r} is not known; known are {', '.join(known_targets())}", code="unknown-target")
    legal = _EXTRAS[_PROCESSORS[name].arch]
    unknown = [extra for extra in extras if extra not in legal]
    if unknown:
        message = f"target {text!r} adds {', '.join(unknown)}; known are {', '.join(legal)}"
        raise InputError(message, code="unknown-target")
    return _cpu_target(name, extras)


def without(target: Target, extra: str) -> Target:
    """The target without an instruction set that its name does not imply."""
    return parse_target("+".join(part for part in str(target).split("+") if part != extra))


def _host_target() -> Target:
    architecture, features = host_architecture(), host_features()
    if architecture not in _LEVELS:
        message = f"this machine is {architecture}; native code is made for {', '.join(_LEVELS)}"
        raise InputError(message, code="unknown-target")
    levels = _LEVELS[architecture]
    name = next((level for level in levels if features.issuperset(_PROCESSORS[level].features)), levels[-1])
    # Extensions of AVX-512, and tiles beside it, are of no use below the level that has its registers.
    wide = ("avx512", "amx")
    extras = [x for x in _EXTRAS[architecture] if x in features and (name == levels[0] or not x.startswith(wide))]
    return _cpu_target(name, extras)


def _cpu_target(name: str, extras: list[str]) -> Target:
    processor = _PROCESSORS[name]
    added = tuple(sorted(set(extras) - set(processor.features)))
    features = tuple(sorted({*processor.features, *added}))
    return Target("cpu", name, processor.arch, features, added, processor.vector_bits, processor.vector_registers)
