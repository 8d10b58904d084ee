"""The generated classes against the official ones: the same numbers, names, labels, types, and the same bytes."""

from collections.abc import Iterable, Iterator

import onnx
import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FileDescriptor
from onnx.backend.test.loader import load_model_tests

from onnxc.compiler.frontend.proto import onnxc_pb2


def _messages(descriptors: Iterable[Descriptor]) -> Iterator[Descriptor]:
    for descriptor in descriptors:
        yield descriptor
        yield from _messages(descriptor.nested_types)


def _relative(descriptor: Descriptor | EnumDescriptor) -> str:
    return str(descriptor.full_name).removeprefix(descriptor.file.package + ".")


def _all_messages(file: object) -> dict[str, Descriptor]:
    assert isinstance(file, FileDescriptor)
    return {_relative(descriptor): descriptor for descriptor in _messages(file.message_types_by_name.values())}


OURS = _all_messages(onnxc_pb2.DESCRIPTOR)
THEIRS = _all_messages(onnx.ModelProto.DESCRIPTOR.file)


def _facts(descriptor: Descriptor) -> dict[int, tuple[object, ...]]:
    return {
        field.number: (
            field.name,
            field.type,
            field.is_repeated,
            field.is_packed,
            field.message_type and _relative(field.message_type),
            field.enum_type and _relative(field.enum_type),
            field.containing_oneof and field.containing_oneof.name,
        )
        for field in descriptor.fields
    }


def test_both_packages_know_the_same_messages() -> None:
    assert OURS.keys() == THEIRS.keys()


@pytest.mark.parametrize("name", THEIRS)
def test_a_message_has_the_fields_of_the_official_one(name: str) -> None:
    assert _facts(OURS[name]) == _facts(THEIRS[name])


@pytest.mark.parametrize("name", THEIRS)
def test_an_enumeration_has_the_numbers_of_the_official_one(name: str) -> None:
    numbers = [{e.name: dict(e.values_by_name) for e in d[name].enum_types} for d in (OURS, THEIRS)]
    ours, theirs = ({e: {k: v.number for k, v in vs.items()} for e, vs in es.items()} for es in numbers)
    assert ours == theirs


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["node", "simple"])
def test_official_models_survive_a_round_trip_byte_for_byte(kind: str) -> None:
    for case in load_model_tests(kind=kind):
        if case.model is None:
            continue
        data = case.model.SerializeToString(deterministic=True)
        model = onnxc_pb2.ModelProto.FromString(data)
        assert model.SerializeToString(deterministic=True) == data, case.name
        assert onnx.ModelProto.FromString(model.SerializeToString()) == case.model, case.name


def test_text_that_is_not_utf8_is_kept_as_bytes() -> None:
    model = onnxc_pb2.ModelProto.FromString(b"\x12\x03caf\x32\x01\xe9")
    assert model.producer_name == "caf"
    assert model.SerializeToString() == b"\x12\x03caf\x32\x01\xe9"


def test_an_unknown_attribute_type_is_kept() -> None:
    attribute = onnxc_pb2.AttributeProto.FromString(b"\xa0\x01\x63")
    assert attribute.type == 99
    assert attribute.SerializeToString() == b"\xa0\x01\x63"
