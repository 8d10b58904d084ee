"""Which precision each primitive is computed in where f32 is lowered to a 16-bit float: the table, and what follows.

low     the operands are rounded to 16 bits; sums are accumulated in f32, as these primitives mean
wide    the operands are widened to f32, and the result is f32 until something asks for 16 bits
follow  16 bits where an operand that is no constant has them already, else f32
keep    as it was; what is not named, and what takes no f32
"""

from collections.abc import Mapping, Sequence, Set
from math import prod
from typing import Literal

from onnxc.compiler.ir.dtypes import BF16, F16, F32, DType
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.records import record

Precision = Literal["fp32", "tf32", "bf16", "fp16"]
"""What a caller may ask for. tf32 changes nothing in the IR: it is how a GPU multiplies f32."""

STORED: Mapping[Precision, DType] = {"bf16": BF16, "fp16": F16}
"""The element types of the precisions that change what is stored."""

Policy = Literal["low", "wide", "follow", "keep"]

POLICIES: Mapping[Policy, tuple[str, ...]] = {
    "low": ("dot", "convolution", "attention", "block_product"),
    "wide": (
        # An error of the operand becomes a factor of the result, or is divided by what is small.
        "exp", "log", "pow", "rem", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
        "atanh",
        # Statistics and sums of many: their kernels compute them in f32 in any case.
        "softmax", "masked_softmax", "log_softmax", "layer_norm", "rms_norm", "scan_axis",
    ),
    "follow": (
        "add", "sub", "mul", "div", "neg", "abs", "sign", "floor", "ceil", "round", "sqrt", "tanh", "erf", "gelu",
        "min", "max", "select", "equal", "less", "less_equal",
        "reshape", "transpose", "broadcast", "slice", "pad", "concatenate", "gather", "gather_along", "gather_nd",
        "arg_reduce", "arg_reduce_window", "sort", "top_k", "rotary",
    ),
}  # fmt: skip

ORDERED_KINDS = ("min", "max")
WINDOW_LIMIT = 64
"""Sums of windows of more elements than this are kept in f32: they could leave the range of f16 (64 * 1023).
An estimate of what activations reach; windows of usual networks have 49 elements at most."""

ANGLES = ("sin", "cos", "tan")
"""Functions whose operand counts whole turns: of a position beyond 256, bf16 would lose the fraction of a turn."""

_TABLE: Mapping[str, Policy] = {name: policy for policy, names in POLICIES.items() for name in names}


def policy_of(op: Op) -> Policy:
    """The row of the table for `op`, which for folds depends on the kind."""
    match op.name:
        case "reduce":
            return "follow" if op.text("kind") in ORDERED_KINDS else "wide"
        case "reduce_window":
            small = op.text("kind") in ORDERED_KINDS or prod(op.ints("window")) <= WINDOW_LIMIT
            return "follow" if small else "wide"
    return _TABLE.get(op.name, "keep")


def is_f32(value: Value) -> bool:
    """Whether `value` is a tensor of f32."""
    return isinstance(value.type, TensorType) and value.type.dtype == F32


@record
class Decisions:
    """What a block decides beyond the table.

    angles: ops that lead to nothing but angles, which stay f32, products included. inner: pointwise ops that lead to
    nothing but what is computed in f32, and those that follow a product. chained: products whose sums go on in f32
    through `inner` ops, all in registers. rounded: the last ops of such chains, and normalisations that products read,
    whose results are stored in 16 bits for all that read them.
    """

    angles: Set[Op]
    inner: Set[Op]
    chained: Set[Op]
    rounded: Set[Op]


def decide(block: Block) -> Decisions:
    """The decisions for the ops of `block`; nested blocks have their own."""
    users: dict[Value, list[Op]] = {}
    for op in block.ops:
        for operand in op.operands:
            users.setdefault(operand, []).append(op)
    results = set(block.results)
    angles, inner = _leading(block.ops, users, results)
    chained: set[Op] = set()
    rounded = {op for op in block.ops if _is_stored_once(op, users, results)}
    members: set[Op] = set()
    for op in block.ops:
        if op.name in ("dot", "convolution", "block_product") and op not in angles and is_f32(op.result):
            chain = _chain(op, users, results, members)
            members.update(chain)
            last = chain[-1] if chain else op
            # What only the caller reads is written as the caller wants it.
            to_caller = last.result in results and not users.get(last.result)
            if chain or to_caller:
                chained.add(op)
            if chain and not to_caller:
                rounded.add(last)
    return Decisions(angles, inner | members, chained, rounded)


def _is_stored_once(op: Op, users: Mapping[Value, Sequence[Op]], results: Set[Value]) -> bool:
    """Whether a fold or normalisation is read in 16 bits by one op, so that others need no copy of it in f32."""
    if policy_of(op) != "wide" or is_pointwise(op) or not is_f32(op.result) or op.result in results:
        return False
    return any(
        policy_of(user) == "low" or PRIMITIVES[user.name].kind == "movement" for user in users.get(op.result, ())
    )


def _leading(ops: Sequence[Op], users: Mapping[Value, Sequence[Op]], results: Set[Value]) -> tuple[set[Op], set[Op]]:
    """The ops that lead to angles only, and the pointwise ones that lead to wide ops only."""
    angles: set[Op] = set()
    inner: set[Op] = set()
    for op in reversed(ops):
        if len(op.results) != 1 or not is_f32(op.result) or op.result in results:
            continue
        using = users.get(op.result, ())
        if not using:
            continue
        if all(user.name in ANGLES or user in angles for user in using) and (
            op.name == "dot" or policy_of(op) == "follow"
        ):
            angles.add(op)
        if is_pointwise(op) and all(policy_of(user) == "wide" or user in inner for user in using):
            inner.add(op)
    return angles, inner


def _chain(op: Op, users: Mapping[Value, Sequence[Op]], results: Set[Value], members: Set[Op]) -> list[Op]:
    """The pointwise ops after `op` of which each alone uses the one before: planning puts them into its kernel."""
    chain: list[Op] = []
    value = op.result
    while value not in results and len(set(users.get(value, ()))) == 1:
        (user, *_) = users[value]
        if not is_pointwise(user) or user in members or not is_f32(user.result) or user.result.shape != value.shape:
            break
        chain.append(user)
        value = user.result
    return chain


def is_pointwise(op: Op) -> bool:
    """Whether the op is computed element by element on floats, and may be followed or widened."""
    return PRIMITIVES[op.name].elementwise and policy_of(op) in ("follow", "wide")
