"""The texts of errors: templates in the library, which native code fills with two numbers.

    i32 onnxc_fail(ptr model, i64 ordinal, i64 first, i64 second)

writes a text into the object of the model, and gives the code that the entry points return for it.
"""

from dataclasses import dataclass, field

from onnxc.compiler.codegen_host.c_library.object_layout import ObjectLayout
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_module import ModuleBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.runtime.errors import InputError, OnnxcError

__all__ = ["FAIL", "FIRST", "INPUT_ERROR", "OUT_OF_MEMORY", "SECOND", "WEIGHTS_ERROR", "Messages", "fail_if"]

# What the entry points return; 0 is success. The names are in the header.
INPUT_ERROR, OUT_OF_MEMORY, WEIGHTS_ERROR = 1, 2, 3

# What stands for the two numbers of a text, where an error of Python is made to get it; nothing has such sizes.
FIRST, SECOND = 7_777_777_777_777_777_701, 7_777_777_777_777_777_702

FAIL, _WRITE_INTEGER = "onnxc_fail", "onnxc_write_number"
_CODES, _TEXTS = "onnxc_message_codes", "onnxc_message_texts"

# Bytes of a template that stand for a number; other control characters than these and the end do no harm.
_MARKS = {FIRST: "\x01", SECOND: "\x02"}
_INTEGER_BYTES = len(str(-(1 << 63)))


@dataclass
class Messages:
    """The templates of a library, each once, with the codes that go with them."""

    rows: dict[tuple[int, str], int] = field(default_factory=dict)

    def ordinal(self, code: int, text: str) -> int:
        """The ordinal of a text, in which FIRST and SECOND stand for its numbers."""
        template = text.translate(dict.fromkeys((0, 1, 2), "?"))
        for sample, mark in _MARKS.items():
            template = template.replace(str(sample), mark)
        return self.rows.setdefault((code, template), len(self.rows))

    def of_error(self, problem: OnnxcError) -> int:
        """The ordinal of the text that Python's users get."""
        return self.ordinal(INPUT_ERROR if isinstance(problem, InputError) else OUT_OF_MEMORY, str(problem))

    @property
    def text_bytes(self) -> int:
        """The bytes of the longest text, its end included."""
        lengths = (len(text.encode()) + _INTEGER_BYTES * sum(map(text.count, _MARKS.values())) for _, text in self.rows)
        return 1 + max(lengths, default=0)

    def write(self, module: ModuleBuilder, layout: ObjectLayout) -> None:
        """Adds the texts, and the functions that fill them."""
        texts, offsets = bytearray(), []
        for code, text in self.rows:
            offsets += [code, len(texts)]
            texts += text.encode() + b"\0"
        module.global_constant(_CODES, "i64", offsets or [0])
        module.global_constant(_TEXTS, "i8", bytes(texts or b"\0"))
        module.add(_write_integer()).add(_fail(layout))


def fail_if(f: FunctionBuilder, model: Reg, condition: Reg, ordinal: int, first: Int = 0, second: Int = 0) -> None:
    """Where the condition holds, the function ends with the code of a text that has these numbers."""
    f.if_(condition, lambda: f.ret(f.call(FAIL, "i32", model, ordinal, first, second)))


def _fail(layout: ObjectLayout) -> FunctionBuilder:
    parameters = [("ptr", "model"), ("i64", "ordinal"), ("i64", "first"), ("i64", "second")]
    f = FunctionBuilder(FAIL, parameters, returns="i32", internal=True)
    model, ordinal, first, second = f.parameters
    row = f.gep(f.symbol(_CODES), f.shl(ordinal, 1), "i64")
    code, offset = f.load("i64", row, 8), f.load("i64", f.gep(row, 1, "i64"), 8)

    def goes_on(source: Reg, _: Reg) -> Reg:
        return f.icmp("ne", f.load("i8", source), 0)

    def step(source: Reg, target: Reg) -> tuple[Reg, Reg]:
        byte = f.load("i8", source)

        def integer() -> tuple[Reg]:
            value = f.select(f.icmp("eq", byte, 1), first, second)
            return (f.call(_WRITE_INTEGER, "ptr", target, value),)

        def letter() -> tuple[Reg]:
            f.store(byte, target)
            return (f.gep(target, 1),)

        (behind,) = f.if_(f.icmp("ult", byte, len(_MARKS) + 1), integer, letter)
        return f.gep(source, 1), behind

    start = f.gep(f.symbol(_TEXTS), offset)
    _, end = f.while_((start, layout.address(f, model, layout.text)), goes_on, step)
    f.store(f.constant("i8", 0), end)
    f.ret(f.convert("trunc", code, "i32"))
    return f


def _write_integer() -> FunctionBuilder:
    """ptr onnxc_write_number(ptr target, i64 value): writes decimal digits, and gives the address behind them."""
    f = FunctionBuilder(_WRITE_INTEGER, [("ptr", "target"), ("i64", "value")], returns="ptr", internal=True)
    target, value = f.parameters
    is_negative = f.icmp("slt", value, 0)
    digits = f.alloca("i8", _INTEGER_BYTES)
    f.store(f.constant("i8", ord("-")), target)
    target = f.gep(target, f.convert("zext", is_negative, "i64"))

    def goes_on(rest: Reg, at: Reg) -> Reg:
        return f.or_(f.icmp("ne", rest, 0), f.icmp("eq", at, _INTEGER_BYTES))

    def step(rest: Reg, at: Reg) -> tuple[Reg, Reg]:
        quotient, before = f.udiv(rest, 10), f.sub(at, 1)
        digit = f.add(f.sub(rest, f.mul(quotient, 10)), ord("0"))
        f.store(f.convert("trunc", digit, "i8"), f.gep(digits, before))
        return quotient, before

    magnitude = f.select(is_negative, f.sub(0, value), value)
    _, first = f.while_((magnitude, f.constant("i64", _INTEGER_BYTES)), goes_on, step)
    length = f.sub(_INTEGER_BYTES, first)
    f.call("memcpy", "ptr", target, f.gep(digits, first), length)
    f.ret(f.gep(target, length))
    return f
