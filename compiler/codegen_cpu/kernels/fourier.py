"""Fourier transforms. A unit of work is some of the groups of lines, of which a vector holds one element each.

The prime factors of the length are taken one after another, those of 2 in pairs: a pass with factor p makes transforms
of length p out of elements that lie n / p apart, turns them by the roots, and writes them where the next pass finds its
own side by side (Stockham). Factors and the order of all operations are those of pocketfft, the library in NumPy, for
the standard's tests expect what its inverse of f32 leaves where the exact result is 0; but 8 is 2 and 4 here.
Source: https://gitlab.mpcdf.mpg.de/mtr/pocketfft, branch cpp, cfftp.
"""

from collections.abc import Sequence

from onnxc.compiler.codegen_cpu.element_types import memory_type
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.operands import operand_in_memory
from onnxc.compiler.codegen_cpu.schedules.transforms import buffer_bytes, lanes, units
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg, vector_type
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.views import View
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

# The bits of the odd powers of two.
_ODD_POWERS = 0x2AAAAAAAAAAAAAAA

# About how many simple instructions an element of a line takes.
_WORK = 64

Pair = tuple[Reg, Reg]
"""Real and imaginary parts."""


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a transform."""
    frame = open_kernel(kernel, name, target)
    (op,) = (op for op in kernel.block.ops if op.name == "fourier")
    signal, roots = (operand_in_memory(frame, operand) for operand in op.operands)
    lines = frame.size(product(op.operands[0].shape[:-2]))
    transform = _Transform(frame, op, signal, roots, frame.size(op.operands[1].shape[0]), lines)
    if frame.scratch is not None:  # there is none for no units
        frame.f.loop(frame.begin, frame.end, 1, transform.unit)
    frame.f.ret()
    work = op.operands[1].shape[0] * _WORK * lanes(op.operands[1].dtype, target)
    return KernelCode(name, (frame.f,), units(op, target), frame.grain(work))


@record
class _Buffer:
    """Lines side by side: the vector of real parts of element k, then that of its imaginary parts."""

    f: FunctionBuilder
    address: Reg
    lanes: int
    scalar: str

    def at(self, element: Int, part: int = 0, lane: Int = 0) -> Reg:
        offset = self.f.add(self.f.mul(self.f.add(self.f.mul(element, 2), part), self.lanes), lane)
        return self.f.gep(self.address, offset, self.scalar)

    def load(self, element: Int) -> Pair:
        type = vector_type(self.scalar, self.lanes)
        return self.f.load(type, self.at(element), 4), self.f.load(type, self.at(element, 1), 4)

    def store(self, element: Int, value: Pair) -> None:
        for part, vector in enumerate(value):
            self.f.store(vector, self.at(element, part), 4)


@record
class _Pass:
    """One pass: `done` is the product of the factors before, `inner` how far the elements of a transform are apart."""

    factor: Int
    done: Int
    inner: Int
    source: _Buffer
    result: _Buffer


@record
class _Transform:
    """One kernel."""

    frame: KernelFrame
    op: Op
    signal: tuple[Reg, View]
    roots: tuple[Reg, View]
    length: Int
    lines: Int

    @property
    def f(self) -> FunctionBuilder:
        return self.frame.f

    @property
    def scalar(self) -> str:
        return memory_type(self.op.operands[1].dtype)

    @property
    def lanes(self) -> int:
        return lanes(self.op.operands[1].dtype, self.frame.target)

    @property
    def is_inverse(self) -> bool:
        return self.op.flag("inverse")

    @property
    def is_onesided(self) -> bool:
        return self.op.flag("onesided")

    def unit(self, unit: Reg) -> None:
        """The groups of lines of a unit, in its two buffers."""
        f, frame = self.f, self.frame
        assert frame.scratch is not None
        size = frame.size(buffer_bytes(self.op, frame.target))
        first = f.gep(frame.scratch, f.mul(unit, f.mul(size, 2)))
        buffers = tuple(_Buffer(f, address, self.lanes, self.scalar) for address in (first, f.gep(first, size)))
        groups = f.udiv(f.add(self.lines, self.lanes - 1), self.lanes)
        count = frame.size(units(self.op, frame.target))

        def group(ordinal: Reg) -> None:
            line = f.mul(ordinal, self.lanes)
            here = f.smin(f.sub(self.lines, line), self.lanes)
            f.if_(f.icmp("slt", here, self.lanes), lambda: self.clear(buffers[0]))
            f.loop(0, here, 1, lambda lane: self.read(f.add(line, lane), lane, buffers[0]))
            result = self.passes(*buffers)
            f.loop(0, here, 1, lambda lane: self.write(f.add(line, lane), lane, result))

        f.loop(unit, groups, count, group)

    # Lines

    def clear(self, buffer: _Buffer) -> None:
        """Zeros for the lanes that no line fills.

        What is left in memory may be subnormal: a line of 1009 took 21 ms so, and takes 0.7.
        """
        zero = self.f.constant(vector_type(self.scalar, self.lanes), 0.0)
        self.f.loop(0, self.length, 1, lambda k: buffer.store(k, (zero, zero)))

    def read(self, line: Int, lane: Reg, buffer: _Buffer) -> None:
        """Puts a line into a lane: cut, filled up with zeros, of half a spectrum the other half too."""
        f, x, start = self.f, self.op.operands[0], self._start(line)
        present = f.smin(self.frame.size(x.shape[-2]), self.length)
        zero = f.constant(self.scalar, 0.0)
        is_half = self.is_inverse and self.is_onesided

        def element(k: Reg) -> None:
            mirrored = f.icmp("sgt", f.mul(k, 2), self.length)
            source = f.select(mirrored, as_reg(f.sub(self.length, k)), k) if is_half else k

            def loaded() -> Sequence[Reg]:
                real, imaginary = self._loaded(start, source)
                if is_half:
                    imaginary = f.select(self._is_real(k), zero, f.select(mirrored, f.fneg(imaginary), imaginary))
                return real, imaginary

            real, imaginary = f.if_(f.icmp("slt", source, present), loaded, lambda: (zero, zero))
            f.store(real, buffer.at(k, 0, lane), 4)
            f.store(imaginary, buffer.at(k, 1, lane), 4)

        f.loop(0, self.length, 1, element)

    def _start(self, line: Int) -> Int:
        """Where a line begins, in elements of the signal."""
        f, (_, view) = self.f, self.signal
        start = self.frame.size(view.offset)
        for coordinate, stride in zip(
            self.frame.split(line, self.op.operands[0].shape[:-2]), view.strides, strict=False
        ):
            start = f.add(start, f.mul(coordinate, self.frame.size(stride)))
        return start

    def _loaded(self, start: Int, element: Reg) -> Pair:
        """An element of the line that begins at `start`."""
        f, x, (base, view) = self.f, self.op.operands[0], self.signal
        along, across = (self.frame.size(stride) for stride in view.strides[-2:])
        type, offset = memory_type(x.dtype), f.add(start, f.mul(element, along))

        def part(at: Int) -> Reg:
            return f.convert("fpext", f.load(type, f.gep(base, at, type), 4), self.scalar)

        return part(offset), f.constant(self.scalar, 0.0) if x.shape[-1] == 1 else part(f.add(offset, across))

    def _is_real(self, k: Reg) -> Reg:
        """Whether bin k of the spectrum of a real signal is real: the first one, and the one in the middle."""
        f = self.f
        return as_reg(f.or_(f.icmp("eq", k, 0), f.icmp("eq", f.mul(k, 2), self.length)))

    def write(self, line: Int, lane: Reg, buffer: _Buffer) -> None:
        """Writes the line of a lane."""
        f, result = self.f, self.op.results[0]
        bins, parts = self.frame.size(result.shape[-2]), result.shape[-1]
        assert isinstance(parts, int), result
        type = memory_type(result.dtype)
        zero, scale = f.constant(self.scalar, 0.0), None
        if self.is_inverse:
            scale = f.fdiv(f.constant(self.scalar, 1.0), f.convert("sitofp", self.length, self.scalar))

        def element(k: Reg) -> None:
            for part in range(parts):
                value = f.load(self.scalar, buffer.at(k, part, lane), 4)
                if scale is not None:
                    value = f.fmul(value, scale)
                elif self.is_onesided and part == 1:
                    value = f.select(self._is_real(k), zero, value)
                offset = f.add(f.mul(f.add(f.mul(line, bins), k), parts), part)
                f.store(f.convert("fptrunc", value, type), f.gep(self.frame.output, offset, type), 4)

        f.loop(0, bins, 1, element)

    # Passes

    def passes(self, first: _Buffer, second: _Buffer) -> _Buffer:
        """Transforms the lines in `first`; where the result is."""
        f = self.f

        def goes_on(done: Reg, rest: Reg, source: Reg, result: Reg) -> Reg:
            return f.icmp("sgt", rest, 1)

        def step(done: Reg, rest: Reg, source: Reg, result: Reg) -> Sequence[Int]:
            buffers = (_Buffer(f, address, self.lanes, self.scalar) for address in (source, result))
            factor = self.one_pass(done, rest, *buffers)
            return f.mul(done, factor), f.udiv(rest, factor), result, source

        after = f.while_((1, self.length, first.address, second.address), goes_on, step)
        return _Buffer(f, after[2], self.lanes, self.scalar)

    def one_pass(self, done: Reg, rest: Reg, source: _Buffer, result: _Buffer) -> Reg:
        """Takes the next factor of `rest`: a 2 that has no partner first, then pairs of them, then the smallest."""
        f, length = self.f, self.length
        lowest = f.and_(length, f.neg(length))
        is_two = as_reg(f.and_(f.icmp("eq", done, 1), f.icmp("ne", f.and_(lowest, _ODD_POWERS), 0)))

        def of(factor: Int, body: "type[_Two | _Four | _Odd]") -> Sequence[Int]:
            one = _Pass(factor, done, f.udiv(rest, factor), source, result)
            f.loop(0, done, 1, lambda k: f.loop(0, one.inner, 1, lambda i: body(self, one, k, i).emit()))
            return (factor,)

        def odd_or_four() -> Sequence[Int]:
            is_four = f.icmp("eq", f.and_(rest, 3), 0)
            return f.if_(is_four, lambda: of(4, _Four), lambda: of(self.smallest_odd_factor(rest), _Odd))

        return f.if_(is_two, lambda: of(2, _Two), odd_or_four)[0]

    def smallest_odd_factor(self, rest: Reg) -> Reg:
        f = self.f

        def goes_on(divisor: Reg) -> Reg:
            is_small = f.icmp("sle", f.mul(divisor, divisor), rest)
            return as_reg(f.and_(is_small, f.icmp("ne", f.urem(rest, divisor), 0)))

        (divisor,) = f.while_((3,), goes_on, lambda divisor: (f.add(divisor, 2),))
        return f.select(f.icmp("sgt", f.mul(divisor, divisor), rest), rest, divisor)

    def root(self, ordinal: Int) -> Pair:
        """A root in every lane, turning the way of this transform."""
        f, (base, view) = self.f, self.roots
        offset = f.add(self.frame.size(view.offset), f.mul(ordinal, self.frame.size(view.strides[0])))
        behind = f.add(offset, self.frame.size(view.strides[1]))
        cosine, sine = (f.load(self.scalar, f.gep(base, at, self.scalar), 4) for at in (offset, behind))
        sine = sine if self.is_inverse else f.fneg(sine)
        return f.splat(cosine, self.lanes), f.splat(sine, self.lanes)


@record
class _Butterfly:
    """The elements `i` of the transforms `k` of a pass."""

    transform: _Transform
    one: _Pass
    k: Reg
    i: Reg

    @property
    def f(self) -> FunctionBuilder:
        return self.transform.f

    def element(self, j: Int) -> Pair:
        f, one = self.f, self.one
        return one.source.load(f.add(self.i, f.mul(one.inner, f.add(j, f.mul(one.factor, self.k)))))

    def put(self, j: Int, value: Pair) -> None:
        f, one = self.f, self.one
        one.result.store(f.add(self.i, f.mul(one.inner, f.add(self.k, f.mul(one.done, j)))), value)

    def put_turned(self, j: Int, value: Pair) -> None:
        """Writes a value turned by its root, which for the first element of all is 1, infinities and all."""
        f, one = self.f, self.one
        cosine, sine = self.transform.root(f.mul(f.mul(j, one.done), self.i))
        turned = (
            f.fsub(f.fmul(value[0], cosine), f.fmul(value[1], sine)),
            f.fadd(f.fmul(value[0], sine), f.fmul(value[1], cosine)),
        )
        is_first = f.icmp("eq", self.i, 0)
        self.put(j, (f.select(is_first, value[0], turned[0]), f.select(is_first, value[1], turned[1])))

    def sum(self, a: Pair, b: Pair) -> Pair:
        return self.f.fadd(a[0], b[0]), self.f.fadd(a[1], b[1])

    def difference(self, a: Pair, b: Pair) -> Pair:
        return self.f.fsub(a[0], b[0]), self.f.fsub(a[1], b[1])

    def emit(self) -> None:
        raise NotImplementedError


class _Two(_Butterfly):
    """Two elements."""

    def emit(self) -> None:
        a, b = self.element(0), self.element(1)
        self.put(0, self.sum(a, b))
        self.put_turned(1, self.difference(a, b))


class _Four(_Butterfly):
    """Four elements; a quarter of a turn takes no multiplication."""

    def emit(self) -> None:
        a, b, c, d = (self.element(j) for j in range(4))
        even, odd = self.sum(a, c), self.sum(b, d)
        across, (real, imaginary) = self.difference(a, c), self.difference(b, d)
        f = self.f
        turned = (f.fneg(imaginary), real) if self.transform.is_inverse else (imaginary, f.fneg(real))
        self.put(0, self.sum(even, odd))
        self.put_turned(1, self.sum(across, turned))
        self.put_turned(2, self.difference(even, odd))
        self.put_turned(3, self.difference(across, turned))


class _Odd(_Butterfly):
    """An odd number of elements: results u and -u share the sums and the differences of elements j and -j."""

    def emit(self) -> None:
        f, one = self.f, self.one
        first, pairs = self.element(0), f.add(f.lshr(one.factor, 1), 1)
        real, imaginary = f.loop(1, pairs, 1, lambda j, a, b: self.sum((a, b), self.both(j)[0]), first)
        self.put(0, (real, imaginary))
        f.loop(1, pairs, 1, lambda u: self.results(u, first, pairs))

    def both(self, j: Reg) -> tuple[Pair, Pair]:
        """The sum and the difference of the elements j and -j."""
        a, b = self.element(j), self.element(self.f.sub(self.one.factor, j))
        return self.sum(a, b), self.difference(a, b)

    def results(self, u: Reg, first: Pair, pairs: Int) -> None:
        f, one = self.f, self.one
        stride = f.mul(one.done, one.inner)

        def add(j: Reg, turn: Reg, real: Reg, imaginary: Reg, a: Reg, b: Reg) -> Sequence[Int]:
            (cosine, sine), (total, across) = self.transform.root(f.mul(turn, stride)), self.both(j)
            following = f.add(turn, u)
            following = f.select(f.icmp("sge", following, one.factor), as_reg(f.sub(following, one.factor)), following)
            real, imaginary = (f.fadd(own, f.fmul(cosine, t)) for own, t in zip((real, imaginary), total, strict=True))
            a, b = (f.fadd(own, f.fmul(sine, t)) for own, t in zip((a, b), across, strict=True))
            return following, real, imaginary, a, b

        zero = f.constant(vector_type(self.transform.scalar, self.transform.lanes), -0.0)
        _, real, imaginary, a, b = f.loop(1, pairs, 1, add, (u, *first, zero, zero))
        cross = (f.fneg(b), a)
        self.put_turned(u, self.sum((real, imaginary), cross))
        self.put_turned(f.sub(one.factor, u), self.difference((real, imaginary), cross))
