"""The pipelines: which passes run, in which order."""

from typing import Literal

from onnxc.compiler.ir.dtypes import BF16, F16, F32
from onnxc.compiler.passes.cpu_traits import ANY_CPU, CpuTraits
from onnxc.compiler.passes.layout.choose_layout import choose_layout
from onnxc.compiler.passes.layout.choose_layout_through_norms import choose_layout_through_norms
from onnxc.compiler.passes.layout.compose_turns import compose_turns
from onnxc.compiler.passes.layout.fill_rows import fill_rows
from onnxc.compiler.passes.layout.interleave_parts import interleave_parts
from onnxc.compiler.passes.layout.pad_masks import pad_masks
from onnxc.compiler.passes.layout.rows_of_batches import rows_of_batches
from onnxc.compiler.passes.layout.turn_before_growing import turn_before_growing
from onnxc.compiler.passes.layout.turn_byte_filters import turn_byte_filters
from onnxc.compiler.passes.layout.turn_gathered_sums import turn_gathered_sums
from onnxc.compiler.passes.layout.turn_ordered_lines import turn_ordered_lines
from onnxc.compiler.passes.layout.wide_masks import wide_masks
from onnxc.compiler.passes.layout.window_products import window_products
from onnxc.compiler.passes.layout.windows_of_few_channels import windows_of_few_channels
from onnxc.compiler.passes.layout.write_planes import write_planes
from onnxc.compiler.passes.loops.fuse_recurrences import fuse_recurrences
from onnxc.compiler.passes.loops.stack_sequences import stack_sequences
from onnxc.compiler.passes.loops.take_bounds import take_bounds
from onnxc.compiler.passes.loops.unroll_loops import unroll_loops
from onnxc.compiler.passes.lower.add_before_moving import add_before_moving
from onnxc.compiler.passes.lower.chirp_transforms import chirp_transforms
from onnxc.compiler.passes.lower.collectives_in_front import collectives_in_front
from onnxc.compiler.passes.lower.compute_before_turning import compute_before_turning
from onnxc.compiler.passes.lower.count_non_zero import count_non_zero
from onnxc.compiler.passes.lower.decompose_attention import decompose_attention_but
from onnxc.compiler.passes.lower.decompose_byte_blocks import decompose_byte_blocks_but
from onnxc.compiler.passes.lower.decompose_rotary import decompose_rotary
from onnxc.compiler.passes.lower.decompose_without_kernels import decompose_without_kernels
from onnxc.compiler.passes.lower.depth_last import depth_last
from onnxc.compiler.passes.lower.fill_channels import fill_channels
from onnxc.compiler.passes.lower.hold_block_weights import hold_block_weights
from onnxc.compiler.passes.lower.hold_filters import hold_filters
from onnxc.compiler.passes.lower.host_native_calls import host_native_calls
from onnxc.compiler.passes.lower.host_triton_calls import host_triton_calls
from onnxc.compiler.passes.lower.join_products import join_products
from onnxc.compiler.passes.lower.known_indices import known_indices
from onnxc.compiler.passes.lower.lower_precision import lower_precision_to
from onnxc.compiler.passes.lower.merge_short_rows import merge_short_rows
from onnxc.compiler.passes.lower.pad_few_channels import pad_few_channels
from onnxc.compiler.passes.lower.patch_products import patch_products
from onnxc.compiler.passes.lower.phases_apart import phases_apart
from onnxc.compiler.passes.lower.phases_as_filters import phases_as_filters
from onnxc.compiler.passes.lower.pixel_products import pixel_products
from onnxc.compiler.passes.lower.precision_policy import STORED, Precision
from onnxc.compiler.passes.lower.sign_bytes import sign_bytes
from onnxc.compiler.passes.lower.split_slices import split_slices
from onnxc.compiler.passes.lower.turn_before_repeating import turn_before_repeating
from onnxc.compiler.passes.lower.widen_convolutions import widen_convolutions
from onnxc.compiler.passes.lower.widen_products import widen_products_but
from onnxc.compiler.passes.pipeline import Pass
from onnxc.compiler.passes.recognize.recognize_attention import recognize_attention
from onnxc.compiler.passes.recognize.recognize_block_products import recognize_block_products
from onnxc.compiler.passes.recognize.recognize_byte_functions import recognize_byte_functions
from onnxc.compiler.passes.recognize.recognize_gelu import recognize_gelu
from onnxc.compiler.passes.recognize.recognize_integer_products import (
    recognize_float8_products,
    recognize_integer_products_but,
    recognize_signed_products,
)
from onnxc.compiler.passes.recognize.recognize_layer_norm import recognize_layer_norm
from onnxc.compiler.passes.recognize.recognize_requantization import recognize_requantization
from onnxc.compiler.passes.recognize.recognize_rms_norm import recognize_rms_norm
from onnxc.compiler.passes.recognize.recognize_rotary import recognize_rotary
from onnxc.compiler.passes.recognize.recognize_softmax import recognize_softmax
from onnxc.compiler.passes.simplify.add_filters import add_filters
from onnxc.compiler.passes.simplify.canonicalize import canonicalize
from onnxc.compiler.passes.simplify.eliminate_common_subexpressions import eliminate_common_subexpressions
from onnxc.compiler.passes.simplify.eliminate_dead_code import eliminate_dead_code
from onnxc.compiler.passes.simplify.fold_batch_norm import fold_batch_norm
from onnxc.compiler.passes.simplify.fold_constants import fold_constants
from onnxc.compiler.passes.simplify.simplify_sizes import simplify_sizes

