"""The official cases, each with its graph as the body of a function: expanded, they are what they were.

Operators that the standard defines as functions are expanded too, and compute what they computed.
"""

import numpy as np
import pytest
from onnx import ModelProto, checker, defs

import onnxc
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.runtime.errors import UnsupportedError
from tests.conformance.cases import Case, all_cases, draws_numbers
from tests.conformance.compare import difference
from tests.conformance.versions import ATOL, ROUNDING, RTOL, run

pytestmark = pytest.mark.slow

SHARDS = 2


def wrapped(model: ModelProto) -> ModelProto:
    """The model with all nodes in a function; its attributes are parameters of that, its inputs those of the graph."""
    changed = ModelProto()
    changed.CopyFrom(model)
    changed.ir_version = max(changed.ir_version, 10)
    del changed.graph.node[:], changed.graph.value_info[:]
    given = [*dict.fromkeys([*(info.name for info in model.graph.input), *(t.name for t in model.graph.initializer)])]
    results = [*dict.fromkeys(info.name for info in model.graph.output)]
    changed.graph.node.add(op_type="body", domain="wrapped", input=given, output=results)
    changed.opset_import.add(domain="wrapped", version=1)
    function = changed.functions.add(name="body", domain="wrapped", input=given, output=results)
    function.opset_import.extend(model.opset_import)
    function.node.extend(model.graph.node)
    for index, node in enumerate(function.node):
        for attribute in node.attribute:
            name = f"{attribute.name}_{index}"
            changed.graph.node[0].attribute.add().CopyFrom(attribute)
            changed.graph.node[0].attribute[-1].name = name
            kind, label = attribute.type, attribute.name
            attribute.Clear()
            attribute.name, attribute.type, attribute.ref_attr_name = label, kind, name
            function.attribute.append(name)
    return changed


def module_text(model: ModelProto) -> str:
    return str(lower_model(check_model(read_model(model))))


def is_wrappable(case: Case, model: ModelProto) -> bool:
    """Whether its nodes make up a function: attributes with graphs that see names of the body cannot be handed over."""
    has_graphs = any(attribute.HasField("g") for node in model.graph.node for attribute in node.attribute)
    return not has_graphs and model.ir_version >= 4 and "gradient" not in case.name


@pytest.mark.parametrize("shard", range(SHARDS))
def test_an_expanded_case_is_the_case(shard: int) -> None:
    wrong, count = [], 0
    # Of the many of one kind, every third.
    for case in [case for case in all_cases() if case.kind in ("node", "node-expanded")][shard :: SHARDS * 3]:
        model, _ = case.load()
        if not is_wrappable(case, model):
            continue
        inlined = ModelProto.FromString(onnxc.inline(wrapped(model)).SerializeToString())
        checker.check_model(inlined)
        count += 1
        try:
            is_same = not inlined.functions and module_text(inlined) == module_text(model)
        except UnsupportedError:
            is_same = False
        if not is_same:
            wrong.append(case.name)
    assert not wrong
    assert count > 200


FUNCTIONS = {
    known.name
    for known in defs.get_all_schemas_with_history()
    if not known.domain and (known.has_function or known.has_context_dependent_function)
}


@pytest.mark.parametrize("shard", range(SHARDS))
def test_operators_that_are_functions_are_what_they_were(shard: int) -> None:
    wrong, count = [], 0
    for case in [case for case in all_cases() if case.kind == "node"][shard :: SHARDS * 2]:
        model, data = case.load()
        used = FUNCTIONS.intersection(node.op_type for node in model.graph.node)
        if not used:
            continue
        inlined = ModelProto.FromString(onnxc.inline(model, used).SerializeToString())
        checker.check_model(inlined)
        assert used.isdisjoint(node.op_type for node in inlined.graph.node), case.name
        count += 1
        if draws_numbers(model.graph):
            continue
        rtol = max([RTOL, *(ROUNDING.get(info.type.tensor_type.elem_type, 0.0) for info in model.graph.output)])
        with np.errstate(all="ignore"):
            found = difference(run(model, data[0][0]), run(inlined, data[0][0]), rtol, rtol * ATOL / RTOL)
        wrong += [f"{case.name}: {found}"] if found else []
    assert not wrong
    assert count > 90
