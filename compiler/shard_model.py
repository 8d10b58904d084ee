"""A model with a device configuration of our choice: annotations of the standard, which any tool can read."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from onnxc.compiler.checked_model import check_or_repair
from onnxc.compiler.driver import optimize
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.devices.balance import balanced_stages
from onnxc.compiler.frontend.devices.node_shardings import NodeShardings, choose_configuration
from onnxc.compiler.frontend.devices.write import Layout, write_configuration
from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.read import LoadedModel, read_model, rewritten
from onnxc.compiler.ir.module import Block
from onnxc.compiler.limits import DEFAULT_LIMITS, limited_to
from onnxc.compiler.option_types import expect_integer
from onnxc.compiler.options import ModelSource
from onnxc.compiler.passes.pipelines import cpu_optimize
from onnxc.compiler.shard_tensors import batch_tensors, matrix_of, weight_tensors
from onnxc.compiler.sharding.choose.blocks import Program
from onnxc.compiler.sharding.choose.choose import choose
from onnxc.compiler.sharding.explain import explained
from onnxc.compiler.sharding.propagate import propagate
from onnxc.runtime.errors import InputError

__all__ = ["expect_layout", "explain_source", "shard_loaded", "shard_source"]

MOST_OF_EACH = 1 << 12
"""An estimate of what nobody has; each tensor that is divided lists all devices."""

_COUNT = "shard-count"


def shard_source(source: ModelSource, tensor: int, stages: int, batch: int) -> ModelProto:
    """The model with the configuration that divides weights, layers and the batch over so many devices.

    Raises InputError where there is nothing to divide, or the model has a configuration of that name.
    """
    return shard_loaded(read_model(source), expect_layout(tensor, stages, batch))


def explain_source(source: ModelSource, tensor: int, stages: int, batch: int) -> Iterator[str]:
    """Lines: why each matrix is divided as it is, then why each value is, as if there were one stage."""
    layout = expect_layout(tensor, stages, batch)
    loaded, checked = check_or_repair(read_model(source))
    for choice in choose(Program(_optimized(checked), layout.tensor)) if layout.tensor > 1 else ():
        is_written = matrix_of(choice, loaded.proto.graph, checked.graph.path) is not None
        division = choice.division if is_written else "whole, as no MatMul, Gemm or Gather of the main graph has it"
        yield f"{choice.op.location}: {division}; {choice.why}"
    one_stage = replace(layout, stages=1)
    if one_stage.devices > 1:
        divided = check_model(rewritten(loaded, shard_loaded(loaded, one_stage)))
        shardings = choose_configuration(divided, str(one_stage), None)
        yield f"the mesh is {shardings.mesh}"
        yield from explained(propagate(_optimized(divided, shardings), shardings.mesh))


def expect_layout(tensor: int, stages: int, batch: int) -> Layout:
    """The layout of these counts. Raises InputError."""
    layout = Layout(_count("tp", tensor), _count("pp", stages), _count("dp", batch))
    if layout.devices == 1:
        raise InputError("tp, pp and dp are all 1, which divides nothing", code=_COUNT)
    return layout


def _count(option: str, value: object) -> int:
    count = expect_integer(option, value)
    if not 1 <= count <= MOST_OF_EACH:
        raise InputError(f"{option} is {count}, expected 1 to {MOST_OF_EACH}", code=_COUNT)
    return count


def shard_loaded(loaded: LoadedModel, layout: Layout) -> ModelProto:
    """The message of the model with the configuration of the layout, as `shard_source` makes it."""
    loaded, checked = check_or_repair(loaded)
    if str(layout) in checked.configurations:
        raise InputError(f"the model has a configuration {str(layout)!r} already", code="config-taken")
    model = ModelProto()
    model.CopyFrom(loaded.proto)
    body = _optimized(checked)
    batched = tuple(batch_tensors(body, model.graph, layout.batch))
    choices = choose(Program(body, layout.tensor)) if layout.tensor > 1 else ()
    weights = tuple(weight_tensors(choices, model.graph, checked.graph.path, is_batched=bool(batched)))
    if layout.tensor > 1 and not weights:
        raise InputError(f"tp is {layout.tensor}, and there is no product that pays to be divided so", code=_COUNT)
    write_configuration(model, layout, (*batched, *weights), _stages(model, checked, layout.stages))
    check_model(rewritten(loaded, model))
    return model


def _optimized(checked: CheckedModel, shardings: NodeShardings | None = None) -> Block:
    with limited_to(DEFAULT_LIMITS):
        return optimize(lower_model(checked, None, shardings), cpu_optimize(), DEFAULT_LIMITS).main.body


def _stages(model: ModelProto, checked: CheckedModel, count: int) -> Sequence[int]:
    """The stage of each node; none where there is one stage."""
    if count == 1:
        return ()
    if count > len(model.graph.node):
        raise InputError(f"pp is {count}, and the graph has {len(model.graph.node)} nodes", code=_COUNT)
    held = {name: prod(each.shape) * each.dtype.bits // 8 for name, each in checked.graph.initializers.items()}
    return balanced_stages(model.graph.node, held, count)
