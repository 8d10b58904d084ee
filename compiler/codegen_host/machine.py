"""Object code and assembly of LLVM IR text, for any processor target."""

import os
import threading
from concurrent.futures import Future
from functools import cache

import llvmlite.binding as llvm

from onnxc.compiler.codegen_host.effort import effort_of
from onnxc.compiler.target import Target
from onnxc.runtime.cpu import host_architecture

_TRIPLES = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu"}

# Processor names that are ours and not LLVM's.
_LLVM_NAMES = {"aarch64": "generic"}


# LLVM works for one thread at a time, and a fork waits for it: in the child nobody would let go of its locks.
_LLVM = threading.Lock()
os.register_at_fork(before=_LLVM.acquire, after_in_parent=_LLVM.release, after_in_child=_LLVM.release)


def compile_object(ir_text: str, target: Target, pipeline: int | None = None) -> bytes:
    """A position-independent ELF object with the code of a module, the same bytes for the same text.

    The instructions are selected and scheduled with the effort that the module asks for; the IR is taken as written,
    unless `pipeline` (1 to 3) asks for LLVM's optimisations first. LLVM works in a thread of its own, as Python handles
    no signal while it does: an exception of a handler, such as KeyboardInterrupt, comes out of here at once, and what
    LLVM does then is dropped when it is done.
    """
    result: Future[bytes] = Future()
    threading.Thread(target=_fulfil, args=(result, ir_text, target, pipeline), name="onnxc-llvm").start()
    return result.result()


def _fulfil(result: Future[bytes], ir_text: str, target: Target, pipeline: int | None) -> None:
    try:
        with _LLVM:
            machine = _emitting_machine(ir_text, target)
            result.set_result(machine.emit_object(_parse(ir_text, machine, pipeline)))
    except BaseException as problem:
        result.set_exception(problem)
    finally:
        # Else the traceback is in a cycle, and what it holds of LLVM ends in any order, in which LLVM does not survive.
        del result


def optimized(module: llvm.ModuleRef, target: Target) -> str:
    """The text of a module behind LLVM's optimisations for a processor; the module is changed."""
    machine = _target_machine(target)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    return str(module)


def assembly(ir_text: str, target: Target, pipeline: int | None = None) -> str:
    """The same code as text."""
    with _LLVM:
        machine = _emitting_machine(ir_text, target)
        text: str = machine.emit_assembly(_parse(ir_text, machine, pipeline))
    return text


def _emitting_machine(ir_text: str, target: Target) -> llvm.TargetMachine:
    """What makes code of a module with the effort that it asks for, until another is asked for."""
    effort = effort_of(ir_text)
    # An option of the whole process is the only one that there is.
    llvm.set_option("onnxc", f"-disable-lsr={str(effort != 'most').lower()}")
    return _target_machine(target, 0 if effort == "least" else 3)


@cache
def _target_machine(target: Target, level: int = 3) -> llvm.TargetMachine:
    assert target.kind == "cpu", f"no object code for {target}"
    if target.arch == host_architecture():
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    features = [f"+{feature}" for feature in target.extras]
    if target.vector_bits == 512:
        # LLVM avoids 512-bit registers on processors whose clock once fell with them.
        features.append("-prefer-256-bit")
    return llvm.Target.from_triple(_TRIPLES[target.arch]).create_target_machine(
        cpu=_LLVM_NAMES.get(target.name, target.name),
        features=",".join(features),
        opt=level,
        reloc="pic",
        codemodel="small",
    )


def _parse(ir_text: str, machine: llvm.TargetMachine, pipeline: int | None) -> llvm.ModuleRef:
    """The module, verified; a context of its own makes the result independent of what was compiled before."""
    try:
        module = llvm.parse_assembly(ir_text, context=llvm.create_context())
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        try:
            module.verify()
        except RuntimeError:
            # The traceback keeps the module and its context, and a collector might end the context first.
            module.close()
            raise
    except RuntimeError as error:
        raise AssertionError(f"LLVM rejects the generated code: {error}\n{_listing(ir_text)}") from error
    if pipeline is not None:
        options = llvm.create_pipeline_tuning_options(speed_level=pipeline)
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
    return module


def _listing(text: str) -> str:
    return "\n".join(f"{ordinal:5} {line}" for ordinal, line in enumerate(text.splitlines(), 1))
