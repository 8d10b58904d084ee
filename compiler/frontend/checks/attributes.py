"""Attributes: well formed, known to the operator, of its type, all there that must be."""

from collections.abc import Iterator

from onnxc.compiler.frontend.attribute_fields import ATTRIBUTE_FIELDS, AttributeType
from onnxc.compiler.frontend.checks.context import Context, check_tensor
from onnxc.compiler.frontend.checks.findings import Site, listed
from onnxc.compiler.frontend.checks.types import check_type
from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto

_RULE = "ONNX IR, AttributeProto"

_TYPES = {field: code for code, field in ATTRIBUTE_FIELDS.items()}
_SINGULAR = ("f", "i", "s", "t", "g", "sparse_tensor", "tp")
_REPEATED = ("floats", "ints", "strings", "tensors", "graphs", "sparse_tensors", "type_protos")
# A scalar that is not written is 0 or empty, as proto3 has it; a message that is not written is missing.
_MESSAGES = frozenset(("t", "g", "sparse_tensor", "tp"))


def attribute_type(attribute: AttributeProto) -> AttributeType:
    """Its type; for one that does not say, as before IR version 2, the type of the value that it holds."""
    if attribute.type != AttributeProto.UNDEFINED:
        return attribute.type
    fields = list(_used_fields(attribute))
    return _TYPES[fields[0]] if len(fields) == 1 else AttributeProto.UNDEFINED


def kind_name(code: int) -> str:
    """A type of attribute as schemas write it: ints."""
    return AttributeProto.AttributeType.Name(code).lower() if code in ATTRIBUTE_FIELDS else f"type {code}"


def _used_fields(attribute: AttributeProto) -> Iterator[str]:
    for name in _SINGULAR:
        if attribute.HasField(name):
            yield name
    for name in _REPEATED:
        if len(getattr(attribute, name)):
            yield name


def check_attributes(site: Site, context: Context) -> None:
    """Checks all attributes of a node by themselves, without its schema."""
    seen: set[str] = set()
    for attribute in site.node.attribute:
        if not attribute.name:
            context.findings.error("attribute-without-name", "an attribute has no name", site.location(), rule=_RULE)
        elif attribute.name in seen:
            message = f"attribute {attribute.name} is given twice"
            context.findings.error("duplicate-attribute", message, site.location(), rule=_RULE)
        seen.add(attribute.name)
        if attribute.ref_attr_name:
            _check_reference(attribute, site, context)
        elif _check_form(attribute, site, context):
            check_value(attribute, site, context)


def _check_reference(attribute: AttributeProto, site: Site, context: Context) -> None:
    name, parameter = attribute.name, attribute.ref_attr_name
    if context.parameters is None:
        message = f"attribute {name} refers to the parameter {parameter} of a function, and is in none"
        context.findings.error("attribute-reference-outside-function", message, site.location(), rule=_RULE)
    elif parameter not in context.parameters:
        message = f"attribute {name} refers to the parameter {parameter}; the function has {listed(context.parameters)}"
        context.findings.error("unknown-attribute-reference", message, site.location(), rule=_RULE)
    if next(_used_fields(attribute), None) is not None:
        message = f"attribute {name} has a value and also refers to the parameter {parameter}"
        context.findings.error("attribute-value-and-reference", message, site.location(), rule=_RULE)
    if attribute.type == AttributeProto.UNDEFINED and context.ir_version >= 2:
        message = f"attribute {name} refers to the parameter {parameter} and does not say its type"
        context.findings.error("attribute-without-type", message, site.location(), rule=_RULE)


def _check_form(attribute: AttributeProto, site: Site, context: Context) -> bool:
    """Whether the attribute has the value that its type says."""
    name, code, used = attribute.name, attribute_type(attribute), list(_used_fields(attribute))
    if len(used) > 1:
        message = f"attribute {name} has values in the fields {', '.join(used)}"
        context.findings.error("attribute-ambiguous", message, site.location(), rule=_RULE)
        return False
    if code not in ATTRIBUTE_FIELDS:
        message = (
            f"attribute {name} has no type and no value" if not code else f"attribute {name} is of {kind_name(code)}"
        )
        context.findings.error("attribute-without-type", message, site.location(), rule=_RULE)
        return False
    if attribute.type == AttributeProto.UNDEFINED and context.ir_version >= 2:
        message = f"attribute {name} does not say its type; its value is of type {kind_name(code)}"
        context.findings.error("attribute-without-type", message, site.location(), rule=_RULE)
    field = ATTRIBUTE_FIELDS[code]
    if used and used != [field]:
        message = f"attribute {name} is of type {kind_name(code)} and has a value of type {kind_name(_TYPES[used[0]])}"
        context.findings.error("attribute-type", message, site.location(), rule=_RULE)
        return False
    if not used and field in _MESSAGES:
        message = f"attribute {name} is of type {kind_name(code)} and has no value"
        context.findings.error("attribute-without-value", message, site.location(), rule=_RULE)
        return False
    return True


def check_value(attribute: AttributeProto, site: Site, context: Context) -> None:
    """Checks the tensors, types and texts that an attribute holds; its graphs are the walk's to check."""
    what = f"attribute {attribute.name}"
    match attribute_type(attribute):
        case AttributeProto.TENSOR:
            check_tensor(attribute.t, what, site.location(), context)
        case AttributeProto.SPARSE_TENSOR:
            check_tensor(attribute.sparse_tensor, what, site.location(), context)
        case AttributeProto.TENSORS:
            for tensor in attribute.tensors:
                check_tensor(tensor, what, site.location(), context)
        case AttributeProto.SPARSE_TENSORS:
            for sparse in attribute.sparse_tensors:
                check_tensor(sparse, what, site.location(), context)
        case AttributeProto.TYPE_PROTO:
            check_type(attribute.tp, what, site.location(), context, complete=True)
        case AttributeProto.TYPE_PROTOS:
            for proto in attribute.type_protos:
                check_type(proto, what, site.location(), context, complete=True)
        case AttributeProto.STRING | AttributeProto.STRINGS:
            texts = [attribute.s, *attribute.strings]
            if not all(map(_is_utf8, texts)):
                context.findings.error("invalid-utf8", f"{what} is not UTF-8", site.location(), rule=_RULE)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_for_tools(name: str) -> bool:
    """Whether the standard leaves the name of an attribute to tools, which write what they like of a node."""
    return name.startswith("__")


def check_against_schema(site: Site, context: Context) -> None:
    """Checks the attributes of a node against what its operator takes."""
    schema, findings = site.schema, context.findings
    assert schema is not None, site
    given: set[str] = set()
    for attribute in site.node.attribute:
        name = attribute.name
        given.add(name)
        known = schema.attributes.get(name)
        if known is None:
            if name and not is_for_tools(name):
                message = f"attribute {name} is unknown; {schema.identity} has {listed(schema.attributes)}"
                findings.error("unknown-attribute", message, site.location(), rule=f"ONNX {schema.name}, attributes")
        elif (code := attribute_type(attribute)) in ATTRIBUTE_FIELDS and kind_name(code) != known.kind:
            message = f"attribute {name} is of type {kind_name(code)}, not {known.kind}"
            findings.error("attribute-type", message, site.location(), rule=f"ONNX {schema.name}, attribute {name}")
    for name, known in schema.attributes.items():
        if known.required and name not in given:
            message = f"attribute {name} is required and absent"
            findings.error("missing-attribute", message, site.location(), rule=f"ONNX {schema.name}, attribute {name}")