# Sizes first: what two sizes are known to be equal decides which shapes agree, and so most of the rest.
_SIZED: tuple[Pass, ...] = (simplify_sizes, canonicalize)

_FOLDED: tuple[Pass, ...] = (fold_constants, canonicalize, eliminate_common_subexpressions)

# The normalisations before what multiplies by constants per channel, which would take their scales for its own.
_RECOGNIZE: tuple[Pass, ...] = (
    recognize_softmax,
    recognize_layer_norm,
    recognize_rms_norm,
    recognize_gelu,
    recognize_rotary,
    recognize_attention,
)


def _optimize(*on_integers: Pass) -> tuple[Pass, ...]:
    """The pipeline, with passes that want constants as integers, before they are folded into floats.

    What exporters write again and again is one before anything looks at it: of 32,000 ops of an isolation forest by
    skl2onnx 10,000 are left, and all passes take 14 s of a busy core in place of 20.
    """
    return (
        *(eliminate_dead_code, eliminate_common_subexpressions, stack_sequences),
        *(*_SIZED, *on_integers, *_FOLDED),
        *(*_RECOGNIZE, fold_batch_norm, add_filters),
        *(*_SIZED, *_FOLDED),
    )


OPTIMIZE: tuple[Pass, ...] = _optimize()
"""The same for every target."""


def cpu_optimize(traits: CpuTraits = ANY_CPU) -> tuple[Pass, ...]:
    """For a CPU, which multiplies most integers of 8 bits faster than floats, and reads weights of few bits."""
    products = recognize_integer_products_but(traits.convolves_as_floats)
    return _optimize(recognize_requantization, recognize_byte_functions, products, recognize_block_products)


GPU_OPTIMIZE: tuple[Pass, ...] = _optimize(
    recognize_requantization, sign_bytes, recognize_signed_products, recognize_block_products
)
"""For the GPU, whose tensor cores multiply i8 by i8, and which unpacks weights of few bits in registers, too."""

GPU_FLOAT8_OPTIMIZE: tuple[Pass, ...] = _optimize(
    recognize_requantization,
    sign_bytes,
    recognize_signed_products,
    recognize_float8_products,
    recognize_block_products,
)
"""For those whose tensor cores multiply floats of 8 bits too."""

