"""A checkout as a process that answers jobs: started again after a crash, ended where it takes too long."""

import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

from tests.same_bits.worker import Answer, Job

WORKER = Path(__file__).with_name("worker.py")

# Far above the slowest model that was seen, a diffusion model of 0.5 GB on a busy machine at 200 s.
LIMIT_S = 900.0


class Side:
    """The process of one checkout, which imports onnxc from `root`."""

    def __init__(self, root: Path, limit_s: float = LIMIT_S) -> None:
        self.root, self.limit_s = root, limit_s
        self.process = self._started()

    def ask(self, job: Job) -> Answer:
        """The answer to a job; a crash and a hang are errors of it."""
        process, jobs, answers = self.process, self.process.stdin, self.process.stdout
        assert jobs is not None, process
        assert answers is not None, process
        late = threading.Event()
        timer = threading.Timer(self.limit_s, lambda: (late.set(), process.kill()))
        timer.start()
        try:
            pickle.dump(job, jobs)
            jobs.flush()
            answer: Answer = pickle.load(answers)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self.stop()
            error = f"no answer within {self.limit_s:.0f} s" if late.is_set() else f"exit code {process.returncode}"
            self.process = self._started()
            return Answer(error=error, outputs=[], compile_s=0.0, call_s=0.0)
        finally:
            timer.cancel()
        return answer

    def kernels(self, model: Path) -> tuple[str, ...]:
        """The kernels of a model as `onnxc compile --stop-after plan` prints them, without their names, in order."""
        command = [sys.executable, "-m", "onnxc", "compile", str(model), "--stop-after", "plan"]
        done = subprocess.run(command, env=self._environment(), capture_output=True, text=True, check=False)
        return kernels_of(done.stdout)

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()

    def _started(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, str(WORKER)]
        return subprocess.Popen(command, env=self._environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.root), "PYTHONSAFEPATH": "1"}


def kernels_of(plan: str) -> tuple[str, ...]:
    """Each kernel in the text of a plan: its kind, its schedule, and the lines of its block."""
    kernels: list[str] = []
    inside = False
    for line in plan.splitlines():
        if line.startswith("  kernel "):
            kernels.append(line.split(maxsplit=2)[2])
            inside = True
        elif inside and line.startswith("    "):
            kernels[-1] += "\n" + line
        else:
            inside = False
    return tuple(kernels)
