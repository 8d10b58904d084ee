"""The program of a process that compiles modules of LLVM IR.

`python -m onnxc.compiler.codegen_host.object_worker FD` answers one `ObjectJob` after another over the connection of
that descriptor.
"""

from onnxc.compiler.codegen_host.compile_objects import ObjectJob
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.compiler.jobs.answer_jobs import answer_jobs

# Starting again takes a quarter of a second; until then a process keeps some 100 MB.
IDLE_SECONDS = 30.0


def _compile(job: ObjectJob) -> bytes:
    return compile_object(job.text, job.target)


if __name__ == "__main__":
    answer_jobs(_compile, IDLE_SECONDS)
