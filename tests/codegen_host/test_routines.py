"""Whole programs in native code: loops, branches, sizes from data and guards, against the interpreter."""

import random
import signal
from collections.abc import Sequence

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.emit import emit
from onnxc.compiler.codegen_cpu.plan_target import cpu_plan_target
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.routine_frame import FaultTable, RoutineFrame
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BOOL, F32, I64
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Function, Module, Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.passes.lower.count_non_zero import count_non_zero
from onnxc.compiler.planning.check_plan import check_plan
from onnxc.compiler.planning.kernel_plan import GuardStep, Routine, Segment
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.target import Target
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import make_executable
from tests.codegen_host.native import HOST
from tests.support.arrays import assert_same

VECTOR = TensorType(I64, (Size.symbol("N"),))


def compiled(module: Module, target: Target = HOST) -> Executable:
    """The module as native code; its plan is one native call, behind guards that the inputs decide."""
    plan = plan_kernels(count_non_zero(module), cpu_plan_target(target))
    check_plan(plan)
    *guards, last = plan.body.steps
    assert isinstance(last, Routine | Segment), plan
    assert all(isinstance(guard, GuardStep) for guard in guards), plan
    return make_executable(emit(plan, target), threads=1)


def module_of(builder: Builder, parameters: Sequence[Value], results: Sequence[Value]) -> Module:
    names = tuple(f"y{k}" for k in range(len(results)))
    symbols = {"N": (0, None)}
    return Module("m", (Function("main", builder.block(parameters, results), names, symbols),))


