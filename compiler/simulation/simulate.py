"""A call of a divided model, by cost alone: `onnxc.simulate`."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import prod

from onnxc.compiler.frontend.read import LoadedModel, read_model, rewritten
from onnxc.compiler.ir.module import Function
from onnxc.compiler.ir.types import type_symbols
from onnxc.compiler.option_types import expect_integer
from onnxc.compiler.options import CompileOptions, ModelSource, make_options
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.shard_model import expect_layout, shard_loaded
from onnxc.compiler.sharding.exchange import local_shape
from onnxc.compiler.simulation.divided_plans import DividedPlans, PlannedSegment, divided_plans
from onnxc.compiler.simulation.network import exchanged, parse_network
from onnxc.compiler.simulation.simulation import DeviceClass, Event, ExchangeTotal, Memory, Simulation
from onnxc.compiler.simulation.timeline import Sent, Turn, turns
from onnxc.compiler.simulation.walk_plan import Machines, ProgramCost, bytes_of, walk_plan
from onnxc.runtime.devices.pipeline import Transfer
from onnxc.runtime.errors import InputError
from onnxc.runtime.records import record

__all__ = ["simulate_source"]


def simulate_source(
    source: ModelSource,
    network: str | os.PathLike[str] | Mapping[str, object],
    dims: Mapping[str, int] | None,
    target: str,
    config: str | None,
    layout: tuple[int, int, int],
    devices: int | None,
    microbatches: int | None,
    precision: str,
) -> Simulation:
    """The simulation of a call; `layout` are tp, pp and dp, which make a configuration where they are not all 1."""
    options = make_options(target, dims, precision=precision)
    if options.target.kind not in ("cpu", "cuda"):
        raise InputError(f"target is {target!r}, and what it takes is known of cpu and cuda alone", code="option-type")
    parsed = parse_network(network)
    loaded = replace(read_model(source), reads_data=False)
    if layout != (1, 1, 1):
        loaded, config = _sharded(loaded, config, layout)
    options = replace(
        options,
        config=_configuration(loaded, config),
        devices=_count("devices", devices, "device-count-differs"),
        microbatches=_count("microbatches", microbatches, "microbatch-count"),
    )
    plans = divided_plans(loaded, options, dims or {})
    call = _Call(plans, Machines(options.target, parsed), _sizes(plans.whole, options.inputs.dims))
    return call.simulation(plans.segments[0].plan.name, options, str(parsed))


def _sharded(loaded: LoadedModel, config: str | None, layout: tuple[int, int, int]) -> tuple[LoadedModel, str]:
    """The model with the configuration of a layout, and its name."""
    if config is not None:
        message = f"config is {config!r}, and tp, pp or dp make another configuration: give one or the other"
        raise InputError(message, code="config-twice")
    tensor, stages, batch = layout
    wanted = expect_layout(tensor, stages, batch)
    return rewritten(loaded, shard_loaded(loaded, wanted)), str(wanted)


def _configuration(loaded: LoadedModel, config: str | None) -> str:
    """The configuration that is asked for; else the only one of the model."""
    names = [each.name for each in loaded.outline.configuration]
    if config is not None:
        return config
    if len(names) != 1:
        listed = f"has {', '.join(map(repr, names))}: name one" if names else "has none: give tp, pp or dp to make one"
        raise InputError(f"no config is given, and the model {listed}", code="unknown-config")
    return names[0]


def _count(name: str, value: object, code: str) -> int | None:
    """The count, which is an integer of 1 or more where there is one. Raises InputError, with `code` below 1."""
    count = None if value is None else expect_integer(name, value)
    if count is not None and count < 1:
        raise InputError(f"{name} is {count}, and at least 1 is needed", code=code)
    return count


def _sizes(whole: Function, dims: Mapping[str, object]) -> dict[str, int]:
    """The size of each symbol of the inputs. Raises InputError for those that are missing or out of range."""
    names = dict.fromkeys(name for value in whole.body.parameters for name in sorted(type_symbols(value.type)))
    if missing := [name for name in names if name not in dims]:
        message = f"a simulation is of a call of known sizes: dims has none for {', '.join(missing)}"
        raise InputError(message, code="simulated-sizes")
    sizes: dict[str, int] = {}
    for name in names:
        size, (low, high) = dims[name], whole.symbols.get(name, (0, None))
        if not isinstance(size, int) or size < low or (high is not None and size > high):
            raise InputError(f"dims has {size} for {name}, which is one size from {low} on", code="simulated-sizes")
        sizes[name] = size
    return sizes


@record
class _Passed:
    """A transfer of a part: what each device that receives gets, and how many bytes the devices of a stage send."""

    transfer: Transfer
    nbytes: int
    sent_bytes: Fraction
    seconds: float


class _Call:
    """A call of these sizes: what each segment and each transfer costs in each of its parts."""

    def __init__(self, plans: DividedPlans, machines: Machines, sizes: Mapping[str, int]) -> None:
        self.plans, self.machines, self.sizes = plans, machines, sizes
        self.parts = tuple(_parts(plans, sizes))
        alike: dict[tuple[tuple[str, int], ...], tuple[tuple[ProgramCost, ...], tuple[_Passed, ...]]] = {}
        for part in self.parts:
            key = tuple(part.items())
            if key not in alike:
                costs = tuple(walk_plan(each.plan, each.received, part, machines) for each in plans.segments)
                alike[key] = costs, tuple(self._passed(part))
        self.costs = [alike[tuple(part.items())][0] for part in self.parts]
        self.passed = [alike[tuple(part.items())][1] for part in self.parts]

    def simulation(self, model: str, options: CompileOptions, network: str) -> Simulation:
        """All that is told of the call."""
        assert options.config is not None, options
        made = turns(
            [each.divided.stage.devices for each in self.plans.segments],
            [[cost.seconds for cost in costs] for costs in self.costs],
            [[Sent(p.transfer.source, p.transfer.target, p.seconds) for p in passed] for passed in self.passed],
        )
        target, parts = str(options.target), len(self.parts)
        seconds = max((turn.end for turn in made), default=0.0)
        return Simulation(
            *(model, options.config, target, network, dict(self.sizes), parts, seconds),
            tuple(self._class(devices, run, made) for run, devices in self._alike().items()),
            tuple(self._exchanges()),
        )

    def _passed(self, sizes: Mapping[str, int]) -> Iterator[_Passed]:
        """What is sent in a part of these sizes."""
        for target, segment in enumerate(self.plans.segments):
            transfers = [each for each in self.plans.transfers if each.target == target]
            for transfer, value in zip(transfers, segment.received, strict=True):
                nbytes = bytes_of((value,), sizes)
                pairs = [(source, to) for source, to in transfer.pairs if source != to]
                busy: Counter[int] = Counter()
                seconds = 0.0
                for pair in pairs:
                    # What one device sends to several goes out one after the other.
                    busy[pair[0]] += 1
                    each = exchanged("send", nbytes, pair, self.machines.network).seconds
                    seconds = max(seconds, busy[pair[0]] * each)
                senders = len(self.plans.segments[transfer.source].divided.stage.devices)
                yield _Passed(transfer, nbytes, Fraction(nbytes * len(pairs), senders), seconds)

    def _alike(self) -> dict[tuple[int, ...], list[int]]:
        """For each row of segments that devices run, those that do."""
        stages = [each.divided.stage.devices for each in self.plans.segments]
        run: dict[int, tuple[int, ...]] = {}
        for segment, devices in enumerate(stages):
            run |= {device: (*run.get(device, ()), segment) for device in devices}
        groups: dict[tuple[int, ...], list[int]] = {}
        for device in sorted(run):
            groups.setdefault(run[device], []).append(device)
        return groups

    def _class(self, devices: Sequence[int], run: Sequence[int], made: Sequence[Turn]) -> DeviceClass:
        costs = [parts[segment] for parts in self.costs for segment in run]
        spans = [span for cost in costs for span in cost.spans]
        sent = sum((meeting.made.sent_bytes for cost in costs for meeting in cost.meetings), Fraction(0))
        sent += sum(
            (each.sent_bytes for part in self.passed for each in part if each.transfer.source in run), Fraction(0)
        )
        segments = [self.plans.segments[segment] for segment in run]
        memory = Memory(
            sum(map(_weight_bytes, segments)),
            bytes_of(self.plans.whole.body.parameters, self.sizes),
            max(cost.peak_bytes for cost in costs),
        )
        return DeviceClass(
            tuple(devices),
            tuple(dict.fromkeys(each.divided.stage.ordinal for each in segments)),
            sum(span.seconds for span in spans if span.kind == "compute"),
            sum(span.seconds for span in spans if span.kind == "collective"),
            sum(cost.overlapped_seconds for cost in costs),
            float(sent),
            memory,
            tuple(event for turn in made if turn.segment in run for event in self._events(turn)),
        )

    def _events(self, turn: Turn) -> Iterator[Event]:
        for span in self.costs[turn.part][turn.segment].spans:
            yield Event(span.kind, span.name, turn.part, turn.start + span.start, span.seconds)

    def _exchanges(self) -> Iterator[ExchangeTotal]:
        """Exchanges of a whole call, those that are alike together."""
        stages = [each.divided.stage.ordinal for each in self.plans.segments]
        totals: Counter[ExchangeTotal] = Counter()
        for costs, passed in zip(self.costs, self.passed, strict=True):
            for stage, cost in zip(stages, costs, strict=True):
                for each in cost.meetings:
                    sent, made = float(each.made.sent_bytes), each.made
                    group = (each.devices, made.algorithm, 0, each.nbytes, sent, made.seconds)
                    totals[ExchangeTotal(each.op, stage, *group)] += 1
            for moved in passed:
                stage = stages[moved.transfer.source]
                figures = (0, moved.nbytes, float(moved.sent_bytes), moved.seconds)
                totals[ExchangeTotal("send", stage, 2, "direct", *figures)] += 1
        yield from (replace(each, count=count) for each, count in totals.items())


def _parts(plans: DividedPlans, sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The sizes of each part of a call, as `Split.parts` makes them."""
    if plans.split is None:
        yield dict(sizes)
        return
    yield from ({**sizes, plans.batch: end - start} for start, end in pairwise(plans.split.ends(sizes[plans.batch])))


def _weight_bytes(segment: PlannedSegment) -> int:
    """What a device holds of constants: its shares, before they are packed, and those that are whole."""
    partition = segment.divided.partition
    shares = (local_shape(share.value.shape, share.sharding, partition.propagation.mesh) for share in partition.shares)
    held = zip(shares, partition.shares, strict=True)
    whole = sum(array.nbytes for array in segment.plan.constants if array.dtype.kind != "O")
    return whole + sum(prod(known_sizes(shape), start=share.value.itemsize) for shape, share in held)
