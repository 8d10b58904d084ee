"""Conversions of 16-bit floats that LLVM calls as functions where a processor has no instruction for them.

The libraries that usually bring them (libgcc, compiler-rt) are not on every system, so that images carry their own.
All round to the nearest, ties to even.
"""

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder, Reg

_INFINITY, _SIGN = 0x7F800000, 0x80000000


def conversion_functions() -> tuple[FunctionBuilder, ...]:
    """Under the names that LLVM calls: sf is float, df double, hf half, bf bfloat."""
    return (
        _extend_half(),
        _truncate("__truncsfhf2", "float", "half"),
        _truncate("__truncdfhf2", "double", "half"),
        _truncate("__truncsfbf2", "float", "bfloat"),
        _truncate("__truncdfbf2", "double", "bfloat"),
    )


def _extend_half() -> FunctionBuilder:
    """The exponent is moved to its new bits; a subnormal number is made normal by one float subtraction.

    Source: Fabian Giesen, half_to_float (public domain), https://gist.github.com/rygorous/2144712
    """
    f = FunctionBuilder("__extendhfsf2", [("half", "x")], returns="float")
    bits = f.convert("zext", f.convert("bitcast", f.parameters[0], "i16"), "i32")
    magnitude = f.shl(f.and_(bits, _i32(f, 0x7FFF)), 13)
    exponent = f.and_(magnitude, _i32(f, 0x7C00 << 13))
    moved = f.add(magnitude, (127 - 15) << 23)
    special = f.add(moved, (128 - 16) << 23)
    smallest = f.convert("bitcast", _i32(f, 113 << 23), "float")
    subnormal = f.fsub(f.convert("bitcast", f.add(moved, 1 << 23), "float"), smallest)
    result = f.select(f.icmp("eq", exponent, 0), f.convert("bitcast", subnormal, "i32"), moved)
    result = f.select(f.icmp("eq", exponent, 0x7C00 << 13), special, result)
    sign = f.shl(f.and_(bits, _i32(f, 0x8000)), 16)
    f.ret(f.convert("bitcast", f.or_(result, sign), "float"))
    return f


def _truncate(name: str, source: str, result: str) -> FunctionBuilder:
    f = FunctionBuilder(name, [(source, "x")], returns=result)
    (x,) = f.parameters
    bits = f.convert("bitcast", x, "i32") if source == "float" else _float_rounded_to_odd(f, x)
    magnitude = f.and_(bits, _i32(f, _SIGN - 1))
    sign = f.lshr(f.and_(bits, _i32(f, _SIGN)), 16)
    narrow = _to_half(f, magnitude) if result == "half" else _to_bfloat(f, magnitude)
    f.ret(f.convert("bitcast", f.convert("trunc", f.or_(narrow, sign), "i16"), result))
    return f


def _float_rounded_to_odd(f: FunctionBuilder, x: Reg) -> Reg:
    """The bits of a double as a float: of its two neighbours the odd one, so that rounding once more rounds correctly.

    Source: Boldo and Melquiond, "When double rounding is odd", 2005.
    """
    nearest = f.convert("fptrunc", x, "float")
    bits, back = f.convert("bitcast", nearest, "i32"), f.convert("fpext", nearest, "double")
    is_even = f.icmp("eq", f.and_(bits, _i32(f, 1)), 0)
    is_inexact_even = f.and_(f.fcmp("one", back, x), is_even)
    too_far = f.fcmp("ogt", f.intrinsic("llvm.fabs.*", "double", back), f.intrinsic("llvm.fabs.*", "double", x))
    neighbour = f.add(bits, f.select(too_far, _i32(f, -1), _i32(f, 1)))
    return f.select(is_inexact_even, neighbour, bits)


def _to_half(f: FunctionBuilder, magnitude: Reg) -> Reg:
    """Three ranges: too large or NaN; normal, rounded as an integer; subnormal, rounded by one float addition.

    Source: Fabian Giesen, float_to_half_fast3_rtne (public domain), https://gist.github.com/rygorous/2156668
    """
    is_nan = f.icmp("ugt", magnitude, _INFINITY)
    special = f.select(is_nan, _i32(f, 0x7E00), _i32(f, 0x7C00))
    half = f.constant("float", 0.5)
    shifted = f.convert("bitcast", f.fadd(f.convert("bitcast", magnitude, "float"), half), "i32")
    subnormal = f.sub(shifted, f.convert("bitcast", half, "i32"))
    is_odd = f.and_(f.lshr(magnitude, 13), _i32(f, 1))
    normal = f.lshr(f.add(f.add(magnitude, ((15 - 127) << 23) + 0xFFF), is_odd), 13)
    finite = f.select(f.icmp("ult", magnitude, 113 << 23), subnormal, normal)
    return f.select(f.icmp("uge", magnitude, (127 + 16) << 23), special, finite)


def _to_bfloat(f: FunctionBuilder, magnitude: Reg) -> Reg:
    is_nan = f.icmp("ugt", magnitude, _INFINITY)
    is_odd = f.and_(f.lshr(magnitude, 16), _i32(f, 1))
    rounded = f.lshr(f.add(f.add(magnitude, 0x7FFF), is_odd), 16)
    return f.select(is_nan, _i32(f, 0x7FC0), rounded)


def _i32(f: FunctionBuilder, value: int) -> Reg:
    return f.constant("i32", value)
