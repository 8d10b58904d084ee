"""What a rank does when it is asked to end, and at its end, so that why a call failed is seen and nothing hangs."""

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

__all__ = ["answer_sigterm", "part_at_exit"]

REASON_S = 0.1
"""How long SIGTERM waits for the reason: less than the 0.3 s after which mpirun sends SIGKILL."""

REPORT_S = 2.0
"""How long a process may go on to report it: many times what raising and printing takes on a busy machine."""


def answer_sigterm(has_failed: Callable[[], bool]) -> None:
    """From here on SIGTERM leaves the process time to report a failure of the ranks.

    mpirun sends it to all ranks when one dies: the error that names that one must be raised and printed first. At any
    other time it ends the process as before. Nothing is changed where the program answers
    SIGTERM itself, or this is not its main thread.
    """

    def answer(signum: int, frame: FrameType | None) -> None:
        deadline = time.monotonic() + REASON_S
        while not has_failed() and time.monotonic() < deadline:
            time.sleep(0.005)
        if not has_failed():
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
        last = threading.Timer(REPORT_S, os._exit, (128 + signum,))
        last.daemon = True
        last.start()

    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, answer)


def part_at_exit(part: Callable[[], bool]) -> None:
    """At the end of the process it parts from the others; where one is gone, it ends without MPI_Finalize.

    That would wait for whoever is gone, for ever.
    """

    def end() -> None:
        if not part():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)

    atexit.register(end)
