"""What a function of generated code does with memory that threads share, for models of it to be compared with."""

import ctypes
import re

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder

__all__ = ["accesses"]

ADDRESS = re.compile(r"(%\S+) = getelementptr i8, ptr \S+, i64 (\d+)")
ACCESS = re.compile(
    r"(load|store) atomic .*ptr (\S+) \w+, align|atomicrmw (\w+) ptr (\S+),|(cmpxchg) ptr (\S+),|fence (\w+)"
)


def accesses(function: FunctionBuilder, of: type[ctypes.Structure]) -> list[str]:
    """The atomic accesses to fields of a structure in the text of a function, and fences, from top to bottom."""
    offsets = {getattr(of, name).offset: name for name, *_ in of._fields_}
    first = offsets[0]
    fields: dict[str, str] = {}
    found = []
    for line in function.text().splitlines():
        if address := ADDRESS.search(line):
            # Futexes are inside of fields: the upper half of the word.
            fields[address[1]] = offsets.get(int(address[2]), "half of the word")
        elif step := ACCESS.search(line):
            found.append(_step_name(step, fields, first))
    return found


def _step_name(step: re.Match[str], fields: dict[str, str], first: str) -> str:
    if step[7]:
        return f"fence {step[7]}"
    verb, pointer = next((step[k], step[k + 1]) for k in (1, 3, 5) if step[k])
    exchanges = {"xchg", "cmpxchg"}
    # The address of the first field is that of the structure.
    return f"{'exchange' if verb in exchanges else verb} {fields.get(pointer, first)}"
