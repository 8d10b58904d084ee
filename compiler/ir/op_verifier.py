"""What is wrong with one op by itself: its name, its attributes, and its types by the type rule of its primitive."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Attribute, Op
from onnxc.compiler.ir.primitive import PRIMITIVES, TypeRuleError

Check = Callable[[Attribute], bool]


def _is_int(value: Attribute) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_dim(value: Attribute) -> bool:
    return _is_int(value) or isinstance(value, Size)


def _is_pair(value: Attribute) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(map(_is_int, value))


def _tuple_of(check: Check) -> Check:
    return lambda value: isinstance(value, tuple) and all(map(check, value))


_KINDS: Mapping[str, Check] = {
    "int": _is_int,
    "float": lambda value: isinstance(value, float) or _is_int(value),
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
    "dtype": lambda value: isinstance(value, DType),
    "dim": _is_dim,
    "array": lambda value: isinstance(value, np.ndarray),
    "ints": _tuple_of(_is_int),
    "dims": _tuple_of(_is_dim),
    "strs": _tuple_of(lambda value: isinstance(value, str)),
    "pairs": _tuple_of(_is_pair),
    "groups": _tuple_of(_tuple_of(_is_int)),
}

_WINDOW = "kind: str, window: ints, strides: ints, low: dims, high: dims, dilations: ints"

ATTRIBUTES: Mapping[str, str] = {
    "cast": "dtype: dtype, saturate: bool, round_mode: str",
    "bitcast": "dtype: dtype",
    "reshape": "shape: dims",
    "transpose": "permutation: ints",
    "broadcast": "axes: ints, shape: dims",
    "slice": "starts: dims, shape: dims, steps: ints",
    "pad": "low: dims, high: dims",
    "concatenate": "axis: int",
    "constant": "value: array",
    "iota": "shape: dims, axis: int, dtype: dtype",
    "sizes": "values: dims, dtype: dtype, scalar: bool",
    "bind_sizes": "symbols: strs, ...",
    "guard": "left: dim, right: dim, relation: str, message: str",
    "reduce": "kind: str, axes: ints",
    "scan_axis": "kind: str, axis: int, exclusive: bool, reverse: bool",
    "arg_reduce": "kind: str, axis: int, last: bool",
    "dot": "equation: str, dtype: dtype",
    "convolution": (
        "strides: ints, low: dims, high: dims, dilations: ints, input_dilations: ints, groups: int, dtype: dtype, "
        "dimensions: str"
    ),
    "reduce_window": _WINDOW,
    "arg_reduce_window": f"{_WINDOW}, dimensions: str",
    "gather": "axis: int",
    "gather_along": "axis: int",
    "gather_nd": "batch_dims: int",
    "scatter_along": "axis: int, kind: str",
    "scatter_nd": "kind: str",
    "sort": "axis: int, descending: bool",
    "top_k": "k: dim, axis: int, largest: bool",
    "non_zero": "symbol: str",
    "random_bits": "shape: dims, seed: int",
    "while": "carried: int, scans: int, symbol: str",
    "recurrence": "trips: dim, carried: int, scans: int",
    "call": "function: str",
    "reshard": "mesh: str, sharding: str",
    "enter_stage": "stage: int",
    "all_reduce": "kind: str, groups: groups",
    "all_gather": "axis: int, groups: groups",
    "reduce_scatter": "kind: str, axis: int, groups: groups",
    "all_to_all": "split_axis: int, concat_axis: int, groups: groups",
    "permute": "pairs: pairs",
    "softmax": "axis: int",
    "masked_softmax": "axis: int",
    "log_softmax": "axis: int",
    "layer_norm": "axis: int, epsilon: float",
    "rms_norm": "axis: int, epsilon: float",
    "gelu": "approximate: str",
    "attention": "scale: float, causal: bool, softcap: float",
    "rotary": "interleaved: bool",
    "block_product": "bits: int, block: int",
    "byte_block_product": "bits: int, block: int",
    "suppress_boxes": "count: dim",
    "true_positions": "count: dim",
    "fourier": "inverse: bool, onesided: bool",
    "tree_ensemble": "kind: str, trees: int, targets: int, depth: int, outcomes: ints",
    "native_call": "operator: str, llvm: str, triton: str, access: str, path: str, scalars: strs, ...",
    "host": "function: str, ...",
}
"""The attributes of each primitive and their kinds; one that is not listed has none. After `...` any others may be."""


def attribute_findings(op: Op) -> list[str]:
    """What is wrong with the attributes of `op`: missing, unknown, or not of their kind."""
    entries = [entry for entry in ATTRIBUTES.get(op.name, "").split(", ") if entry]
    kinds = dict(entry.split(": ") for entry in entries if entry != "...")
    findings = [f"attribute {name} is missing" for name in kinds if name not in op.attributes]
    if "..." not in entries:
        findings += [f"there is no attribute {name}" for name in op.attributes if name not in kinds]
    return findings + [
        f"attribute {name} is {op.attributes[name]!r}, not of kind {kind}"
        for name, kind in kinds.items()
        if name in op.attributes and not _KINDS[kind](op.attributes[name])
    ]


def op_findings(op: Op) -> list[str]:
    """What is wrong with `op` by itself: its name, its attributes, and the types by its type rule."""
    if op.name not in PRIMITIVES:
        return [f"there is no primitive {op.name}"]
    findings = attribute_findings(op)
    rule = PRIMITIVES[op.name].type_rule
    if findings or rule is None:
        return findings
    try:
        types = rule([operand.type for operand in op.operands], op.attributes, op.blocks)
    except TypeRuleError as reason:
        return [f"type rule: {reason}"]
    if types != op.result_types:
        findings.append(f"the type rule gives {listed(types)}, declared is {listed(op.result_types)}")
    if op.blocks:
        findings.append(f"has {len(op.blocks)} blocks and takes none")
    return findings


def listed(items: Iterable[object]) -> str:
    """`items` as a finding names them."""
    return ", ".join(map(str, items)) or "nothing"
