"""Calls on ranks: each runs the program of a device, on whole inputs, and has the whole outputs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.devices.devices_engine import DividedEngine
from onnxc.runtime.devices.divided_executable import DividedExecutable
from onnxc.runtime.devices.local_inputs import local_inputs
from onnxc.runtime.devices.local_layout import LocalLayout, local_values
from onnxc.runtime.devices.pipeline import Pipeline
from onnxc.runtime.devices.pipeline_engine import PipelineEngine, SegmentOfDevices
from onnxc.runtime.engine import Engine
from onnxc.runtime.host.rendezvous import Exchanges, device_of_thread, receive, send
from onnxc.runtime.ranks.gathered_inputs import gather_inputs
from onnxc.runtime.ranks.world import World
from onnxc.runtime.values import host_value

if TYPE_CHECKING:
    from onnxc.runtime.host.values import HostValue
    from onnxc.runtime.values import SlotValue

__all__ = ["RanksEngine", "RanksExecutable", "RanksPipelineEngine"]


class RanksEngine(DividedEngine):
    """Runs the program of `engine` as the device of this rank, with its last inputs, `added`.

    exchanges: by which values go between devices, those of the world where they lie on the host; on_device: whether the
    engine reads shards where they lie in the memory of its device.
    """

    def __init__(
        self,
        engine: Engine,
        added: Sequence["SlotValue"],
        world: World,
        inputs: Sequence[LocalLayout | None] = (),
        outputs: Sequence[LocalLayout | None] = (),
        exchanges: Exchanges | None = None,
        *,
        on_device: bool = False,
    ) -> None:
        super().__init__(engine, (world.rank,), inputs, outputs)
        self.world, self._added = world, added
        self._exchanges, self._on_device = world.exchanges if exchanges is None else exchanges, on_device

    def run(
        self, values: Sequence["SlotValue"], sizes: tuple[int, ...], given: Sequence[np.ndarray] | None = None
    ) -> Sequence["SlotValue"]:
        """The outputs, whole or as this rank holds them."""
        with device_of_thread(self._exchanges, self.world.rank):
            blocks = local_inputs(self.inputs, values, self.world.rank, on_device=self._on_device)
            results = self._engine.run((*blocks, *self._added), sizes)
        return local_values(self._outputs, sizes, {self.world.rank: results}) if self._outputs else results


class RanksPipelineEngine(PipelineEngine):
    """Runs the segments of this rank; the others send what it reads, and the outputs that they make."""

    def __init__(
        self,
        pipeline: Pipeline,
        segments: Mapping[int, SegmentOfDevices],
        defaults: Mapping[int, np.ndarray],
        world: World,
        exchanges: Exchanges | None = None,
    ) -> None:
        super().__init__(pipeline, segments, defaults)
        self.world, self.devices = world, (world.rank,)
        self._exchanges = world.exchanges if exchanges is None else exchanges

    def run(
        self, values: Sequence["SlotValue"], sizes: tuple[int, ...], given: Sequence[np.ndarray] | None = None
    ) -> Sequence["HostValue"]:
        """The outputs, which every rank has whole."""
        self.count_call()
        rank = self.world.rank
        owners = {output: role.devices[0] for role in self.pipeline.roles for output in role.outputs}
        with device_of_thread(self._exchanges, rank):
            made = self.run_device(rank, values)
            for output in made:
                for other in range(self.world.size):
                    if other != rank:
                        send(other, ("output", output), made[output])
            made |= {
                output: host_value(receive(owner, ("output", output)))
                for output, owner in owners.items()
                if owner != rank
            }
        return [made[output] for output in sorted(made)]


class RanksExecutable(DividedExecutable):
    """A model on ranks; all of them make the same calls in the same order.

    What is wrong in one of them, with its inputs too, is an error in all.
    """

    _engine: RanksEngine | RanksPipelineEngine

    def __call__(self, /, *inputs: object, **named: object) -> "SlotValue | tuple[SlotValue, ...]":
        with self._engine.world.call():
            return super().__call__(*inputs, **named)

    def _run_by_name(
        self,
        inputs: object,
        out: Mapping[str, object] | None = None,
        seed: int | None = None,
        stream: int | None = None,
    ) -> dict[str, "SlotValue"]:
        with self._engine.world.call():
            return super()._run_by_name(inputs, out, seed, stream)

    def _imported(self, inputs: Sequence[object], defaults: Mapping[int, np.ndarray]) -> "tuple[SlotValue, ...]":
        return super()._imported(gather_inputs(inputs, self._engine.inputs, self._engine.world), defaults)
