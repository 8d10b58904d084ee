"""The instructions of a function of LLVM IR, written as text one after another; blocks are begun in llvm_ir.py.

Strings are appended and nothing is analysed, so that writing costs about a microsecond an instruction. Integer
arithmetic on constants is done here, while writing; everything else is left to LLVM.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, overload

from onnxc.compiler.codegen_host.effort import Effort
from onnxc.compiler.codegen_host.llvm_arithmetic import (
    COMPARISONS,
    ClosedOperation,
    FloatOperation,
    FoldingOperation,
    IntrinsicOperation,
    common_type,
    flagged,
    operand_text,
)
from onnxc.compiler.codegen_host.llvm_values import (
    FALSE,
    TRUE,
    Float,
    Int,
    Reg,
    as_reg,
    boolean_type,
    constant,
    intrinsic_suffix,
    vector_shape,
    vector_type,
)
from onnxc.compiler.codegen_host.scoped_values import EntryCode, ScopedValues

__all__ = ["Instructions", "Reduction"]

Reduction = Literal[
    "add", "mul", "and", "or", "xor", "smin", "smax", "umin", "umax",
    "fadd", "fmul", "fmin", "fmax", "fminimum", "fmaximum",
]  # fmt: skip

# fadd and fmul reductions fold the lanes into a start value; these leave the lanes as they are (-0.0 + x = x).
_REDUCTION_STARTS = {"fadd": -0.0, "fmul": 1.0}


_BYTES = {"double": 8, "i64": 8, "float": 4, "i32": 4}
"""Of the elements of which a vector may fill more than one register."""


class Instructions:
    """A function and the instructions of its blocks; every method that gives a value appends the instruction for it.

    A parameter's type may carry attributes, "ptr noalias" for example. Names depend on the order of calls alone.
    """

    def __init__(
        self,
        name: str,
        parameters: Sequence[tuple[str, str]],
        returns: str = "void",
        internal: bool = False,
        attributes: str = "nounwind",
        hidden: bool = False,
        features: Collection[str] = (),
        vector_bytes: int = 64,
        vector_registers: int = 32,
        effort: Effort = "most",
    ) -> None:
        """internal: known to its module alone. hidden: known to the modules of its image.

        features: the instruction sets that may be asked for by name, as far as the target has them. vector_bytes: the
        bytes of its widest register. vector_registers: how many of these there are. effort: what LLVM does for it.
        """
        self.name = name
        self.returns = returns
        self.features = frozenset(features)
        self.vector_bytes, self.vector_registers = vector_bytes, vector_registers
        self.effort = effort
        # The definitions of constants in memory, by their names.
        self.constants: dict[str, str] = {}
        self.declarations: dict[str, str] = {}
        # What it names other than in calls.
        self.addresses: dict[str, None] = {}
        self.parameters = tuple(Reg(f"%{name}", _bare_type(type)) for type, name in parameters)
        self._signature = ", ".join(f"{type} %{name}" for type, name in parameters)
        self._linkage = "internal " if internal else "hidden " if hidden else ""
        self._attributes = attributes
        self._lines: list[str] = []
        self._entry = EntryCode()
        self._allocas: list[str] = []
        self._values = self._labels = 0
        self._block = "entry"
        self._is_open = True
        self._known, self._tails = ScopedValues(), dict[Reg, Int]()
        # What floats were widened from, which is stored again as it was.
        self.narrowed: dict[Reg, Reg] = {}
        # Registers of f32 whose lanes are numbers of bf16, and NaN only with the bits of such: stored without rounding.
        self.bfloats: set[Reg] = set()

        self.add = ClosedOperation(self, "add")
        self.sub = ClosedOperation(self, "sub")
        self.mul = FoldingOperation(self, "mul")
        self.sdiv = ClosedOperation(self, "sdiv")
        self.udiv = ClosedOperation(self, "udiv")
        self.srem = FoldingOperation(self, "srem")
        self.urem = FoldingOperation(self, "urem")
        self.and_ = FoldingOperation(self, "and")
        self.or_ = ClosedOperation(self, "or")
        self.xor = ClosedOperation(self, "xor")
        self.shl = ClosedOperation(self, "shl")
        self.ashr = ClosedOperation(self, "ashr")
        self.lshr = ClosedOperation(self, "lshr")
        self.smin = IntrinsicOperation(self, "smin")
        self.smax = IntrinsicOperation(self, "smax")
        self.umin = IntrinsicOperation(self, "umin")
        self.umax = IntrinsicOperation(self, "umax")
        self.fadd = FloatOperation(self, "fadd")
        self.fsub = FloatOperation(self, "fsub")
        self.fmul = FloatOperation(self, "fmul")
        self.fdiv = FloatOperation(self, "fdiv")
        self.frem = FloatOperation(self, "frem")

    @property
    def declaration(self) -> str:
        """What another module says of it."""
        return f"declare {self.returns} @{self.name}({', '.join(parameter.type for parameter in self.parameters)})"

    @property
    def length(self) -> int:
        """About how many instructions it has."""
        return len(self._lines)

    def text(self) -> str:
        """The definition, complete once every block has ended in `ret`."""
        assert not self._is_open, f"function {self.name} does not end in ret"
        head = f"define {self._linkage}{self.returns} @{self.name}({self._signature}) {self._attributes} {{\nentry:"
        return "\n".join([head, *self._allocas, *self._entry.inserted(self._lines), "}\n"])

    def value(self, instruction: str, type: str) -> Reg:
        """The result of an instruction given as text, for what has no method here."""
        self._values = ordinal = self._values + 1
        name = f"%.{ordinal}"
        self._lines.append(f"  {name} = {instruction}")
        return Reg(name, type)

    def computed(self, instruction: str, type: str) -> Reg:
        """As `value`, of an instruction that gives the same whenever it runs: one that ran before is not repeated."""
        known = self._known.find(instruction)
        if known is None:
            known = self.value(instruction, type)
            self._known.add(instruction, known)
        return known

    def end_entry(self) -> None:
        """What is there so far is all that `at_entry` may use."""
        self._entry.end = len(self._lines)

    @contextmanager
    def at_entry(self) -> Iterator[None]:
        """Code without branches that runs once, where the entry was ended; its values are known everywhere.

        In a loop LLVM computes again what it has no register for, where a value of the entry is read from the stack.
        """
        lines, known = self._lines, self._known
        self._lines, self._known = self._entry.lines, self._entry.known
        yield
        self._lines, self._known = lines, known

    def emit(self, instruction: str) -> None:
        """Appends an instruction without a result."""
        self._lines.append(f"  {instruction}")

    def constant(self, type: str, value: float | Sequence[float]) -> Reg:
        """A literal, exact for every type; a scalar is repeated in every lane of a vector type."""
        return constant(type, value)

    def constant_operand(self, type: str, value: float) -> Reg:
        """A constant of many that a loop uses once in each step: where registers are few, read from memory there.

        LLVM would take all of a loop's constants into registers before it, and move them about in the loop where they
        are more than these: with AVX2 a tanh was 31 instructions and 26 moves.
        """
        literal = constant(type, value)
        if self.vector_registers >= 32 or literal.lanes == 1:
            return literal
        name = f'@"{type} {value!r}"'
        align = literal.lanes * _BYTES[literal.element]
        self.constants[name] = f"{name} = internal unnamed_addr constant {type} {literal.text}, align {align}"
        return self.load(type, Reg(name, "ptr"), align=align)

    # Arithmetic

    def neg(self, a: Int) -> Int:
        return self.sub(0, a)

    def fneg(self, a: Reg, flags: str = "") -> Reg:
        return self.computed(f"{flagged('fneg', flags)} {a.type} {a.text}", a.type)

    def fma(self, a: Float, b: Float, c: Float, flags: str = "") -> Reg:
        """a * b + c rounded once; a library call for each lane on targets without the instruction."""
        return self._of_three("llvm.fma.*", (a, b, c), flags)

    def multiply_add(self, a: Float, b: Float, c: Float) -> Reg:
        """a * b + c, rounded once where the target has the instruction and twice where it has not."""
        return self._of_three("llvm.fmuladd.*", (a, b, c))

    def _of_three(self, name: str, values: tuple[Float, Float, Float], flags: str = "") -> Reg:
        type = common_type(*values)
        operands = [value if isinstance(value, Reg) else constant(type, value) for value in values]
        return self.intrinsic(name, type, *operands, flags=flags)

    def icmp(self, predicate: str, a: Int, b: Int) -> Reg:
        """i1 per lane; predicates are LLVM's: eq ne slt sle sgt sge ult ule ugt uge."""
        if isinstance(a, int) and isinstance(b, int):
            return TRUE if COMPARISONS[predicate](a, b) else FALSE
        type = common_type(a, b)
        return self.computed(
            f"icmp {predicate} {type} {operand_text(a, type)}, {operand_text(b, type)}", boolean_type(type)
        )

    def fcmp(self, predicate: str, a: Float, b: Float, flags: str = "") -> Reg:
        """i1 per lane; predicates are LLVM's: ordered (oeq, olt, …), unordered (une, ult, …), ord, uno."""
        type = common_type(a, b)
        opcode = f"{flagged('fcmp', flags)} {predicate}"
        return self.computed(f"{opcode} {type} {operand_text(a, type)}, {operand_text(b, type)}", boolean_type(type))

    def is_null(self, pointer: Reg) -> Reg:
        """i1: whether an address is none."""
        return self.icmp("eq", pointer, constant("ptr", 0))

    def conjunction(self, conditions: Iterable[Reg]) -> Reg:
        """Whether all of these bits hold; those that are known while the code is written are left out."""
        result = TRUE
        for condition in conditions:
            if condition == FALSE:
                return FALSE
            if condition != TRUE:
                result = condition if result == TRUE else self.and_(result, condition)
        return result

    def select(self, condition: Reg, a: Reg | float, b: Reg | float, flags: str = "") -> Reg:
        """a where the condition holds, else b; two constants are i64."""
        type = common_type(a, b, constant("i64", 0))
        if condition.is_literal and condition.type == "i1":
            chosen = a if condition.text == "true" else b
            return chosen if isinstance(chosen, Reg) else constant(type, chosen)
        operands = f"{condition.type} {condition.text}, {type} {operand_text(a, type)}, {type} {operand_text(b, type)}"
        return self.computed(f"{flagged('select', flags)} {operands}", type)

    def convert(self, op: str, x: Int, type: str) -> Reg:
        """A cast by its LLVM name: sitofp uitofp fptosi fptoui trunc zext sext fpext fptrunc bitcast ptrtoint …"""
        x = as_reg(x)
        if x.type == type:
            return x
        return self.computed(f"{op} {x.type} {x.text} to {type}", type)

    # Memory

    def gep(self, pointer: Reg, offset: Int, element_type: str = "i8") -> Reg:
        """The address `offset` elements behind the pointer, or one per lane for a vector of offsets."""
        if isinstance(offset, int):
            if offset == 0:
                return pointer
            return self.computed(f"getelementptr {element_type}, ptr {pointer.text}, i64 {offset}", "ptr")
        type = vector_type("ptr", max(offset.lanes, pointer.lanes))
        return self.computed(
            f"getelementptr {element_type}, {pointer.type} {pointer.text}, {offset.type} {offset.text}", type
        )

    def held(self, x: Reg, register_class: str = "r") -> Reg:
        """x in a register: LLVM does not see what it was computed from, and cannot do that again, or in another order.

        register_class: as constraints of assembly name it, "r" for integers and addresses, "v" for vectors on x86.
        """
        return self.value(f'call {x.type} asm "", "={register_class},0"({x.type} {x.text})', x.type)

    def load(self, type: str, pointer: Reg, align: int = 1) -> Reg:
        return self.value(f"load {type}, ptr {pointer.text}, align {align}", type)

    def store(self, value: Int, pointer: Reg, align: int = 1) -> None:
        """Stores a value; one of several registers from the lowest address on.

        LLVM would begin with the highest. Stores that cross cache lines then meet no neighbour on its way to the cache:
        i64[64, 384] + i64[64, 384] 16 bytes behind a line took 10 us so, and takes 6.5.
        """
        value = as_reg(value)
        lanes = self.vector_bytes // _BYTES.get(value.element, 1)
        if value.lanes <= lanes:
            self._store(value, pointer, align)
            return
        for first in range(0, value.lanes, lanes):
            part = self.shuffle(value, None, range(first, min(first + lanes, value.lanes)))
            self._store(part, self.gep(pointer, first, value.element), align)

    def _store(self, value: Reg, pointer: Reg, align: int) -> None:
        self.emit(f"store {value.type} {value.text}, ptr {pointer.text}, align {align}")

    def prefetch(self, pointer: Reg, *, level: int = 1) -> None:
        """Asks for the cache line of an address, which may be one that is not there, to be read again and again.

        level: the cache that gets it, from 1, the nearest, to 3.
        """
        self.call("llvm.prefetch.p0", "void", pointer, *(constant("i32", code) for code in (0, 4 - level, 1)))

    # LLVM 22 moved the alignment of these from an argument to an attribute; it still reads the argument.

    def gather(self, type: str, base: Reg, indices: Reg, mask: Reg | None = None, align: int = 1,
               passthru: Reg | None = None, step: str = "") -> Reg:  # fmt: skip
        """base[index] in each lane of the mask (all without one); indices are signed and count elements, or `step`s."""
        pointers = self.gep(base, indices, step or vector_shape(type)[1])
        mask = mask if mask is not None else constant(boolean_type(type), 1)
        other = passthru.text if passthru is not None else "poison"
        name = f"llvm.masked.gather.{intrinsic_suffix(type)}.{intrinsic_suffix(pointers.type)}"
        return self.intrinsic(name, type, pointers, constant("i32", align), mask, Reg(other, type))

    def scatter(self, value: Reg, base: Reg, indices: Reg, mask: Reg | None = None, align: int = 1) -> None:
        """base[index] = value in each lane of the mask, in the order of the lanes."""
        pointers = self.gep(base, indices, value.element)
        mask = mask if mask is not None else constant(boolean_type(value.type), 1)
        name = f"llvm.masked.scatter.{intrinsic_suffix(value.type)}.{intrinsic_suffix(pointers.type)}"
        self.call(name, "void", value, pointers, constant("i32", align), mask)

    def alloca(self, type: str, count: int = 1, align: int = 64) -> Reg:
        """Stack memory for `count` elements, reserved once per call of the function."""
        name = f"%stack.{len(self._allocas)}"
        self._allocas.append(f"  {name} = alloca {type}, i64 {count}, align {align}")
        return Reg(name, "ptr")

    # Atomics; orderings are LLVM's: monotonic acquire release acq_rel seq_cst

    def atomic_load(self, type: str, pointer: Reg, ordering: str = "acquire") -> Reg:
        return self.value(f"load atomic {type}, ptr {pointer.text} {ordering}, align {_scalar_bytes(type)}", type)

    def atomic_store(self, value: Reg, pointer: Reg, ordering: str = "release") -> None:
        align = _scalar_bytes(value.type)
        self.emit(f"store atomic {value.type} {value.text}, ptr {pointer.text} {ordering}, align {align}")

    def atomic_rmw(self, op: str, pointer: Reg, value: Int, ordering: str = "acq_rel") -> Reg:
        """What was there before; op is add, sub, xchg, and, or, max, umax, …"""
        value = as_reg(value)
        return self.value(f"atomicrmw {op} ptr {pointer.text}, {value.type} {value.text} {ordering}", value.type)

    def compare_exchange(self, pointer: Reg, expected: Int, desired: Int, ordering: str = "acq_rel",
                         failure: str = "acquire") -> tuple[Reg, Reg]:  # fmt: skip
        """(what was there, i1 whether it was the expected value and is now the desired one)."""
        type = common_type(expected, desired, constant("i64", 0))
        operands = f"{type} {operand_text(expected, type)}, {type} {operand_text(desired, type)}"
        pair = self.value(f"cmpxchg ptr {pointer.text}, {operands} {ordering} {failure}", f"{{ {type}, i1 }}")
        before = self.value(f"extractvalue {pair.type} {pair.text}, 0", type)
        return before, self.value(f"extractvalue {pair.type} {pair.text}, 1", "i1")

    def fence(self, ordering: str = "seq_cst") -> None:
        self.emit(f"fence {ordering}")

    # Vectors

    def splat(self, x: Reg, lanes: int) -> Reg:
        """x in every lane; one lane is x itself."""
        if lanes == 1:
            return x
        type = vector_type(x.type, lanes)
        if x.is_literal:
            return Reg(f"splat ({x.type} {x.text})", type)
        single = self.value(f"insertelement {type} poison, {x.type} {x.text}, i64 0", type)
        zeros = vector_type("i32", lanes)
        return self.value(f"shufflevector {type} {single.text}, {type} poison, {zeros} zeroinitializer", type)

    def lane_ids(self, type: str) -> Reg:
        """<0, 1, 2, …>, 0 for a scalar."""
        lanes = vector_shape(type)[0]
        return constant(type, 0 if lanes == 1 else range(lanes))

    def extract(self, vector: Reg, index: Int) -> Reg:
        return self.value(
            f"extractelement {vector.type} {vector.text}, i64 {operand_text(index, 'i64')}", vector.element
        )

    def insert(self, vector: Reg, x: Reg, index: Int) -> Reg:
        operands = f"{vector.type} {vector.text}, {x.type} {x.text}, i64 {operand_text(index, 'i64')}"
        return self.value(f"insertelement {operands}", vector.type)

    def shuffle(self, a: Reg, b: Reg | None, indices: Sequence[int]) -> Reg:
        """Lane i is lane indices[i] of a followed by b; -1 leaves it undefined."""
        mask = ", ".join(f"i32 {index}" if index >= 0 else "i32 poison" for index in indices)
        operands = f"{a.type} {a.text}, {a.type} {b.text if b is not None else 'poison'}"
        type = f"<{len(indices)} x {a.element}>"
        result = self.value(f"shufflevector {operands}, <{len(indices)} x i32> <{mask}>", type)
        return result if len(indices) > 1 else self.extract(result, 0)

    def tail_mask(self, lanes: int, count: Int) -> Reg:
        """<lanes x i1>, true for the lanes below `count`: none for count <= 0, all for count >= lanes."""
        if isinstance(count, int):
            if lanes == 1:
                return TRUE if count > 0 else FALSE
            kept = min(max(count, 0), lanes)
            known = constant(vector_type("i1", lanes), [i < kept for i in range(lanes)])
            self._tails[known] = kept
            return known
        if lanes == 1:
            return self.icmp("sgt", count, 0)
        # The lanes of one register compare in one instruction, where 64-bit lanes would need two or more.
        element = "i32" if lanes <= 16 else "i16" if lanes <= 32 or lanes > 64 else "i8"
        clamped = self.smin(self.smax(count, 0), lanes)
        limit = self.splat(self.convert("trunc", clamped, element), lanes)
        mask = self.icmp("slt", self.lane_ids(limit.type), limit)
        self._tails[mask] = clamped
        return mask

    def lanes_of_tail(self, mask: Reg) -> Int | None:
        """How many lanes a mask of `tail_mask` holds for; None for other masks."""
        return self._tails.get(mask)

    def reduce_lanes(self, kind: Reduction, vector: Reg, ordered: bool = False) -> Reg:
        """All lanes folded into one; fadd and fmul as a tree unless `ordered` asks for lane 0 first, one by one.

        fmin and fmax drop NaN, fminimum and fmaximum keep it.
        """
        if vector.lanes == 1:
            return vector
        start = _REDUCTION_STARTS.get(kind)
        operands = [vector] if start is None else [constant(vector.element, start), vector]
        flags = "reassoc" if start is not None and not ordered else ""
        name = f"llvm.vector.reduce.{kind}.{intrinsic_suffix(vector.type)}"
        return self.intrinsic(name, vector.element, *operands, flags=flags)

    # Calls

    def intrinsic(self, name: str, type: str, *arguments: Reg, flags: str = "") -> Reg:
        """The value of an intrinsic; a * in its name stands for the result type: "llvm.sqrt.*"."""
        if name[-1] == "*":
            name = name[:-1] + intrinsic_suffix(type)
        return self.call(name, type, *arguments, flags=flags)

    def computed_intrinsic(self, name: str, type: str, *arguments: Reg) -> Reg:
        """As `intrinsic`, of one that gives the same whenever it runs."""
        name = name.replace("*", intrinsic_suffix(type))
        return self.computed(self._call_text(self._declared(name, type, arguments), type, arguments, ""), type)

    @overload
    def call(self, name: str, type: Literal["void"], *arguments: Int, flags: str = "") -> None: ...  # type: ignore[overload-overlap]
    @overload
    def call(self, name: str, type: str, *arguments: Int, flags: str = "") -> Reg: ...
    def call(self, name: str, type: str, *arguments: Int, flags: str = "") -> Reg | None:
        """The result of a function by name, None for void; it is declared where the module does not define it."""
        operands = [as_reg(argument) for argument in arguments]
        return self._call(self._declared(name, type, operands), type, operands, flags)

    @overload
    def call_pointer(self, pointer: Reg, type: Literal["void"], *arguments: Int) -> None: ...  # type: ignore[overload-overlap]
    @overload
    def call_pointer(self, pointer: Reg, type: str, *arguments: Int) -> Reg: ...
    def call_pointer(self, pointer: Reg, type: str, *arguments: Int) -> Reg | None:
        """The result of the function at an address, None for void."""
        return self._call(pointer.text, type, [as_reg(argument) for argument in arguments], "")

    def symbol(self, name: str) -> Reg:
        """The address of a function or constant that the module defines or declares."""
        self.addresses[name] = None
        return Reg(f"@{name}", "ptr")

    def _call(self, callee: str, type: str, arguments: Sequence[Reg], flags: str) -> Reg | None:
        text = self._call_text(callee, type, arguments, flags)
        if type == "void":
            self.emit(text)
            return None
        return self.value(text, type)

    def _declared(self, name: str, type: str, arguments: Sequence[Reg]) -> str:
        """What calls a function by, which is declared where the module does not define it."""
        if name not in self.declarations:
            self.declarations[name] = f"declare {type} @{name}({', '.join(x.type for x in arguments)})"
        return f"@{name}"

    @staticmethod
    def _call_text(callee: str, type: str, arguments: Sequence[Reg], flags: str) -> str:
        operands = ", ".join([f"{x.type} {x.text}" for x in arguments])
        return f"{flagged('call', flags)} {type} {callee}({operands})"


def _bare_type(type: str) -> str:
    """The type of a parameter without its attributes."""
    return type if type[0] == "<" else type.partition(" ")[0]


def _scalar_bytes(type: str) -> int:
    return 8 if type == "ptr" else max(1, int(type[1:]) // 8)