CPU_KERNELS: tuple[Pass, ...] = (
    host_triton_calls,
    decompose_attention_but(widest=512),
    decompose_rotary,
    count_non_zero,
    chirp_transforms,
    rows_of_batches,
)
"""For the CPU, which has no kernels of their own for these, or slow ones (codegen_cpu/schedules/attention.py)."""

GPU_KERNELS: tuple[Pass, ...] = (
    host_native_calls,
    take_bounds,
    decompose_attention_but(widest=256, computed=(F32, F16, BF16)),
    decompose_rotary,
    decompose_byte_blocks_but(lambda op: False),
    count_non_zero,
    decompose_without_kernels,
    rows_of_batches,
)
"""For the GPU, which keeps sums of heads in registers (codegen_gpu/schedules/attention.py)."""

GPU_LAUNCHES: tuple[Pass, ...] = (
    compose_turns,
    interleave_parts,
    join_products,
    split_slices,
    add_before_moving,
    compute_before_turning,
)
"""For the GPU, where what is small takes as long as its launches; behind all that gives equal things one form."""

CPU_LAYOUTS: tuple[Pass, ...] = (choose_layout,)
"""For convolutions, which read channels last."""

GPU_LAYOUTS: tuple[Pass, ...] = (choose_layout_through_norms,)
"""For the GPU, whose normalisations write in the order in which they read."""

GPU_OPERANDS: tuple[Pass, ...] = (patch_products, fill_channels, fill_rows)
"""For tensor cores, which multiply blocks of matrices."""

CPU_TYPES: tuple[Pass, ...] = (pixel_products, window_products, phases_as_filters, phases_apart)
"""For what a precision has stored in 16 bits, too, and what was widened."""

CPU_OPERANDS: tuple[Pass, ...] = (
    merge_short_rows,
    windows_of_few_channels,
    hold_filters,
    turn_byte_filters,
    turn_before_growing,
    write_planes,
    pad_few_channels,
    hold_block_weights,
    turn_gathered_sums,
    turn_ordered_lines,
    known_indices,
    turn_before_repeating,
)
"""Behind all that would put padding back into convolutions, or constants back into their smallest form."""

_FINISH: tuple[Pass, ...] = (canonicalize, eliminate_common_subexpressions, eliminate_dead_code)


DEVICES: tuple[Pass, ...] = (*_SIZED, *_FOLDED)
"""For the program of each of several devices, whose sizes are those of blocks."""

GPU_DEVICES: tuple[Pass, ...] = (*DEVICES, collectives_in_front)
"""The same where the devices are GPUs, which exchange pieces of memory."""


def precision_passes(precision: Precision) -> tuple[Pass, ...]:
    """What a precision changes in the IR."""
    dtype = STORED.get(precision)
    return () if dtype is None else (lower_precision_to(dtype),)


def target_pipeline(
    kind: Literal["cpu", "cuda"], precision: Precision = "fp32", traits: CpuTraits = ANY_CPU
) -> tuple[Pass, ...]:
    """What a kind of target needs after OPTIMIZE; traits: of a CPU.

    What is taken apart is lowered in its parts; layouts come last, as casts move with what they cast.
    """
    if kind == "cpu":
        types = (widen_convolutions, widen_products_but(traits.multiplied), *CPU_TYPES)
        kernels = (*CPU_KERNELS, decompose_byte_blocks_but(traits.multiplies_byte_blocks))
        return (*kernels, *precision_passes(precision), *types, *CPU_LAYOUTS, *_FINISH, *CPU_OPERANDS)
    finish = (*_FINISH, *GPU_LAUNCHES, depth_last, hold_block_weights, fuse_recurrences, wide_masks, pad_masks)
    return (*GPU_KERNELS, *precision_passes(precision), *GPU_LAYOUTS, *GPU_OPERANDS, unroll_loops, *finish)
