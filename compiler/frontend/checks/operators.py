"""Operators: there in the opset that is imported, with operands in number and of types that they take."""

from collections.abc import Sequence

from onnxc.compiler.frontend.checks.attributes import check_against_schema
from onnxc.compiler.frontend.checks.context import Context
from onnxc.compiler.frontend.checks.findings import Site
from onnxc.compiler.frontend.checks.known_types import KnownTypes
from onnxc.compiler.frontend.schemas import (
    UNBOUNDED,
    Formal,
    Schema,
    is_standard,
    newest_opset,
    normal_domain,
    schema,
    versions,
)
from onnxc.compiler.frontend.value_types import OTHER_TYPE_ADVICE

COUNT_CODES = {"input": "input-count", "output": "output-count"}
MISSING_CODES = {"input": "missing-input", "output": "missing-output"}


def check_operator(site: Site, context: Context, types: KnownTypes) -> Schema | None:
    """Checks a node that calls no function of the model; the schema that holds for it, if any."""
    chosen = _choose(site, context)
    if chosen is None:
        return None
    site = site.of_schema(chosen)
    if chosen.deprecated:
        _report_deprecation(chosen, site, context)
    check_against_schema(site, context)
    _check_arity("input", site.node.input, chosen.inputs, chosen.min_inputs, chosen.max_inputs, site, context)
    _check_arity("output", site.node.output, chosen.outputs, chosen.min_outputs, chosen.max_outputs, site, context)
    _check_types(chosen, site, context, types)
    return chosen


def _report_deprecation(chosen: Schema, site: Site, context: Context) -> None:
    """A warning: what has ended keeps its meaning, and there are models that use it."""
    message = f"{chosen.name} is deprecated since opset {chosen.since_version}"
    context.findings.warning("deprecated-operator", message, site.location(), rule="ONNX, deprecated operators")


def _choose(site: Site, context: Context) -> Schema | None:
    """The schema of a node; where there is none, that is a finding."""
    node, findings = site.node, context.findings
    domain, rule = normal_domain(node.domain), "ONNX IR, operator sets"
    shown = f"{domain or 'ai.onnx'}.{node.op_type}"
    if not node.op_type:
        findings.error("missing-operator", "a node has no operator", site.location(), rule=rule)
        return None
    if newest_opset(domain) is None and not context.operators.have(domain):
        # Other software may know a domain that is imported, unless it is the model's own.
        is_imported = domain in context.opsets and not node.overload
        is_own = any(key[0] == domain for key in context.functions)
        report = findings.warning if is_imported and not is_own else findings.error
        message = f"the domain {domain} is unknown, and no function of the model is {shown}"
        report("unknown-domain", message, site.location(), rule=rule)
        return None
    context.used_domains.add(domain)
    version = context.opsets.get(domain)
    if version is None:
        message = f"{shown} is used, and no opset of {domain or 'ai.onnx'} is imported"
        if not domain and context.parameters is None:
            message += "; compile(..., opset=) says which it is"
        findings.error("missing-opset-import", message, site.location(), rule=rule)
        return None
    if version < 1:
        return None
    custom = context.operators.find(domain, node.op_type, version)
    chosen = schema(domain, node.op_type, version) if custom is None else custom.schema
    if node.overload:
        message = f"no function of the model is {shown}:{node.overload}, and operators have no overloads"
        findings.error("unknown-operator", message, site.location(), rule=rule)
        return None
    if chosen is None:
        known = context.operators.versions(domain, node.op_type) or versions(domain, node.op_type)
        message = (
            f"{shown} is new in opset {known[0]}, and opset {version} is imported" if known else f"{shown} is unknown"
        )
        report = findings.error if known or is_standard(domain) else findings.warning
        report("operator-not-in-opset" if known else "unknown-operator", message, site.location(), rule=rule)
    return chosen


def _check_arity(
    kind: str,
    names: Sequence[str],
    formals: tuple[Formal, ...],
    least: int,
    most: int,
    site: Site,
    context: Context,
) -> None:
    count, schema = len(names), site.schema
    assert schema is not None, site
    rule = f"ONNX {schema.name}, {kind}s"
    if not least <= count <= most:
        wanted = f"at least {least}" if most == UNBOUNDED else f"{least}" if least == most else f"{least} to {most}"
        message = f"{schema.identity} has {wanted} {kind}{'s' * (wanted != '1')}, and {count} are given"
        context.findings.error(COUNT_CODES[kind], message, site.location(), rule=rule)
        return
    for name, formal in zip(names, formals, strict=False):
        if not name and formal.option == "single":
            message = f"{kind} {formal.name} is required and left out"
            context.findings.error(MISSING_CODES[kind], message, site.location(), rule=rule)
    if formals and formals[-1].option == "variadic":
        formal, last = formals[-1], names[len(formals) - 1 :]
        given = sum(map(bool, last))
        if given < formal.min_arity:
            message = f"{kind} {formal.name} takes at least {formal.min_arity}, and {given} are given"
            context.findings.error(MISSING_CODES[kind], message, site.location(), rule=rule)
        elif kind == "input" and formal.homogeneous and given < len(last):
            message = f"input {formal.name} takes any number, and one of those given has no name"
            context.findings.error(MISSING_CODES[kind], message, site.location(), rule=rule)


def _check_types(schema: Schema, site: Site, context: Context, types: KnownTypes) -> None:
    """Checks the types that are declared against the schema's constraints, and those against one another."""
    bound: dict[str, tuple[str, str]] = {}
    for kind, names, formal_at in (
        ("input", site.node.input, schema.input),
        ("output", site.node.output, schema.output),
    ):
        for position, name in enumerate(names):
            formal, actual = formal_at(position), types.find(name) if name else None
            if formal is None or actual is None:
                continue
            values = [f'{formal.name} "{name}" : {actual}']
            # That of an output is what is declared.
            advice = [OTHER_TYPE_ADVICE] if kind == "output" else []
            rule = f"ONNX {schema.name}, type {formal.type_str}"
            if not schema.allows(actual, formal):
                message = f"{kind} {formal.name} is {actual}, which {schema.identity} does not take"
                values.append(f"{formal.type_str} : {', '.join(schema.allowed_types(formal))}")
                values += advice
                context.findings.error("type-constraint", message, site.location(), values, rule)
                continue
            # Operands of one constraint have one type, save those of a heterogeneous variadic one.
            if formal.type_str in schema.type_constraints and formal.homogeneous:
                other_type, other = bound.setdefault(formal.type_str, (actual, values[0]))
                if other_type != actual:
                    message = f"{kind} {formal.name} is {actual}, and {formal.type_str} is {other_type} already"
                    context.findings.error("type-mismatch", message, site.location(), [other, *values, *advice], rule)
