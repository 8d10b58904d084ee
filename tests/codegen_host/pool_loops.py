"""Loops for tests of the thread pool: of alternating lengths, and such that a test can hold up at each item."""

from functools import cache

from onnxc.compiler.codegen_host.image import build_image
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder, Reg
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.compiler.codegen_host.threads.pool import call_parallel_for
from onnxc.runtime.cpu import Image, load_image
from tests.codegen_host.native import HOST, module, write

_RANGE = [("ptr", "context"), ("i64", "begin"), ("i64", "end")]
_LOOP = [("ptr", "pool"), ("ptr", "counts"), ("i64", "n"), ("i64", "grain")]


@cache
def pool_loops() -> Image:
    """An image with the pool and three functions, all of which add one to the int32 counts of items.

    count_pairs(pool, counts, n, grain, times): a loop over the first two items and one over all `n`, so many times.
    hold(pool, counts, n, grain, int32 gates*): one loop; behind its count an item waits until its gate is not 0.
    hold_nested(…): the same, but an item's counts are the eight from 8 * item, which a loop inside the loop adds to.
    """
    text = module(
        write("count_range", _RANGE, _count_range, internal=True),
        write("hold_range", _RANGE, _hold_range, internal=True),
        write("hold_nested_range", _RANGE, _hold_nested_range, internal=True),
        write("count_pairs", [*_LOOP, ("i64", "times")], _count_pairs),
        _hold("hold"),
        _hold("hold_nested"),
    )
    return load_image(build_image([compile_object(text, HOST)], ["count_pairs", "hold", "hold_nested"], HOST))


def _count_range(f: FunctionBuilder, counts: Reg, begin: Reg, end: Reg) -> None:
    f.loop(begin, end, 1, lambda i: _add_one(f, f.gep(counts, i, "i32")))


def _hold_range(f: FunctionBuilder, context: Reg, begin: Reg, end: Reg) -> None:
    _, counts, gates = (f.load("ptr", f.gep(context, 8 * k), 8) for k in range(3))

    def item(i: Reg) -> None:
        _add_one(f, f.gep(counts, i, "i32"))
        _wait_for_gate(f, gates, i)

    f.loop(begin, end, 1, item)


def _hold_nested_range(f: FunctionBuilder, context: Reg, begin: Reg, end: Reg) -> None:
    pool, counts, gates = (f.load("ptr", f.gep(context, 8 * k), 8) for k in range(3))

    def item(i: Reg) -> None:
        own = f.gep(counts, f.mul(i, 8), "i32")
        call_parallel_for(f, pool, "count_range", own, f.constant("i64", 8), 1)
        _wait_for_gate(f, gates, i)

    f.loop(begin, end, 1, item)


def _count_pairs(f: FunctionBuilder, pool: Reg, counts: Reg, n: Reg, grain: Reg, times: Reg) -> None:
    def pair(_: Reg) -> None:
        call_parallel_for(f, pool, "count_range", counts, f.constant("i64", 2), 1)
        call_parallel_for(f, pool, "count_range", counts, n, grain)

    f.loop(0, times, 1, pair)


def _hold(name: str) -> FunctionBuilder:
    def body(f: FunctionBuilder, pool: Reg, counts: Reg, n: Reg, grain: Reg, gates: Reg) -> None:
        context = f.alloca("ptr", 3)
        for k, pointer in enumerate((pool, counts, gates)):
            f.store(pointer, f.gep(context, 8 * k), 8)
        call_parallel_for(f, pool, f"{name}_range", context, n, grain)

    return write(name, [*_LOOP, ("ptr", "gates")], body)


def _add_one(f: FunctionBuilder, count: Reg) -> None:
    # An item that two threads have by mistake is counted twice.
    f.atomic_rmw("add", count, f.constant("i32", 1))


def _wait_for_gate(f: FunctionBuilder, gates: Reg, i: Reg) -> None:
    gate = f.gep(gates, i, "i32")
    f.while_([], lambda: f.icmp("eq", f.atomic_load("i32", gate), 0), lambda: None)
