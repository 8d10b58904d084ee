"""A program that is one piece of work: a call stages its arrays, and all that it enqueues is one CUDA graph."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.dtypes import DType
from onnxc.runtime.gpu.arrays import DeviceArray
from onnxc.runtime.gpu.chain import Chain, LateSizes, Resolved
from onnxc.runtime.gpu.growing_sizes import GrowingSizes
from onnxc.runtime.gpu.wanted import Residency, Wanted, as_wanted, uploaded
from onnxc.runtime.gpu.workspaces import Call, DeviceWorkspace
from onnxc.runtime.records import record
from onnxc.runtime.values import as_array

if TYPE_CHECKING:
    from onnxc.runtime.values import SlotValue

__all__ = ["LARGEST_STAGED_BYTES", "DirectEngine"]

# Larger arrays of the host are not copied through pinned memory, which other processes lack then.
LARGEST_STAGED_BYTES = 64 << 20

LARGEST_LATE_BYTES = 1 << 20
"""Of an array whose size is read late, all that there may be of it is copied to the host up to here, with the others.

A MiB takes about as long as a copy of its own that is waited for, 20 us: an estimate.
"""

_STAGING_ALIGNMENT = 256

_COUNTED = np.dtype(np.int64)

# What a graph is kept by: the sizes, in place of those that grow their limits and the variants that they choose; the
# addresses of all arrays; and the bytes that are copied to and from the device.
_Key = tuple[tuple[int, ...], bytes, tuple[int, ...], int, int]


@record(eq=False)
class DirectEngine:
    """Runs the chain of launches that a program is.

    `defaults` are those of inputs by their ordinals, on the host and on the device, if they are there. Where sizes of
    the program are `growing`, graphs are kept by their limits.
    """

    chain: Chain
    defaults: Mapping[int, tuple[np.ndarray, DeviceArray | None]]
    growing: GrowingSizes | None = None

    def run(
        self, call: Call, values: Sequence["SlotValue"], sizes: tuple[int, ...], wanted: Sequence[Wanted]
    ) -> list["SlotValue"]:
        """The outputs of a call, each where it is wanted; `sizes` that are bound late are at their most."""
        chain, workspace, growing = self.chain, call.workspace, self.growing
        limits, again = sizes, False
        if growing is not None:
            # The first call of a kind may be the last, as that of a prompt: it has no more memory than it needs.
            kind = growing.at_limits(sizes), tuple([x.address for x in values if isinstance(x, DeviceArray)])
            again = workspace.graphs.came_before(kind)
            limits = kind[0] if again else sizes
        resolved = chain.at(limits)
        if workspace.sizes is not resolved:
            workspace.prepare(resolved, resolved.symbols, resolved.arena_bytes)
        inputs = self._inputs(values, call)
        outputs = self._outputs(resolved, wanted, inputs, call)
        arriving = self._arriving(inputs, limits)
        leaving = _StagingLayout([x for x in outputs if isinstance(x, np.ndarray)])
        for staging, layout in ((workspace.incoming, arriving), (workspace.outgoing, leaving)):
            if layout.nbytes:
                workspace.reserve(staging, layout.nbytes)
        choices = b""
        if growing is not None:
            choices = growing.write(chain.launches[0], workspace, sizes)
            workspace.prepare(resolved, resolved.symbols, resolved.arena_bytes)
        for x, offset in zip(arriving.arrays, arriving.offsets, strict=True):
            workspace.incoming.view(offset, x.shape, x.dtype)[...] = x
        addresses = (
            *arriving.addresses(inputs, workspace.incoming.address),
            *leaving.addresses(outputs, workspace.outgoing.address),
        )
        self._enqueue(call, resolved, (limits, choices, addresses, arriving.nbytes, leaving.nbytes), again=again)
        if leaving.arrays:
            call.synchronize()
        arrays = leaving.arrays
        if chain.late is not None:
            outputs = _with_late_shapes(chain.late, outputs, leaving.offsets, sizes, workspace)
            arrays = [x for x in outputs if isinstance(x, np.ndarray)]
        for x, offset in zip(arrays, leaving.offsets, strict=True):
            x[...] = workspace.outgoing.view(offset, x.shape, x.dtype)
        return [as_wanted(outputs[k], want, call) for k, want in zip(chain.results, wanted, strict=True)]

    def run_resident(self, call: Call, values: Sequence[DeviceArray], sizes: tuple[int, ...]) -> list[DeviceArray]:
        """As `run` where all arrays lie on the device: nothing is staged, and outputs are new arrays."""
        chain, workspace = self.chain, call.workspace
        resolved = chain.at(sizes)
        if workspace.sizes is not resolved:
            workspace.prepare(resolved, resolved.symbols, resolved.arena_bytes)
        outputs = call.new_arrays(resolved.shapes, chain.dtypes, resolved.nbytes)
        call.made.update(outputs)
        addresses = (*[values[k].address for k in chain.order], *[output.address for output in outputs])
        self._enqueue(call, resolved, (sizes, b"", addresses, 0, 0))
        return [outputs[k] for k in chain.results]

    def _enqueue(self, call: Call, resolved: Resolved, key: _Key, *, again: bool = False) -> None:
        """Enqueues kernels, the copies of what is staged, and that of the status block: as a graph, if it is known."""
        chain, workspace = self.chain, call.workspace
        _, _, addresses, arriving_bytes, leaving_bytes = key

        def enqueue(stream: int) -> None:
            _copy_staged(workspace, arriving_bytes, stream, to_device=True)
            chain.enqueue(workspace, stream, addresses, resolved)
            _copy_staged(workspace, leaving_bytes, stream, to_device=False)
            workspace.status.copy(stream)

        workspace.graphs.run(key, call.stream, workspace.stream, enqueue, workspace.settle, again=again)
        workspace.counts.launches += len(chain.launches)
        call.in_flight = True

    def _arriving(self, inputs: Sequence[np.ndarray | DeviceArray], limits: tuple[int, ...]) -> "_StagingLayout":
        """How what a call brings is staged; arrays that grow have room for their limits, behind the table of sizes."""
        staged = [(k, x) for k, x in enumerate(inputs) if not isinstance(x, DeviceArray)]
        arrays = [x for _, x in staged]
        if self.growing is None:
            return _StagingLayout(arrays)
        room, order = self.growing.room(limits), self.chain.order
        return _StagingLayout(arrays, [room[order[k]] for k, _ in staged], self.growing.nbytes)

    def _inputs(self, values: Sequence["SlotValue"], call: Call) -> list[np.ndarray | DeviceArray]:
        """The inputs of the chain: on the device, or arrays to be staged."""
        return [
            x if isinstance(x := values[ordinal], DeviceArray) else self._from_host(ordinal, x, call)
            for ordinal in self.chain.order
        ]

    def _from_host(self, ordinal: int, value: "SlotValue", call: Call) -> np.ndarray | DeviceArray:
        x = as_array(value)
        default, resident = self.defaults.get(ordinal, (None, None))
        if resident is not None and x is default:
            return resident
        return x if x.nbytes <= LARGEST_STAGED_BYTES else uploaded(x, call)

    def _outputs(
        self,
        resolved: Resolved,
        wanted: Sequence[Wanted],
        inputs: Sequence[np.ndarray | DeviceArray],
        call: Call,
    ) -> list[np.ndarray | DeviceArray]:
        """An array for each output of the chain: on the device, or one of the host to be copied to."""
        chain, late = self.chain, self.chain.late_shapes
        residencies = {output: wanted[result] for result, output in enumerate(chain.results)}
        # What is given may lie over an input, or over what was given before it; new arrays lie over nothing.
        is_given = any(isinstance(want, DeviceArray) for want in wanted)
        taken = [x for x in inputs if isinstance(x, DeviceArray)] if is_given else []
        outputs: list[np.ndarray | DeviceArray | None] = []
        described = zip(resolved.shapes, chain.dtypes, resolved.nbytes, strict=True)
        for index, (shape, dtype, nbytes) in enumerate(described):
            # What is read late is only read on the host.
            want = residencies.get(index, Residency.HOST)
            if index in late:
                outputs.append(_late_output(shape, dtype, nbytes, want))
                continue
            output = _output(shape, dtype, nbytes, want, taken)
            outputs.append(output)
            if isinstance(output, DeviceArray):
                taken.append(output)
        made = self._new_arrays([k for k, output in enumerate(outputs) if output is None], resolved, call)
        return [next(made) if output is None else output for output in outputs]

    def _new_arrays(self, ordinals: Sequence[int], resolved: Resolved, call: Call) -> Iterator[DeviceArray]:
        """A new array of the device for each of these outputs."""
        if not ordinals:
            return iter(())
        shapes, sizes = [resolved.shapes[k] for k in ordinals], [resolved.nbytes[k] for k in ordinals]
        return iter(call.new_arrays(shapes, [self.chain.dtypes[k] for k in ordinals], sizes))


class _StagingLayout:
    """Arrays of the host on their way through staging memory: where each lies there, and the bytes of all.

    room: the bytes that are kept for each, at least; `first` is where the first may lie.
    """

    def __init__(self, arrays: Sequence[np.ndarray], room: Sequence[int] | None = None, first: int = 0) -> None:
        self.arrays = arrays
        self.offsets: list[int] = []
        self.nbytes = _aligned(first)
        for x, least in zip(arrays, room or [0] * len(arrays), strict=True):
            self.offsets.append(self.nbytes)
            self.nbytes += _aligned(max(1, x.nbytes, least))

    def addresses(self, arrays: Sequence[np.ndarray | DeviceArray], base: int) -> list[int]:
        """The address on the device of each array, in staging memory at `base` if it passes through it."""
        offsets = iter(self.offsets)
        return [x.address if isinstance(x, DeviceArray) else base + next(offsets) for x in arrays]


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _STAGING_ALIGNMENT) * _STAGING_ALIGNMENT


def _copy_staged(workspace: DeviceWorkspace, nbytes: int, stream: int, *, to_device: bool) -> None:
    """Enqueues the copy of what is staged, in one piece."""
    if nbytes == 0:
        return
    staging = workspace.incoming if to_device else workspace.outgoing
    function = "cuMemcpyHtoDAsync_v2" if to_device else "cuMemcpyDtoHAsync_v2"
    ends = (staging.address, staging.host_address)
    to, origin = ends if to_device else reversed(ends)
    workspace.device.driver.call("to copy inputs or outputs", function, to, origin, nbytes, stream)


def _output(
    shape: tuple[int, ...], dtype: DType, nbytes: int, want: Wanted, taken: Sequence[DeviceArray]
) -> np.ndarray | DeviceArray | None:
    """What was given for an output, or an array of the host; None for a new array of the device."""
    if isinstance(want, DeviceArray) and want.shape == shape and not any(_overlap(want, other) for other in taken):
        return want
    if isinstance(want, DeviceArray) or want is Residency.DEVICE or nbytes > LARGEST_STAGED_BYTES:
        return None
    return want if isinstance(want, np.ndarray) and want.shape == shape else np.empty(shape, dtype)


def _late_output(shape: tuple[int, ...], dtype: DType, nbytes: int, want: Wanted) -> np.ndarray | None:
    """As `_output`, an array for the most that there may be; what was given for the output gets what there is."""
    is_small = nbytes <= LARGEST_LATE_BYTES
    return np.empty(shape, dtype) if is_small and (isinstance(want, np.ndarray) or want is Residency.HOST) else None


def _with_late_shapes(
    late: LateSizes,
    outputs: Sequence[np.ndarray | DeviceArray],
    offsets: Sequence[int],
    sizes: tuple[int, ...],
    workspace: DeviceWorkspace,
) -> list[np.ndarray | DeviceArray]:
    """The outputs with the shapes that are known now; `offsets` are the places of those that are staged."""
    left = iter(offsets)
    staged = {k: next(left) for k, x in enumerate(outputs) if isinstance(x, np.ndarray)}
    counted = [int(workspace.outgoing.view(staged[k], (1,), _COUNTED)[0]) for k, _ in late.counts]
    sized = [*outputs]
    for k, shape in late.at(sizes, counted).items():
        x = outputs[k]
        sized[k] = x.first(shape) if isinstance(x, DeviceArray) else np.empty(shape, x.dtype)
    return sized


def _overlap(a: DeviceArray, b: DeviceArray) -> bool:
    return a.address < b.address + b.nbytes and b.address < a.address + a.nbytes