def compared(module: Module, *calls: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """The results of the last call, which are those of the interpreter; each is made twice, as buffers stay."""
    exe = compiled(module)
    names = [parameter.producer.name for parameter in module.main.body.parameters]
    found: Sequence[np.ndarray] = ()
    for arrays in calls:
        given = dict(zip(names, arrays, strict=True))
        wanted = interpret(module, given)
        for _ in range(2):
            found = tuple(exe.run(given).values())
            for mine, theirs in zip(found, wanted, strict=True):
                assert_same(mine, np.asarray(theirs))
    return found


class Programs:
    """Random programs over vectors of integers whose lengths change: the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.depth = 2 + seed % 2

    def module(self) -> Module:
        build = Builder()
        build.symbols.ranges["N"] = (0, None)
        parameters = [build.parameter(f"x{k}", VECTOR) for k in range(2)]
        values = self.ops(build, parameters, self.depth)
        return module_of(build, parameters, values[-3:])

    def ops(self, build: Builder, given: Sequence[Value], depth: int) -> list[Value]:
        """Some values computed from those given, all of them vectors."""
        values = list(given)
        for _ in range(self.random.randint(2, 3)):
            kind = self.random.choice(["arithmetic", "join", "part", "if", "loop"] if depth else ["arithmetic", "join"])
            a, b = (self.random.choice(values) for _ in range(2))
            match kind:
                case "arithmetic":
                    values.append(self.arithmetic(build, a))
                case "join":
                    values.append(build.concatenate([self.short(build, a), self.short(build, b)], 0))
                case "part":
                    values.append(self.chosen(build, a))
                case "if":
                    values.append(self.branch(build, a, b, depth))
                case "loop":
                    values += self.loop(build, a, b, depth)
        return values

    def arithmetic(self, build: Builder, a: Value) -> Value:
        number = self.random.randint(-3, 3)
        changed = build.add(build.mul(a, number), self.random.randint(-2, 2))
        return build.rem(changed, 1000)

    def short(self, build: Builder, a: Value) -> Value:
        """At most the first 40 elements."""
        count = build.min(build.size(a.shape[0]), 40)
        (size,) = build.read_sizes(build.reduce(build.unsqueeze(count, [0]), "sum", [0], keepdims=False))
        return build.slice(a, (0,), (size,))

    def chosen(self, build: Builder, a: Value) -> Value:
        """The elements that are not 0 modulo 3, whose number only data decides."""
        indices = build.non_zero(build.rem(a, 3))
        return build.gather(a, build.reshape(indices, (indices.shape[1],)), 0)

    def changed(self, build: Builder, a: Value) -> Value:
        """`a`, of which the elements that are not 0 modulo 3 are other ones."""
        indices = build.non_zero(build.rem(a, 3))
        at = build.reshape(indices, (indices.shape[1],))
        return build.scatter_along(a, at, self.arithmetic(build, build.gather(a, at, 0)), 0, "set")

    def condition(self, build: Builder, a: Value) -> Value:
        total = build.reduce(a, "sum", [0])
        return build.less(build.rem(total, 7), self.random.randint(-1, 3))

    def branch(self, build: Builder, a: Value, b: Value, depth: int) -> Value:
        blocks = []
        for _ in range(2):
            inner = build.nested()
            parameters = [inner.parameter(f"c{k}", value.type) for k, value in enumerate((a, b))]
            result = self.random.choice(self.ops(inner, parameters, depth - 1))
            blocks.append(inner.block(parameters, [result]))
        type = TensorType(I64, (build.fresh_symbol("taken"),))
        return build.if_(self.condition(build, a), [a, b], blocks, [type])[0]

    def loop(self, build: Builder, a: Value, b: Value, depth: int) -> list[Value]:
        """Two carried vectors, which may grow or change places, a captured one, and a stacked one of one length."""
        inner = build.nested()
        changing = [TensorType(I64, (inner.fresh_symbol(name),)) for name in ("p", "q")]
        iteration = inner.parameter("iteration", TensorType(I64, ()))
        carried = [inner.parameter(f"v{k}", type) for k, type in enumerate(changing)]
        capture = inner.parameter("capture", b.type)
        values = self.ops(inner, [*carried, capture], depth - 1)
        after = [self.short(inner, self.random.choice(values)) for _ in range(2)]
        chance = self.random.random()
        if chance < 0.3:
            after = carried[::-1]
        elif chance < 0.6:
            after[0] = self.changed(inner, carried[0])
        going = inner.less(inner.rem(inner.reduce(after[0], "sum", [0]), 11), 9)
        element = inner.reshape(inner.add(inner.reduce(after[1], "sum", [0]), iteration), (1,))
        block = inner.block([iteration, *carried, capture], [going, *after, element])
        trip = build.symbols.fresh("trip")
        types = [TensorType(I64, (build.fresh_symbol(name),)) for name in ("p", "q")]
        limit = build.scalar(self.random.choice([0, 1, 2, 5]), I64)
        results = build.while_(
            limit, build.scalar(True, BOOL), [a, b], [b], block,
            [*types, TensorType(I64, (Size.symbol(trip), 1))], trip,
        )  # fmt: skip
        return [*results[:2], build.reshape(results[2], (results[2].shape[0],))]


@pytest.mark.parametrize("seed", range(100))
def test_random_nested_programs_are_what_the_interpreter_says(seed: int) -> None:
    module = Programs(seed).module()
    rng = np.random.default_rng(seed)
    compared(module, *([rng.integers(-50, 50, length) for _ in range(2)] for length in (0, 1, 6)))


def counting(limit: int, carried: TensorType) -> tuple[Module, Builder]:
    """x + 1 again and again, as often as n says and at most `limit` times."""
    build = Builder()
    x, n = build.parameter("x", carried), build.parameter("n", TensorType(I64, ()))
    inner = build.nested()
    iteration, value = inner.parameter("i", TensorType(I64, ())), inner.parameter("v", carried)
    block = inner.block([iteration, value], [inner.scalar(True, BOOL), inner.add(value, 1)])
    stop = build.min(n, limit)
    (result,) = build.while_(stop, build.scalar(True, BOOL), [x], [], block, [carried], build.symbols.fresh("trip"))
    return module_of(build, [x, n], [result]), build


@pytest.mark.parametrize("rounds", [-1, 0, 1, 1000])
def test_a_loop_runs_as_often_as_data_says(rounds: int) -> None:
    module, _ = counting(1 << 40, TensorType(F32, ()))
    (found,) = compared(module, [np.array(0.5, np.float32), np.array(rounds)])
    assert found == max(rounds, 0) + 0.5


@pytest.mark.parametrize("problem", [TimeoutError, KeyboardInterrupt])
def test_a_handler_of_a_signal_ends_a_loop_that_does_not_end(problem: type[BaseException]) -> None:
    module, _ = counting(1 << 62, TensorType(F32, ()))
    exe = compiled(module)

    def ring(*_: object) -> None:
        raise problem

    before = signal.signal(signal.SIGALRM, ring)
    try:
        for _ in range(2):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(problem):
                exe.run({"x": np.array(0.5, np.float32), "n": np.array(1 << 60)})
            assert exe.run({"x": np.array(0.5, np.float32), "n": np.array(3)})["y0"] == 3.5
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


ROWS = TensorType(I64, (4, Size.symbol("N")))


def writing(reads_before_after: str) -> Module:
    """A cache of which each round writes one row, and reads the cache before or after that, or both."""
    build = Builder()
    build.symbols.ranges["N"] = (0, None)
    x, n = build.parameter("x", ROWS), build.parameter("n", TensorType(I64, ()))
    inner = build.nested()
    iteration, cache = inner.parameter("i", TensorType(I64, ())), inner.parameter("v", ROWS)
    row = inner.reshape(inner.rem(iteration, 4), (1, 1))
    new = inner.add(inner.full((1, cache.shape[1]), 5, I64), iteration)
    if "before" in reads_before_after:
        new = inner.add(new, inner.reduce(cache, "sum", (0,), keepdims=True))
    after = inner.scatter_nd(cache, row, new, "set")
    sums = [inner.scalar(0, I64)]
    if "after" in reads_before_after:
        sums = [inner.reduce(value, "sum", (0, 1)) for value in (after, inner.mul(cache, after))]
    block = inner.block([iteration, cache], [inner.scalar(True, BOOL), after, *sums])
    trip = build.symbols.fresh("trip")
    stacks = [TensorType(I64, (Size.symbol(trip),)) for _ in sums]
    results = build.while_(n, build.scalar(True, BOOL), [x], [], block, [ROWS, *stacks], trip)
    return module_of(build, [x, n], [build.add(x, 0), *results])


@pytest.mark.parametrize(
    ("reads", "how"), [("", "updated"), ("before", "updated"), ("after", "exchanged"), ("before after", "exchanged")]
)
@pytest.mark.parametrize("rounds", [0, 1, 2, 9])
def test_a_carried_value_is_changed_where_it_is_unless_what_it_was_is_read(reads: str, how: str, rounds: int) -> None:
    module = writing(reads)
    (routine,) = (step for step in plan_kernels(module, cpu_plan_target(HOST)).body.steps if isinstance(step, Routine))
    assert [carried.how for loop in routine.loops.values() for carried in loop.carried] == [how]
    for size in (3, 0, 40):
        x = np.arange(4 * size).reshape(4, size)
        given = x.copy()
        compared(module, [given, np.array(rounds)])
        assert_same(given, x)


def read_and_fill(low: int) -> Module:
    """Ones, as many as the data says; a guard asks for at least `low`."""
    build = Builder()
    n = build.parameter("n", TensorType(I64, ()))
    (size,) = build.read_sizes(n)
    build.guard(size, low, "at_least", "too few")
    return module_of(build, [n], [build.add(build.full((size,), 1, I64), build.iota((size,), 0, I64))])


def test_sizes_from_data_are_those_of_the_output() -> None:
    compared(read_and_fill(0), [np.array(5)])
    exe = compiled(read_and_fill(0))
    assert [exe.run({"n": np.array(n)})["y0"].tolist() for n in (3, 0, 4)] == [[1, 2, 3], [], [1, 2, 3, 4]]


def test_a_guard_that_data_breaks_is_an_input_error_and_the_next_call_is_fine() -> None:
    exe = compiled(read_and_fill(2))
    with pytest.raises(InputError, match=r"too few \(here 1 and 2\)") as caught:
        exe.run({"n": np.array(1)})
    assert caught.value.code == "sizes-disagree"
    assert exe.run({"n": np.array(2)})["y0"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("size", "kind", "code"),
    [(-1, InputError, "impossible-size"), (1 << 60, DeviceError, "out-of-memory"),
     ((1 << 62) + 1, DeviceError, "out-of-memory"), (1 << 48, DeviceError, "out-of-memory")],
)  # fmt: skip
def test_an_impossible_size_is_an_error_and_the_next_call_is_fine(size: int, kind: type[Exception], code: str) -> None:
    exe = compiled(read_and_fill(-5))
    with pytest.raises(kind) as caught:
        exe.run({"n": np.array(size)})
    assert getattr(caught.value, "code", None) == code
    assert exe.run({"n": np.array(2)})["y0"].tolist() == [1, 2]


def test_a_symbol_that_a_loop_gives_other_values_is_as_before_behind_it() -> None:
    build = Builder()
    build.symbols.ranges["N"] = (0, None)
    x = build.parameter("x", VECTOR)
    inner = build.nested()
    iteration, value = inner.parameter("i", TensorType(I64, ())), inner.parameter("v", VECTOR)
    longer = inner.concatenate([value, inner.reshape(inner.add(iteration, inner.size(value.shape[0])), (1,))], 0)
    block = inner.block([iteration, value], [inner.scalar(True, BOOL), longer])
    types = [TensorType(I64, (build.fresh_symbol("p"),))]
    trip = build.symbols.fresh("trip")
    (grown,) = build.while_(build.scalar(3, I64), build.scalar(True, BOOL), [x], [], block, types, trip)
    again = build.add(build.mul(x, 2), build.iota(x.shape, 0, I64))
    found = compared(module_of(build, [x], [grown, again, build.sizes([x.shape[0]])]), [np.array([5, 6])])
    assert [array.tolist() for array in found] == [[5, 6, 2, 4, 6], [10, 13], [2]]


def test_a_symbol_is_read_once_until_it_is_set_or_may_be() -> None:
    f = FunctionBuilder("f", [("ptr", "frame")])
    frame = RoutineFrame(f, ["N", "M"], FaultTable())
    first, other = frame.symbol("N"), frame.symbol("M")
    assert frame.symbol("N") is first
    frame.set_symbols({"N": 7})
    assert (frame.symbol("N").text, frame.symbol("M")) == ("7", other)
    frame.in_region(lambda: None)()
    assert not {frame.symbol("N").text, frame.symbol("M").text} & {first.text, other.text, "7"}


def test_elements_to_stack_have_one_shape() -> None:
    build = Builder()
    build.symbols.ranges["N"] = (0, None)
    x = build.parameter("x", VECTOR)
    inner = build.nested()
    iteration = inner.parameter("i", TensorType(I64, ()))
    value = inner.parameter("v", TensorType(I64, (inner.fresh_symbol("p"),)))
    longer = inner.concatenate([value, inner.reshape(iteration, (1,))], 0)
    block = inner.block([iteration, value], [inner.scalar(True, BOOL), longer, longer])
    trip = build.symbols.fresh("trip")
    types = [TensorType(I64, (build.fresh_symbol("p"),)), TensorType(I64, (Size.symbol(trip), build.fresh_symbol("e")))]
    results = build.while_(build.scalar(3, I64), build.scalar(True, BOOL), [x], [], block, types, trip)
    exe = compiled(module_of(build, [x], results))
    with pytest.raises(InputError, match=r"axis 0 .* is 4, in the first one it was 3"):
        exe.run({"x": np.array([7, 8])})


def test_memory_does_not_grow_with_the_calls() -> None:
    exe = compiled(Programs(3).module())
    rng = np.random.default_rng(0)
    sizes = [rng.integers(-50, 50, length) for length in (6, 1, 4)]
    for x in sizes:
        exe.run({"x0": x, "x1": x})
    start = exe.stats.arena_bytes
    for k in range(10_000):
        exe.run({"x0": sizes[k % 3], "x1": sizes[k % 3]})
    assert exe.stats.arena_bytes == start
