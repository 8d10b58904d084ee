"""The schema table against the official registry, and how a version is chosen."""

import subprocess
import sys
from pathlib import Path

import pytest
from onnx import defs, helper

from onnxc.compiler.frontend import schemas
from onnxc.compiler.frontend.element_types import ELEMENT_TYPES
from onnxc.compiler.frontend.proto.onnxc_pb2 import TypeProto
from onnxc.compiler.frontend.schemas import Formal, Schema
from onnxc.compiler.frontend.value_types import type_text

OFFICIAL = {(s.domain, s.name, s.since_version): s for s in defs.get_all_schemas_with_history()}

CATEGORIES = {"unknown": None, "differentiable": True, "nondifferentiable": False}


def _last(member: object) -> str:
    return str(member).rpartition(".")[2].lower()


def _formals(formals: "list[defs.OpSchema.FormalParameter]") -> list[tuple[object, ...]]:
    return [
        (
            f.name,
            f.type_str,
            _last(f.option),
            f.is_homogeneous,
            f.min_arity,
            CATEGORIES[_last(f.differentiation_category)],
        )
        for f in formals
    ]


def _facts(formals: tuple[Formal, ...]) -> list[tuple[object, ...]]:
    return [(f.name, f.type_str, f.option, f.homogeneous, f.min_arity, f.differentiable) for f in formals]


def _default(attribute: defs.OpSchema.Attribute) -> object:
    if not attribute.default_value.type:
        return None
    value = helper.get_attribute_value(attribute.default_value)
    if isinstance(value, list):
        return tuple(item.decode() if isinstance(item, bytes) else item for item in value)
    return value.decode() if isinstance(value, bytes) else value


def test_every_version_of_every_operator_is_in_the_table() -> None:
    assert len(OFFICIAL) == 659
    assert {(s.domain, s.name, s.since_version) for s in schemas.all_schemas()} == set(OFFICIAL)


@pytest.mark.parametrize("domain", ["", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"])
def test_a_schema_says_what_the_registry_says(domain: str) -> None:
    for mine in schemas.all_schemas():
        if mine.domain != domain:
            continue
        theirs = OFFICIAL[mine.domain, mine.name, mine.since_version]
        assert mine.deprecated == theirs.deprecated
        assert (mine.min_inputs, mine.max_inputs) == (theirs.min_input, theirs.max_input)
        assert (mine.min_outputs, mine.max_outputs) == (theirs.min_output, theirs.max_output)
        assert _facts(mine.inputs) == _formals(list(theirs.inputs))
        assert _facts(mine.outputs) == _formals(list(theirs.outputs))
        assert {c: list(types) for c, types in mine.type_constraints.items()} == {
            c.type_param_str: list(c.allowed_type_strs) for c in theirs.type_constraints
        }
        assert {name: (a.name, a.kind, a.required, a.default) for name, a in mine.attributes.items()} == {
            name: (name, _last(a.type), a.required, _default(a)) for name, a in theirs.attributes.items()
        }
        # The stubs of onnx leave these two out.
        has_function = theirs.has_function or theirs.has_context_dependent_function  # type: ignore[attr-defined]
        assert mine.has_function == has_function


@pytest.mark.parametrize(
    ("opset", "since"), [(1, 1), (10, 1), (11, 11), (12, 11), (13, 13), (28, 13), (1000, 13)], ids=str
)
def test_the_newest_version_that_is_not_newer_than_the_opset_is_chosen(opset: int, since: int) -> None:
    chosen = schemas.schema("", "Gather", opset)
    assert chosen is not None
    assert (chosen.since_version, str(chosen)) == (since, f"ai.onnx.Gather-{since}")


@pytest.mark.parametrize(
    ("domain", "name", "opset"),
    [("", "Swish", 23), ("", "gather", 17), ("", "Gather", 0), ("", "Gather", -5), ("com.other", "Gather", 17)],
)
def test_there_is_no_version_of_what_does_not_exist(domain: str, name: str, opset: int) -> None:
    assert schemas.schema(domain, name, opset) is None


def test_ai_onnx_is_another_name_of_the_empty_domain() -> None:
    assert schemas.schema("ai.onnx", "Gather", 17) == schemas.schema("", "Gather", 17)


def test_versions_are_listed_oldest_first() -> None:
    assert schemas.versions("", "Gather") == (1, 11, 13)
    assert schemas.versions("", "NoSuchOperator") == ()


def test_the_newest_opsets_are_those_of_the_registry() -> None:
    assert schemas.newest_opset("") == defs.onnx_opset_version()
    assert schemas.newest_opset("ai.onnx") == defs.onnx_opset_version()
    assert schemas.newest_opset("ai.onnx.ml") == 5
    assert schemas.newest_opset("ai.onnx.preview") == 1
    assert schemas.newest_opset("ai.onnx.preview.training") == 1
    assert schemas.newest_opset("com.other") is None
    assert schemas.newest_ir_version() == 14


def test_positions_beyond_the_last_formal_belong_to_a_variadic_one() -> None:
    concat, gather = schemas.schema("", "Concat", 13), schemas.schema("", "Gather", 13)
    assert isinstance(concat, Schema)
    assert isinstance(gather, Schema)
    assert concat.input(7) is concat.inputs[0]
    assert gather.input(1) is gather.inputs[1]
    assert gather.input(2) is None


def test_type_strings_are_those_that_declared_types_are_compared_with() -> None:
    words = {f"tensor({element})" for element in ELEMENT_TYPES.values()}
    known = {text for schema in schemas.all_schemas() for texts in schema.type_constraints.values() for text in texts}
    assert words <= known
    map_type = helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, ["N"]))
    sequence = helper.make_sequence_type_proto(map_type)
    optional = helper.make_optional_type_proto(helper.make_tensor_type_proto(1, None))
    texts = [type_text(TypeProto.FromString(proto.SerializeToString())) for proto in (map_type, sequence, optional)]
    assert texts == ["map(int64, float)", "seq(map(int64, float))", "optional(tensor(float))"]
    assert {text for text in texts if text} <= known


def test_reading_the_table_does_not_import_onnx() -> None:
    program = """
import sys
from onnxc.compiler.frontend.schemas import schema
schema("", "Add", 9)
print("onnx" in sys.modules)
"""
    root = Path(__file__).parents[2]
    result = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
