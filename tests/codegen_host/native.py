"""Functions written with the builder, compiled, linked and loaded: what the native tests have in common."""

from collections.abc import Callable, Sequence
from functools import cache

from onnxc.compiler.codegen_host.image import build_image
from onnxc.compiler.codegen_host.linking.link import link_image
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder, Reg
from onnxc.compiler.codegen_host.llvm_module import ModuleBuilder
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.compiler.codegen_host.threads.pool import call_parallel_for
from onnxc.compiler.target import Target, parse_target
from onnxc.runtime.cpu import Image, host_architecture, host_features, load_image

HOST = parse_target("cpu")
NATIVE_TARGETS = [
    target
    for target in map(parse_target, ("cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:aarch64"))
    if target.arch == host_architecture() and host_features().issuperset(target.features)
]


def write(
    name: str,
    parameters: Sequence[tuple[str, str]],
    body: Callable[..., Reg | None],
    returns: str = "void",
    internal: bool = False,
    features: Sequence[str] = (),
) -> FunctionBuilder:
    """The function whose body is written by `body(builder, *parameters)`, which gives what is returned."""
    f = FunctionBuilder(name, parameters, returns=returns, internal=internal, features=features)
    f.ret(body(f, *f.parameters))
    return f


def module(*functions: FunctionBuilder) -> str:
    builder = ModuleBuilder()
    for function in functions:
        builder.add(function)
    return builder.text()


def load(text: str, exports: Sequence[str], target: Target = HOST) -> Image:
    return load_image(link_image([compile_object(text, target)], exports))


def native(
    parameters: Sequence[str],
    body: Callable[..., Reg | None],
    returns: str = "void",
    target: Target = HOST,
) -> Callable[..., int]:
    """The one function, ready to be called with addresses and 64-bit integers."""
    named = [(type, f"p{k}") for k, type in enumerate(parameters)]
    function = write("f", named, body, returns, features=target.features)
    return load(module(function), ["f"], target).function("f", len(parameters))


@cache
def counting_image() -> Image:
    """An image with the pool and two loops, both `(pool, int32 counts*, n, grain, times)`.

    count adds one to the count of every item, `times` times over; count_nested does so in a loop inside a loop, whose
    outer iterations are the `n` items, for one count each.
    """

    def count_range(f: FunctionBuilder, context: Reg, begin: Reg, end: Reg) -> None:
        def increment(i: Reg) -> None:
            item = f.gep(context, i, "i32")
            f.store(f.add(f.load("i32", item, 4), 1), item, 4)

        f.loop(begin, end, 1, increment)

    def repeat(inner: str) -> Callable[..., None]:
        def body(f: FunctionBuilder, pool: Reg, counts: Reg, n: Reg, grain: Reg, times: Reg) -> None:
            context = f.alloca("ptr", 2)
            f.store(counts, context, 8)
            f.store(pool, f.gep(context, 8), 8)
            argument = counts if inner == "count_range" else context
            f.loop(0, times, 1, lambda _: call_parallel_for(f, pool, inner, argument, n, grain))

        return body

    def nested_range(f: FunctionBuilder, context: Reg, begin: Reg, end: Reg) -> None:
        counts, pool = f.load("ptr", context, 8), f.load("ptr", f.gep(context, 8), 8)

        def inner(i: Reg) -> None:
            call_parallel_for(f, pool, "count_range", f.gep(counts, f.mul(i, 8), "i32"), f.constant("i64", 8), 1)

        f.loop(begin, end, 1, inner)

    task = [("ptr", "context"), ("i64", "begin"), ("i64", "end")]
    run = [("ptr", "pool"), ("ptr", "counts"), ("i64", "n"), ("i64", "grain"), ("i64", "times")]
    text = module(
        write("count_range", task, count_range, internal=True),
        write("nested_range", task, nested_range, internal=True),
        write("count", run, repeat("count_range")),
        write("count_nested", run, repeat("nested_range")),
    )
    return load_image(build_image([compile_object(text, HOST)], ["count", "count_nested"], HOST))
