"""What a call does outside of kernels and of steps on the host: from the end of one to the beginning of the next."""

from collections.abc import Sequence

import numpy as np

from onnxc.runtime.native.launch_log import RECORD_ENDED, RECORD_LOOP, RECORD_STARTED
from onnxc.runtime.profiling.profile import BetweenTime
from onnxc.runtime.profiling.recorded_calls import RecordedCall

__all__ = ["between_times"]

_NAMES = ("entering the call", "between kernels", "to and from the host", "leaving the call")
_ENTERING, _KERNELS, _HOST, _LEAVING = range(len(_NAMES))


def between_times(recorded: Sequence[RecordedCall], total: float) -> tuple[BetweenTime, ...]:
    """Means over the calls, whose mean length is `total` seconds; what no call has is left out."""
    seconds, counts = np.zeros((2, len(_NAMES)))
    for call in recorded:
        kinds, lengths = _parts(call)
        seconds += np.bincount(kinds, lengths * 1e-9, len(_NAMES))
        counts += np.bincount(kinds, minlength=len(_NAMES))
    means = zip(_NAMES, counts / len(recorded), seconds / len(recorded), strict=True)
    return tuple(
        BetweenTime(name, float(count), float(mean), float(mean) / total if total else 0.0)
        for name, count, mean in means
        if count
    )


def _parts(call: RecordedCall) -> tuple[np.ndarray, np.ndarray]:
    """For each part of a call in which neither a kernel nor a step on the host runs: which it is, and nanoseconds."""
    launches = call.rows[call.rows[:, RECORD_LOOP] % 2 == 0]
    starts = np.array([*launches[:, RECORD_STARTED], *(each.started for each in call.host)], np.int64)
    ends = np.array([*launches[:, RECORD_ENDED], *(each.ended for each in call.host)], np.int64)
    order = np.argsort(starts, kind="stable")
    is_host = (np.arange(len(starts)) >= len(launches))[order]
    kinds = np.full(len(starts) + 1, _KERNELS)
    kinds[1:][is_host] = kinds[:-1][is_host] = _HOST
    kinds[0], kinds[-1] = _ENTERING, _LEAVING
    before = np.maximum.accumulate(np.array([call.started, *ends[order]], np.int64))
    # Two clocks are read: what a record says may lie some nanoseconds outside of its call.
    return kinds, np.maximum(np.array([*starts[order], call.ended], np.int64) - before, 0)
