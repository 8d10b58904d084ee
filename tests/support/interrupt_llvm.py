"""Is interrupted while LLVM works on a long function, then forks and compiles in the child.

`python -m tests.support.interrupt_llvm SIGNAL` prints the exception that came out, whether LLVM was still at work then,
and the exit status of the child.
"""

import os
import signal
import sys
import threading
from types import FrameType

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_module import ModuleBuilder
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.compiler.target import parse_target

# LLVM takes some seconds for these, ten times as long as it is left to work.
STEPS = 4_000


class Late(Exception):
    """The time is up."""


def late(number: int, frame: FrameType | None) -> None:
    raise Late


def long_text(steps: int) -> str:
    f = FunctionBuilder("long", [("ptr", "x")])
    for step in range(steps):
        place = f.gep(f.parameters[0], step % 97, "i64")
        f.store(f.mul(f.load("i64", place, 8), f.load("i64", f.gep(f.parameters[0], step % 89, "i64"), 8)), place, 8)
    f.ret()
    return ModuleBuilder().add(f).text()


def main(name: str) -> None:
    number = signal.Signals[name]
    # Where a shell has started all this in the background, SIGINT is ignored.
    signal.signal(number, signal.default_int_handler if number == signal.SIGINT else late)
    text, target = long_text(STEPS), parse_target("cpu:x86-64-v3")
    threading.Timer(0.3, os.kill, (os.getpid(), number)).start()
    try:
        compile_object(text, target)
        outcome = "compiled"
    except (KeyboardInterrupt, Late) as interrupted:
        outcome = type(interrupted).__name__
    at_work = any(thread.name == "onnxc-llvm" for thread in threading.enumerate())
    child = os.fork()
    if child == 0:
        compile_object(long_text(1), target)
        os._exit(0)
    print(outcome, at_work, os.waitpid(child, 0)[1])


if __name__ == "__main__":
    main(sys.argv[1])
