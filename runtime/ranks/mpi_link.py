"""Bytes between ranks by MPI: only calls that return at once, so that nobody waits inside of MPI for who is gone."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from onnxc.runtime.errors import DeviceError
from onnxc.runtime.native.aligned_memory import allocate_aligned

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["MpiLink", "open_link"]

_START_S = 60.0
"""How long ranks wait for each other before any of them can be watched. No measurement: they start within seconds."""


class MpiLink:
    """A communicator of its own, so that nobody else's messages are taken for ours."""

    def __init__(self, comm: "MPI.Intracomm", byte: "MPI.Datatype", status: "MPI.Status") -> None:
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self._comm, self._byte, self._status = comm, byte, status
        # The bytes stay alive as long as MPI reads or writes them.
        self._sends: list[tuple[MPI.Request, npt.NDArray[np.uint8]]] = []
        self._arriving: dict[int, tuple[MPI.Request, npt.NDArray[np.uint8]]] = {}

    def send(self, rank: int, data: npt.NDArray[np.uint8]) -> Callable[[], bool]:
        request = self._comm.Isend([data, self._byte], dest=rank)
        self._sends = [*self._unsent(), (request, data)]
        return request.Test

    def receive(self, rank: int) -> npt.NDArray[np.uint8] | None:
        if rank not in self._arriving:
            message = self._comm.Improbe(source=rank, status=self._status)
            if message is None:
                return None
            buffer = allocate_aligned(self._status.Get_count(self._byte))
            self._arriving[rank] = message.Irecv([buffer, self._byte]), buffer
        request, buffer = self._arriving[rank]
        if not request.Test():
            return None
        del self._arriving[rank]
        return buffer

    def is_idle(self) -> bool:
        """Whether all that was sent has been taken; what belongs to a call that was given up may never be."""
        return not self._unsent()

    def _unsent(self) -> "list[tuple[MPI.Request, npt.NDArray[np.uint8]]]":
        return [(request, data) for request, data in self._sends if not request.Test()]


def open_link() -> MpiLink:
    """The link of this process, which MPI is started for. Raises DeviceError where there is no MPI, or no answer."""
    try:
        from mpi4py import MPI  # noqa: PLC0415 - an optional library
    except (ImportError, RuntimeError) as problem:
        message = f"devices='mpi' needs mpi4py and an MPI library: pip install onnxc[mpi] ({problem})"
        raise DeviceError(message, code="mpi-missing") from problem
    comm, request = MPI.COMM_WORLD.Idup()
    deadline = time.monotonic() + _START_S
    while not request.Test():
        if time.monotonic() > deadline:
            message = f"not all ranks have come within {_START_S:g} s: each must load with devices='mpi'"
            raise DeviceError(message, code="ranks-unconnected")
        time.sleep(0.001)
    return MpiLink(comm, MPI.BYTE, MPI.Status())
