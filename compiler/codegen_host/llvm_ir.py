"""Functions of LLVM IR with structured control flow; modules of them are in llvm_module.py.

f = FunctionBuilder("scale", [("ptr", "x"), ("i64", "n")])
x, n = f.parameters
f.loop(0, n, 1, lambda i: scale_element(f, f.gep(x, i, "float")))
f.ret()
"""

from collections.abc import Callable, Sequence

from onnxc.compiler.codegen_host.llvm_arithmetic import operand_text
from onnxc.compiler.codegen_host.llvm_instructions import Instructions
from onnxc.compiler.codegen_host.llvm_values import Float, Int, Reg, as_reg

__all__ = ["Float", "FunctionBuilder", "Int", "Reg"]


class FunctionBuilder(Instructions):
    """One function, written from top to bottom."""

    def ret(self, value: Int | None = None) -> None:
        """Leaves the function; nothing may follow in the same block."""
        self.emit("ret void" if value is None else f"ret {self.returns} {operand_text(value, self.returns)}")
        self._is_open = False

    def loop(
        self,
        start: Int,
        stop: Int,
        step: Int,
        body: Callable[..., Sequence[Int] | None],
        carried: Sequence[Int] = (),
        unroll: bool = False,
        at_least_once: bool = False,
    ) -> tuple[Reg, ...]:
        """The carried values after `body(i, *carried)` has run for i = start, start + step, … below stop.

        The body gives the next carried values. Zero iterations give the initial ones, unless `at_least_once` promises
        start < stop and saves the test. `unroll` repeats the body for constant bounds; one iteration is never a loop.
        """
        values = tuple(as_reg(value) for value in carried)
        if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
            assert step > 0, f"the step of a loop is {step}"
            if unroll or stop - start <= step:
                for i in range(start, stop, step):
                    values = _next_values(body(i, *values), values)
                return values
            at_least_once = True
        before, head, after = self._block, self._label("loop"), self._label("end")
        if at_least_once:
            self._branch(head)
        else:
            self._branch_if(self.icmp("slt", start, stop), head, after)
        self._begin(head)
        phis = self._reserve()
        index, arguments = self._register("i64"), tuple(self._register(value.type) for value in values)
        with self._known.scope():
            following = _next_values(body(index, *arguments), values)
            assert self._is_open, "the body of a loop ends in ret"
            next_index = self.add(index, step)
            latch = self._block
            self._branch_if(self.icmp("slt", next_index, stop), head, after)
        initial = (as_reg(start), *values)
        self._fill(phis, (index, *arguments), [(before, initial), (latch, (next_index, *following))])
        self._begin(after)
        if at_least_once:
            return following
        return self._merge([(before, values), (latch, following)])

    def loop_in_steps(
        self, count: Int, rounds: int, body: Callable[..., Sequence[Int]], carried: Sequence[Int]
    ) -> tuple[Reg, ...]:
        """As `loop` from 0 below `count`, with `rounds` of them, a power of two, written out one after another.

        The body gets its index, its place among these, and the carried values; what is left over is a loop of places 0.
        """
        whole = self.and_(count, -rounds)

        def step(start: Int, *values: Int) -> Sequence[Int]:
            for place in range(rounds):
                values = tuple(body(self.add(start, place), place, *values))
            return values

        values = self.loop(0, whole, rounds, step, carried)
        return self.loop(whole, count, 1, lambda i, *values: body(i, 0, *values), values)

    def while_(
        self,
        carried: Sequence[Int],
        condition: Callable[..., Reg],
        body: Callable[..., Sequence[Int] | None],
    ) -> tuple[Reg, ...]:
        """The carried values once `condition(*carried)` is false; `body(*carried)` gives the next ones."""
        values = tuple(as_reg(value) for value in carried)
        before, head, inside, after = self._block, self._label("while"), self._label("do"), self._label("end")
        self._branch(head)
        self._begin(head)
        phis = self._reserve()
        arguments = tuple(self._register(value.type) for value in values)
        with self._known.scope():
            self._branch_if(condition(*arguments), inside, after)
            self._begin(inside)
            following = _next_values(body(*arguments), values)
        arms = [(before, values)]
        if self._is_open:
            arms.append((self._block, following))
            self._branch(head)
        self._fill(phis, arguments, arms)
        self._begin(after)
        return arguments

    def if_(
        self,
        condition: Reg,
        then: Callable[[], Sequence[Int] | None],
        otherwise: Callable[[], Sequence[Int] | None] | None = None,
    ) -> tuple[Reg, ...]:
        """The results of the branch taken. A branch may end in `ret`; without `otherwise`, `then` has no results.

        Of a condition that is known only the branch taken is written; what follows its `ret` is never reached.
        """
        if condition.is_literal:
            taken = then if condition.text == "true" else otherwise
            results = tuple(as_reg(value) for value in (taken() if taken is not None else None) or ())
            if not self._is_open and otherwise is None:
                self._begin(self._label("unreached"))
            return results
        first, after = self._label("then"), self._label("end")
        second = self._label("else") if otherwise is not None else after
        self._branch_if(condition, first, second)
        arms = []
        for label, branch in ((first, then), (second, otherwise)):
            if branch is None:
                continue
            self._begin(label)
            with self._known.scope():
                results = tuple(as_reg(value) for value in branch() or ())
            assert otherwise is not None or not results, "results need a value for both branches"
            if self._is_open:
                arms.append((self._block, results))
                self._branch(after)
        if not arms and otherwise is not None:
            return ()
        self._begin(after)
        return self._merge(arms)

    def _label(self, prefix: str) -> str:
        self._labels += 1
        return f"{prefix}.{self._labels}"

    def _register(self, type: str) -> Reg:
        self._values += 1
        return Reg(f"%.{self._values}", type)

    def _begin(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self._block = label
        self._is_open = True

    def _branch(self, label: str) -> None:
        self._lines.append(f"  br label %{label}")
        self._is_open = False

    def _branch_if(self, condition: Reg, then: str, otherwise: str) -> None:
        self._lines.append(f"  br i1 {condition.text}, label %{then}, label %{otherwise}")
        self._is_open = False

    def _reserve(self) -> int:
        self._lines.append("")
        return len(self._lines) - 1

    def _fill(self, position: int, results: Sequence[Reg], arms: Sequence[tuple[str, Sequence[Reg]]]) -> None:
        """Writes the phis of a block whose values from below were not known at its head."""
        self._lines[position] = "\n".join(
            f"  {result.text} = phi {result.type} "
            + ", ".join(f"[ {values[k].text}, %{label} ]" for label, values in arms)
            for k, result in enumerate(results)
        )

    def _merge(self, arms: Sequence[tuple[str, Sequence[Reg]]]) -> tuple[Reg, ...]:
        """One value for each position of the arms that reach this block."""
        if len(arms) <= 1:
            return tuple(arms[0][1]) if arms else ()
        counts = [len(values) for _, values in arms]
        assert len(set(counts)) == 1, f"the branches give {counts} values"
        if counts[0] == 0:
            return ()
        position = self._reserve()
        results = tuple(self._register(value.type) for value in arms[0][1])
        self._fill(position, results, arms)
        return results


def _next_values(given: Sequence[Int] | None, previous: Sequence[Reg]) -> tuple[Reg, ...]:
    values = tuple(as_reg(value) for value in given or ())
    assert len(values) == len(previous), f"the body gives {len(values)} values and carries {len(previous)}"
    return values
