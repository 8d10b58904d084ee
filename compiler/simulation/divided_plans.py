"""A model divided as one of its configurations says, with the plan of each segment, and nothing compiled."""

from collections.abc import Mapping
from dataclasses import replace

from onnxc.compiler.back_ends import BackEnd, back_end
from onnxc.compiler.checked_model import check_or_repair
from onnxc.compiler.compile_for_devices import device_passes
from onnxc.compiler.compile_stages import (
    DividedSegment,
    divide_segments,
    expect_no_microbatches,
    split_of,
    transfers_to,
)
from onnxc.compiler.driver import optimize
from onnxc.compiler.frontend.devices.node_shardings import choose_configuration
from onnxc.compiler.frontend.devices.stages import with_stages
from onnxc.compiler.frontend.input_options import InputOptions
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import LoadedModel
from onnxc.compiler.ir.module import Function, Value
from onnxc.compiler.limits import limited_to
from onnxc.compiler.model_symbols import expect_known_dims
from onnxc.compiler.options import CompileOptions
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.compiler.planning.plan import Chosen, plan_kernels
from onnxc.compiler.sharding.cut import cut_stages
from onnxc.compiler.sharding.microbatches import Batch, find_batch
from onnxc.runtime.devices.pipeline import Split, Transfer
from onnxc.runtime.records import record

__all__ = ["MOST_DEVICES", "DividedPlans", "PlannedSegment", "divided_plans"]

MOST_DEVICES = 1 << 12
"""2,880 devices have 15,488 grids, as many as any number up to here; that none of them fits took 80 s to find."""


@record(eq=False)
class PlannedSegment:
    """A segment of a pipeline on the devices of its stage, and what each of them runs."""

    divided: DividedSegment
    plan: KernelPlan

    @property
    def received(self) -> tuple[Value, ...]:
        """The parameters that other devices send, as each device gets them."""
        divided = self.divided
        first = len(divided.segment.module.main.body.parameters) - len(divided.segment.received)
        parameters = self.plan.function.body.parameters
        return parameters[first : first + len(divided.segment.received)]


@record(eq=False)
class DividedPlans:
    """The segments in order and what goes between them; `batch` is the size that parts of a call split, if they do."""

    whole: Function
    segments: tuple[PlannedSegment, ...]
    transfers: tuple[Transfer, ...]
    split: Split | None
    batch: str


def divided_plans(loaded: LoadedModel, options: CompileOptions, sizes: Mapping[str, int]) -> DividedPlans:
    """The plans for the configuration of the options, at whatever sizes; `sizes` name those of a call.

    Raises InputError and UnsupportedError as compiling does.
    """
    assert options.config is not None, options
    _, checked = check_or_repair(loaded, options.limits)
    expect_known_dims(checked, InputOptions(dict(sizes)))
    checked = with_stages(checked, options.config)
    shardings = choose_configuration(checked, options.config, options.devices, MOST_DEVICES)
    end = back_end(options)
    before, _ = device_passes(end, options)
    with limited_to(options.limits):
        module = optimize(lower_model(checked, None, shardings), before, options.limits)
    stages = {stage.ordinal: stage for stage in shardings.stages}
    divided = divide_segments(cut_stages(module, shardings.stages[0].ordinal), stages)
    batch = find_batch(module.main)
    if len(stages) == 1:
        expect_no_microbatches(options)
    split = split_of(batch, len(stages), options.microbatches) if len(stages) > 1 else None
    transfers = tuple(transfer for target in range(len(divided)) for transfer in transfers_to(divided, target))
    # Segments of like layers have like kernels: of 8 of Llama 70B for a GPU this took 30 s of 60.
    chosen: Chosen = {}
    segments = tuple(PlannedSegment(each, _plan(each, end, options, chosen)) for each in divided)
    return DividedPlans(module.main, segments, transfers, split, batch.symbol if isinstance(batch, Batch) else "")


def _plan(divided: DividedSegment, end: BackEnd, options: CompileOptions, chosen: Chosen) -> KernelPlan:
    """The plan of what each device runs. Its steps are not joined to native calls, which would hide what they are."""
    _, behind = device_passes(end, options)
    local = optimize(divided.partition.module, behind, options.limits)
    target = replace(end.plan_target, compiles_steps=False)
    return plan_kernels(local, target, shares=len(divided.partition.shares), chosen=chosen)
