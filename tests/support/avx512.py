"""Runs code for AVX-512 on a processor without it, to show that it is right: a plugin of pytest.

    pytest -p tests.support.avx512 tests/codegen_cpu

The processor is said to have the instruction sets, so that "cpu" is a target with them. LLVM then selects instructions
of AVX2 and splits the vectors of 512 bits; functions of plain IR do what has no other form, and what LLVM splits
wrongly: of a masked load it reads lanes that are masked off, once half of the mask is known to be false. It is slow.
"""

import re
from collections.abc import Iterator

import llvmlite.binding as llvm

import onnxc.runtime.cpu as cpu

CLAIMED = frozenset({"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl", "avx512vnni", "avx512vbmi"})

_FEATURES = cpu.host_features() | CLAIMED
cpu.host_features = lambda: _FEATURES

# Only what is imported now asks for the features that are claimed.
from onnxc.compiler.codegen_host import compile_objects, machine  # noqa: E402
from onnxc.compiler.target import Target, parse_target  # noqa: E402

_AVX2 = parse_target("cpu:x86-64-v3")
_WIDEST_BYTES = 32
_BYTES = {"float": 4, "double": 8, "half": 2, "bfloat": 2, **{f"i{bits}": bits // 8 for bits in (8, 16, 32, 64, 128)}}
_NAMES = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}

_PAIRS = """
define internal <16 x i32> @stand_in.pmaddw(<32 x i16> %a, <32 x i16> %b) {
  %wide.a = sext <32 x i16> %a to <32 x i32>
  %wide.b = sext <32 x i16> %b to <32 x i32>
  %products = mul <32 x i32> %wide.a, %wide.b
  %even = shufflevector <32 x i32> %products, <32 x i32> poison, <16 x i32> <EVEN>
  %odd = shufflevector <32 x i32> %products, <32 x i32> poison, <16 x i32> <ODD>
  %sums = add <16 x i32> %even, %odd
  ret <16 x i32> %sums
}
""".replace("EVEN", ", ".join(f"i32 {k}" for k in range(0, 32, 2))).replace(
    "ODD", ", ".join(f"i32 {k}" for k in range(1, 32, 2))
)

_SCALED = """
define internal <16 x float> @stand_in.scalef(<16 x float> %x, <16 x float> %n, <16 x float>, i16, i32) {
  %floor = call <16 x float> @llvm.floor.v16f32(<16 x float> %n)
  %is.low = fcmp olt <16 x float> %floor, splat (float -900.0)
  %above = select <16 x i1> %is.low, <16 x float> splat (float -900.0), <16 x float> %floor
  %is.high = fcmp ogt <16 x float> %above, splat (float 900.0)
  %within = select <16 x i1> %is.high, <16 x float> splat (float 900.0), <16 x float> %above
  %exponent = fptosi <16 x float> %within to <16 x i64>
  %biased = add <16 x i64> %exponent, splat (i64 1023)
  %bits = shl <16 x i64> %biased, splat (i64 52)
  %power = bitcast <16 x i64> %bits to <16 x double>
  %wide = fpext <16 x float> %x to <16 x double>
  %product = fmul <16 x double> %wide, %power
  %scaled = fptrunc <16 x double> %product to <16 x float>
  %is.nan = fcmp uno <16 x float> %n, %n
  %result = select <16 x i1> %is.nan, <16 x float> %n, <16 x float> %scaled
  ret <16 x float> %result
}
"""


def _dots(bits: int) -> str:
    """Products of four bytes each, the first without a sign, added to 32 bits."""
    lanes, bytes_of = f"<{bits // 32} x i32>", f"<{bits // 8} x i8>"
    products = f"<{bits // 8} x i32>"
    lines = [
        f"define internal {lanes} @stand_in.dots.{bits}({lanes} %sum.0, {bytes_of} %a, {bytes_of} %b) {{",
        f"  %wide.a = zext {bytes_of} %a to {products}",
        f"  %wide.b = sext {bytes_of} %b to {products}",
        f"  %products = mul {products} %wide.a, %wide.b",
    ]
    for k in range(4):
        mask = ", ".join(f"i32 {place}" for place in range(k, bits // 8, 4))
        lines.append(f"  %part.{k} = shufflevector {products} %products, {products} poison, {lanes} <{mask}>")
        lines.append(f"  %sum.{k + 1} = add {lanes} %sum.{k}, %part.{k}")
    return "\n".join([*lines, f"  ret {lanes} %sum.4", "}"])


def _picked() -> str:
    """Elements of a table of 16, by the low bits of an index."""
    lines = ["define internal <16 x float> @stand_in.permvar(<16 x float> %table, <16 x i32> %index) {"]
    before = "poison"
    for lane in range(16):
        lines += [
            f"  %index.{lane} = extractelement <16 x i32> %index, i32 {lane}",
            f"  %low.{lane} = and i32 %index.{lane}, 15",
            f"  %element.{lane} = extractelement <16 x float> %table, i32 %low.{lane}",
            f"  %result.{lane} = insertelement <16 x float> {before}, float %element.{lane}, i32 {lane}",
        ]
        before = f"%result.{lane}"
    return "\n".join([*lines, f"  ret <16 x float> {before}", "}"])


# The name of a function for each intrinsic, and its text.
_STAND_INS = {
    "llvm.x86.avx512.pmaddw.d.512": ("stand_in.pmaddw", _PAIRS),
    "llvm.x86.avx512.permvar.sf.512": ("stand_in.permvar", _picked()),
    "llvm.x86.avx512.mask.scalef.ps.512": ("stand_in.scalef", _SCALED),
    **{f"llvm.x86.avx512.vpdpbusd.{bits}": (f"stand_in.dots.{bits}", _dots(bits)) for bits in (128, 256, 512)},
}


def without_avx512(text: str) -> str:
    """The module with functions in place of the intrinsics of AVX-512, and of masked accesses of wide vectors."""
    # Nothing else holds a value where it is in a register that has no 512 bits.
    text = re.sub(r'call (<\d+ x \w+>) asm "", "=\w+,0"\(<\d+ x \w+> ([^)]*)\)', r"bitcast \1 \2 to \1", text)
    used = {name: pair for name, pair in _STAND_INS.items() if f"@{name}(" in text}
    used |= dict(_masked_accesses(text))
    for name, (function, _) in used.items():
        text = re.sub(rf"^declare .*@{re.escape(name)}\(.*\n", "", text, flags=re.MULTILINE)
        text = text.replace(f"@{name}(", f"@{function}(")
    added = "\n".join(body for _, body in used.values())
    floor = "llvm.floor.v16f32"
    if f"@{floor}(" in added and not re.search(rf"^declare .*@{floor}\(", text, re.MULTILINE):
        added += f"\ndeclare <16 x float> @{floor}(<16 x float>)"
    return f"{text}\n{added}\n"


def _masked_accesses(text: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """The masked loads and stores of vectors that are split, each with its function."""
    for access, lanes, suffix in sorted(set(re.findall(r"@llvm\.masked\.(load|store)\.v(\d+)(\w+)\.p0\(", text))):
        element, count = _NAMES.get(suffix, suffix), int(lanes)
        if count * _BYTES[element] > _WIDEST_BYTES:
            function = f"stand_in.{access}.{lanes}{suffix}"
            yield f"llvm.masked.{access}.v{lanes}{suffix}.p0", (function, _by_lanes(access, function, element, count))


def _by_lanes(access: str, function: str, element: str, count: int) -> str:
    """A masked load or store as a loop over lanes, by way of the stack."""
    vector, mask = f"<{count} x {element}>", f"<{count} x i1>"
    stored = "%passthru" if access == "load" else "%x"
    parameters = f"ptr %p, i32, {mask} %mask, {vector} {stored}"
    head = f"{vector} @{function}({parameters})"
    if access == "store":
        head = f"void @{function}({vector} {stored}, ptr %p, i32, {mask} %mask)"
    source, target = ("%p", "%stack") if access == "load" else ("%stack", "%p")
    end = [f"  %result = load {vector}, ptr %stack", f"  ret {vector} %result"] if access == "load" else ["  ret void"]
    bits = f"i{8 * _BYTES[element]}"
    return "\n".join(
        [
            f"define internal {head} noinline {{",
            "entry:",
            f"  %stack = alloca {vector}, align 64",
            f"  store {vector} {stored}, ptr %stack",
            f"  %bits = bitcast {mask} %mask to i{count}",
            f"  %wide = zext i{count} %bits to i128",
            "  br label %lane",
            "lane:",
            "  %i = phi i64 [ 0, %entry ], [ %following, %next ]",
            "  %shift = zext i64 %i to i128",
            "  %shifted = lshr i128 %wide, %shift",
            "  %is.on = trunc i128 %shifted to i1",
            "  br i1 %is.on, label %move, label %next",
            "move:",
            f"  %from = getelementptr {bits}, ptr {source}, i64 %i",
            f"  %to = getelementptr {bits}, ptr {target}, i64 %i",
            f"  %element = load {bits}, ptr %from, align 1",
            f"  store {bits} %element, ptr %to, align 1",
            "  br label %next",
            "next:",
            "  %following = add i64 %i, 1",
            f"  %goes.on = icmp ult i64 %following, {count}",
            "  br i1 %goes.on, label %lane, label %end",
            "end:",
            *end,
            "}",
        ]
    )


def _emitting_machine(ir_text: str, target: Target) -> llvm.TargetMachine:
    # Code for tiles is made and never run where there are none.
    is_split = target.vector_bits == 512 and not any(feature.startswith("amx") for feature in target.features)
    return _emitting(ir_text, _AVX2 if is_split else target)


def _parse(ir_text: str, emitting: llvm.TargetMachine, pipeline: int | None) -> llvm.ModuleRef:
    return _parsed(without_avx512(ir_text), emitting, pipeline)


_emitting, _parsed = machine._emitting_machine, machine._parse
machine._emitting_machine, machine._parse = _emitting_machine, _parse
# A process of its own would know nothing of this.
compile_objects.ObjectStream._wants_processes = lambda self: False  # type: ignore[method-assign]
