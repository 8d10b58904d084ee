"""What an executable runs whose code is for a device that is not here: it can be saved, and tells why it cannot run."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from onnxc.runtime.engine import default_arrays
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.program import Program
from onnxc.runtime.stats import Stats

if TYPE_CHECKING:
    from onnxc.runtime.values import SlotValue

__all__ = ["UnavailableEngine"]


class UnavailableEngine:
    """An engine whose every call is the error that told why the code cannot run here."""

    def __init__(self, program: Program, weights: np.ndarray, problem: DeviceError) -> None:
        self._program, self._weights, self._problem = program, weights, problem

    def run(
        self, values: Sequence["SlotValue"], sizes: tuple[int, ...], given: Sequence[np.ndarray] | None = None
    ) -> NoReturn:
        """Raises DeviceError."""
        self._fail()

    def fast_call(self) -> None:
        """There is none."""

    def learn(self, shapes: tuple[tuple[int, ...], ...], sizes: tuple[int, ...]) -> None:
        """Raises DeviceError."""
        self._fail()

    def defaults(self) -> Mapping[int, np.ndarray]:
        """The values of the inputs that a call may leave out, by number."""
        return default_arrays(self._program, self._weights)

    def stats(self) -> Stats:
        """Nothing has run."""
        return Stats()

    def _fail(self) -> NoReturn:
        raise DeviceError(str(self._problem), code=self._problem.code) from self._problem
