"""Which products and lookups of a program are divided, by a cost of what devices hold and what they exchange.

Blocks of products are always divided, which is what tensor parallelism is: one all_reduce for each. What stands alone
is divided as costs least, whole among the candidates.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Literal

from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.sharding import is_divisible
from onnxc.compiler.sharding.choose.blocks import Program, is_constant
from onnxc.runtime.records import record

__all__ = ["Choice", "choose"]

Division = Literal["columns", "rows", "whole"]

EXCHANGE_COST = 7
"""How many bytes a device reads from its memory in the time in which it receives one from another device.

NVIDIA's H100 SXM data sheet: memory of 3.35 TB/s, NVLink of 900 GB/s, which is both ways together.
"""


@record
class Choice:
    """How the matrix of an op is divided, and why; a result that `is_gathered` is to be whole right behind the op."""

    op: Op
    division: Division
    why: str
    is_gathered: bool = False


def choose(program: Program) -> tuple[Choice, ...]:
    """For each product and lookup of the program how its matrix is divided."""
    chosen: dict[Op, Choice] = {}
    for block in program.blocks():
        chosen |= {op: Choice(op, "columns", _leads_to(block.rows)) for op in block.columns}
        chosen |= {op: Choice(op, "rows", _closes(block.columns)) for op in block.rows}
    for op in program.body.ops:
        if op not in chosen and (op in program.products or _is_lookup(op)):
            chosen[op] = _attention_output(op, program.shards) or _cheapest(op, program.shards)
    return tuple(chosen[op] for op in program.body.ops if op in chosen)


def _leads_to(rows: Sequence[Op]) -> str:
    return f"opens a block: what is made of its columns is contracted at {_listed(rows)} without an exchange before"


def _closes(columns: Sequence[Op]) -> str:
    return f"closes the block that {_listed(columns)} opened, with one all_reduce"


def _listed(ops: Sequence[Op]) -> str:
    return ", ".join(str(op.location) for op in ops)


def _attention_output(op: Op, shards: int) -> Choice | None:
    """Rows for the product behind attention, which so is divided by heads, its caches too."""
    made = op.operands[0].op
    while made is not None and made.name in ("reshape", "transpose"):
        made = made.operands[0].op
    if made is None or made.name != "attention":
        return None
    # q and k: heads that share keys come in groups.
    if not all(is_divisible(operand.shape[1], shards) for operand in made.operands[:2]):
        return None
    return Choice(op, "rows", f"attention at {made.location} is divided by heads, and their sum is one all_reduce")


def _cheapest(op: Op, shards: int) -> Choice:
    costs = _costs(op, shards)
    division = min(costs, key=lambda each: costs[each])
    listed = ", ".join(f"{name} {cost:,}" for name, cost in costs.items())
    return Choice(op, division, f"costs least of: {listed}", is_gathered=division == "columns")


def _costs(op: Op, shards: int) -> Mapping[Division, int]:
    """For each candidate the bytes of the matrix on a device, and those that it receives in a call, which count more.

    A size that only a call knows counts as 1. Columns of a [K, N] cost less than the whole up to K / 7 rows of a value.
    """
    matrix = op.operands[0] if _is_lookup(op) else op.operands[1]
    held = matrix.tensor.elements * matrix.dtype.bits // 8
    result = prod(size for size in op.result.shape if isinstance(size, int)) * op.result.dtype.bits // 8
    # In a ring each of n devices receives (n - 1) / n of a result that is gathered, and twice that of one summed.
    gathered = result * (shards - 1) // shards
    assert isinstance(held, int), op
    costs: dict[Division, int] = {"whole": held, "columns": -(-held // shards) + EXCHANGE_COST * gathered}
    if not _is_lookup(op):
        costs["rows"] = -(-held // shards) + EXCHANGE_COST * 2 * gathered
    return costs


def _is_lookup(op: Op) -> bool:
    """Whether the op takes rows of a matrix of the model, as embeddings do."""
    return (
        op.name == "gather" and is_constant(op.operands[0]) and op.operands[0].rank == 2 and op.attributes["axis"] == 0
    )
