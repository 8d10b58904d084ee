"""Sizes as native code: a symbolic size becomes integer arithmetic on the values of its symbols."""

from collections.abc import Mapping
from functools import reduce

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg
from onnxc.compiler.ir.dims import Apply, Atom, Dim, Monomial, at_least, lower_bound, only_atom, terms_of
from onnxc.runtime.records import record

# Sizes below it are exact as an i64, whatever an estimate of them lost: doubles keep the first 53 bits of every term.
EXACT_BELOW = 2.0**62

Known = dict[Dim | Monomial, Int]


def emit_size(dim: Dim, symbols: Mapping[str, Int], f: FunctionBuilder, known: Known | None = None) -> Int:
    """The value of `dim` as an i64, or an int where it is one.

    `known` keeps sizes and products that were computed where every later call can see them.
    """
    return _Writer(symbols, f, {} if known is None else known).size(dim)


def emit_estimate(dim: Dim, symbols: Mapping[str, Int], f: FunctionBuilder) -> Reg:
    """About the value of `dim` as a double, which does not overflow; where it is too large an i64 may be anything."""
    return _Estimate(symbols, f, {}).size(dim)


def emit_saturated_size(dim: Dim, symbols: Mapping[str, Int], f: FunctionBuilder) -> Int:
    """The value of `dim`, and about the nearest i64 where an i64 does not hold it: with its sign, and never near 0.

    Symbols that data decides may be any integers. What is asked of sizes is asked of these, so that a size below 0 is
    refused although its sum wraps to one above.
    """
    exact = emit_size(dim, symbols, f)
    if isinstance(dim, int) or isinstance(only_atom(dim), str):
        return exact
    estimate = emit_estimate(dim, symbols, f)
    is_exact = f.fcmp("olt", f.intrinsic("llvm.fabs.f64", "double", estimate), EXACT_BELOW)
    return f.select(is_exact, as_reg(exact), f.intrinsic("llvm.fptosi.sat.i64.f64", "i64", estimate))


def emit_broken(relation: str, left: Int, right: Int, f: FunctionBuilder) -> Reg:
    """i1: whether two sizes are not in the relation of a guard: `equal`, `at_least`, or to be broadcast together."""
    match relation:
        case "at_least":
            return f.icmp("slt", left, right)
        case "equal":
            return f.icmp("ne", left, right)
    both = [f.icmp("ne", a, b) for a, b in ((left, right), (left, 1), (right, 1))]
    return as_reg(f.and_(f.and_(both[0], both[1]), both[2]))


@record
class _Estimate:
    """known: the values of sizes and functions that stand in one that is written, where one may stand many times."""

    symbols: Mapping[str, Int]
    f: FunctionBuilder
    known: dict[Dim | Apply, Reg]

    def size(self, dim: Dim) -> Reg:
        if dim not in self.known:
            self.known[dim] = self._sum(dim)
        return self.known[dim]

    def _sum(self, dim: Dim) -> Reg:
        f, terms = self.f, list[Reg]()
        for monomial, factor in terms_of(dim):
            factors = [self._atom(atom) for atom in monomial]
            if factor != 1 or not factors:
                factors.insert(0, f.constant("double", float(factor)))
            terms.append(reduce(f.fmul, factors))
        return reduce(f.fadd, terms) if terms else f.constant("double", 0.0)

    def _atom(self, atom: Atom) -> Reg:
        if isinstance(atom, str):
            return as_reg(self.f.convert("sitofp", self.symbols[atom], "double"))
        if atom not in self.known:
            self.known[atom] = self._applied(atom)
        return self.known[atom]

    def _applied(self, atom: Apply) -> Reg:
        f = self.f
        first, *others = map(self.size, atom.arguments)
        match atom.function:
            # LLVM makes a branch of a select behind a division, and looks through the whole function again for each.
            case "floordiv" if at_least(atom.arguments[1], 1):
                return f.fdiv(first, others[0])
            case "mod" if at_least(atom.arguments[1], 1):
                return others[0]
            case "floordiv":
                return f.select(f.fcmp("oeq", others[0], 0.0), 0.0, f.fdiv(first, others[0]))
            case "mod":
                return f.select(f.fcmp("oeq", others[0], 0.0), first, others[0])
        for other in others:
            predicate = "olt" if atom.function == "min" else "ogt"
            first = f.select(f.fcmp(predicate, first, other), first, other)
        return first


@record
class _Writer:
    symbols: Mapping[str, Int]
    f: FunctionBuilder
    known: Known

    def size(self, dim: Dim) -> Int:
        if isinstance(dim, int):
            return dim
        if dim not in self.known:
            total: Int = 0
            for monomial, factor in dim.terms:
                total = self.f.add(total, self.f.mul(self.product(monomial), factor))
            self.known[dim] = total
        return self.known[dim]

    def product(self, monomial: Monomial) -> Int:
        if monomial not in self.known:
            total: Int = 1
            for atom in monomial:
                total = self.f.mul(self.symbols[atom] if isinstance(atom, str) else self.applied(atom), total)
            self.known[monomial] = total
        return self.known[monomial]

    def applied(self, atom: Apply) -> Int:
        f = self.f
        arguments = [self.size(argument) for argument in atom.arguments]
        first = arguments[0]
        match atom.function:
            case "min" | "max":
                for other in arguments[1:]:
                    first = (f.smin if atom.function == "min" else f.smax)(first, other)
                return first
            case "bcast":
                for other in arguments[1:]:
                    first = f.select(f.icmp("eq", first, 1), as_reg(other), as_reg(first))
                return first
        quotient = _floor_quotient(atom, first, arguments[1], f)
        return quotient if atom.function == "floordiv" else f.sub(first, f.mul(quotient, arguments[1]))


def _floor_quotient(atom: Apply, a: Int, b: Int, f: FunctionBuilder) -> Int:
    """floor(a / b), and 0 where b is 0; `atom` says what is known of the signs."""
    low_a, low_b = lower_bound(atom.arguments[0]), lower_bound(atom.arguments[1])
    divisor = b if low_b is not None and low_b > 0 else f.select(f.icmp("eq", b, 0), 1, as_reg(b))
    if low_a is not None and low_a >= 0 and low_b is not None and low_b >= 0:
        quotient = f.udiv(a, divisor)
    else:
        truncated = f.sdiv(a, divisor)
        rest = f.sub(a, f.mul(truncated, divisor))
        uneven = f.and_(f.icmp("ne", rest, 0), f.icmp("slt", f.xor(rest, divisor), 0))
        quotient = f.sub(truncated, f.convert("zext", uneven, "i64"))
    if low_b is not None and low_b > 0:
        return quotient
    return f.select(f.icmp("eq", b, 0), 0, as_reg(quotient))
