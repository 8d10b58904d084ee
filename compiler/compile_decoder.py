"""A model that generates, to a decoder: its program with caches that stay in place, and what picks the next token."""

from dataclasses import replace
from importlib.resources import files

from onnxc.compiler.back_ends import BackEnd, back_end
from onnxc.compiler.checked_model import checked_model
from onnxc.compiler.decoding.keep_caches import Cache, find_caches, keep_caches
from onnxc.compiler.decoding.last_rows import keep_last_rows
from onnxc.compiler.decoding.roles import find_roles
from onnxc.compiler.driver import compile_model, optimize, with_provenance
from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import LoadedModel, read_model
from onnxc.compiler.ir.dims import only_atom
from onnxc.compiler.ir.module import Function
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.limits import limited_to
from onnxc.compiler.model_symbols import expect_known_dims
from onnxc.compiler.model_texts import model_of_text
from onnxc.compiler.options import CompileOptions, ModelSource
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.runtime.artifact import Artifact
from onnxc.runtime.decoding.description import Description
from onnxc.runtime.decoding.load_decoder import with_decoder
from onnxc.runtime.errors import InputError, UnsupportedError

__all__ = ["decoder_artifact", "plan_decoder"]

SAMPLER = "sampler.onnxtxt"


def decoder_artifact(
    source: ModelSource | LoadedModel, options: CompileOptions, end: BackEnd | None = None
) -> Artifact:
    """The artifact of a decoder: its program, what its inputs are for, and the sampler.

    end: the back end to take, None for that of the options. Raises ModelError, UnsupportedError, InputError.
    """
    end, checked = end or _back_end(options), _checked(source, options)
    plan, description = _planned(checked, options, end)
    with limited_to(options.limits):
        artifact = with_provenance(end.emit(plan), checked, options, end)
    return with_decoder(artifact, description, _sampler(options, end))


def plan_decoder(source: ModelSource, options: CompileOptions) -> tuple[KernelPlan, Description]:
    """The plan of a decoder whose caches stay in place, and what its inputs are for."""
    return _planned(_checked(source, options), options, _back_end(options))


def _back_end(options: CompileOptions) -> BackEnd:
    if options.target.kind not in ("cpu", "cuda"):
        message = f"decoders are for a CPU or a GPU, the target is {options.target}"
        raise UnsupportedError(message, code="unsupported-decoder-target")
    return back_end(options)


def _checked(source: ModelSource | LoadedModel, options: CompileOptions) -> CheckedModel:
    loaded = read_model(source, opset=options.opset, allow_links=options.allow_links)
    loaded, checked = checked_model(loaded, options)
    expect_known_dims(checked, options.inputs)
    return checked


def _planned(checked: CheckedModel, options: CompileOptions, end: BackEnd) -> tuple[KernelPlan, Description]:
    with limited_to(options.limits):
        lowered = lower_model(checked, options.inputs)
    module = optimize(lowered, end.passes, options.limits)
    caches = _expected_caches(module.main)
    roles = find_roles(module.main, caches)
    kept = keep_caches(keep_last_rows(module.main, roles.logits), caches)
    plan = plan_kernels(replace(module, functions=(kept.function,)), end.plan_target, None, kept.in_place)
    growing = dict.fromkeys((*kept.lengths, *_mask_length(kept.function, roles.mask)), kept.capacity)
    return replace(plan, growing=growing), Description(
        tokens=roles.tokens,
        logits=roles.logits,
        mask=roles.mask,
        positions=roles.positions,
        row_positions=roles.row_positions,
        length=kept.length_name,
        lengths=len(kept.lengths),
        caches={cache.past.producer.name: cache.axis for cache in caches},
        others=roles.others,
        vocabulary=roles.vocabulary,
        longest=roles.longest,
    )


def _mask_length(function: Function, mask: str) -> tuple[str, ...]:
    """The symbol that counts the tokens which a mask is for, where it has one of its own."""
    types = (value.type for value in function.body.parameters if value.producer.name == mask)
    sizes = [type.known_shape[-1] for type in types if isinstance(type, TensorType)]
    return tuple(atom for atom in map(only_atom, sizes) if isinstance(atom, str))


def _expected_caches(function: Function) -> tuple[Cache, ...]:
    """The caches, of which there is one; inputs that look like one are all among them."""
    caches = find_caches(function)
    names = {cache.past.producer.name for cache in caches}
    missing = [
        f'"{name}"'
        for name in (value.producer.name for value in function.body.parameters)
        if name.startswith("past") and name not in names
    ]
    if caches and not missing:
        return caches
    what = f"of input {', '.join(missing)}" if missing else "of any input"
    message = f"no output is the concatenation {what} with new rows, so that there is no cache to keep"
    raise InputError(message, code="decoder-cache")


def _sampler(options: CompileOptions, end: BackEnd) -> Artifact:
    """What picks tokens, compiled for the processor that runs the decoder, or launches its kernels."""
    text = files("onnxc.compiler.decoding").joinpath(SAMPLER).read_text()
    own = CompileOptions(end.host, threads=options.threads, cache=options.cache)
    return compile_model(model_of_text(text, "onnxtxt"), own)
