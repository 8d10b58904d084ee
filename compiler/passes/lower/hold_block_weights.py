"""Scales and zero points of weights of few bits as constants, which kernels pack, where all of them are one number."""

import numpy as np

from onnxc.compiler.ir.makers import constant_of, made_by, unbroadcast
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule


def hold_block_weights(module: Module) -> Module:
    """Makes constants of the broadcasts that canonicalisation makes of uniform scales and zero points."""
    return rewrite(module, [hold, hold_beside_bytes])


@rule("block_product")
def hold(op: Op, build: Rewriter) -> Outcome:
    """block_product(x, codes, broadcast(constant)) = block_product(x, codes, constant)"""
    return _hold_from(2, op, build)


@rule("byte_block_product")
def hold_beside_bytes(op: Op, build: Rewriter) -> Outcome:
    """byte_block_product(x, steps, codes, broadcast(constant)) = byte_block_product(x, steps, codes, constant)"""
    return _hold_from(3, op, build)


def _hold_from(first: int, op: Op, build: Rewriter) -> Outcome:
    """The product with its operands from the `first` on as constants."""
    kept, spreads = op.operands[:first], op.operands[first:]
    if not any(made_by(each, "broadcast") for each in spreads):
        return None
    return build.op(op.name, [*kept, *(held(each, build) for each in spreads)], op.attributes)


def held(value: Value, build: Rewriter) -> Value:
    """`value` as a constant; as it is where it is no broadcast of one number."""
    uniform = constant_of(unbroadcast(value)[0])
    shape = [size for size in value.shape if isinstance(size, int)]
    if uniform is None or uniform.ndim or len(shape) < value.rank:
        return value
    return build.constant(np.full(shape, uniform))
