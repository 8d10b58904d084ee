"""Whether a node means the same in a newer version of its operator.

It does where that takes more and nothing else is new: wider types, further optional inputs and outputs, further
attributes whose defaults mean what was before. Where the signature tells it otherwise than the text, the text decides.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from onnxc.compiler.frontend.schemas import Formal, Schema, schema, versions

__all__ = ["keeps_meaning"]

# Operators whose signature only grew, and which compute something else from that version on.
_CHANGES: Mapping[tuple[str, str], tuple[int, ...]] = {
    ("", "Attention"): (24,),  # which keys a causal mask leaves out
    ("", "AveragePool"): (19,),  # windows that begin in the padding
    ("", "GroupNormalization"): (21,),  # a scale for each channel, no longer for each group
    ("", "LpPool"): (18,),
    ("", "OneHot"): (11,),  # negative indices
    ("", "PRelu"): (7,),  # a slope of one axis goes with the channels, later with the last axis
    ("", "QuantizeLinear"): (23,),  # the precision of the division
    ("", "Range"): (27,),  # the precision of the sums
    ("", "Resize"): (11, 13, 18, 19),  # modes that went, sizes that are rounded
    ("", "RoiAlign"): (16,),  # the default is half a pixel aside
    ("", "Split"): (18,),  # equal parts want num_outputs
}


def keeps_meaning(before: Schema, after: Schema) -> bool:
    """Whether every legal node of the version `before` of an operator means the same in the version `after`."""
    if before is after:
        return True
    crossed = range(before.since_version + 1, after.since_version + 1)
    if (
        not crossed
        or after.deprecated
        or any(version in crossed for version in _CHANGES.get((before.domain, before.name), ()))
    ):
        return False
    known = [version for version in versions(before.domain, before.name) if version in crossed]
    steps = [before, *(definition for version in known if (definition := schema(before.domain, before.name, version)))]
    return all(_only_grew(older, newer) for older, newer in pairwise(steps))


def _only_grew(older: Schema, newer: Schema) -> bool:
    attributes = [newer.attributes.get(attribute.name) == attribute for attribute in older.attributes.values()]
    added = [newer.attributes[name] for name in newer.attributes.keys() - older.attributes.keys()]
    return (
        all(attributes)
        and not any(attribute.required for attribute in added)
        and _formals_grew(older, newer, older.inputs, newer.inputs)
        and _formals_grew(older, newer, older.outputs, newer.outputs)
    )


def _formals_grew(older: Schema, newer: Schema, before: Sequence[Formal], after: Sequence[Formal]) -> bool:
    """Whether what was there is there still and takes the types that it took, and the rest may be left out."""
    if len(after) < len(before) or any(formal.option != "optional" for formal in after[len(before) :]):
        return False
    return all(
        right.option in (left.option, "optional" if left.option == "single" else left.option)
        and _types(older, left) <= _types(newer, right)
        for left, right in zip(before, after, strict=False)
    )


def _types(holder: Schema, formal: Formal) -> frozenset[str]:
    return frozenset(holder.allowed_types(formal))
