"""Compile options: what a caller may ask for, checked before any work is done."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from math import prod
from pathlib import Path
from typing import BinaryIO, Literal, get_args

import numpy as np
import numpy.typing as npt

from onnxc.compiler.frontend.custom.operators import NO_OPERATORS, CustomOperator, CustomOperators
from onnxc.compiler.frontend.custom.registered import operators_with
from onnxc.compiler.frontend.input_options import InputOptions
from onnxc.compiler.frontend.read import SupportsSerialize
from onnxc.compiler.ir.dtypes import BF16, DTYPES, F16, F32, F64, DType, dtype_of
from onnxc.compiler.limits import DEFAULT_LIMITS, Limits, make_limits
from onnxc.compiler.option_types import expect_integer, expect_mapping, expect_shape, expect_text
from onnxc.compiler.passes.lower.precision_policy import Precision
from onnxc.compiler.target import Target, parse_target
from onnxc.runtime.devices.device_choice import expect_kind, parse_devices
from onnxc.runtime.errors import InputError, UnsupportedError
from onnxc.runtime.files.cache_folder import default_cache_folder
from onnxc.runtime.records import record

__all__ = ["CacheOption", "CompileOptions", "DTypesOption", "DimRange", "ModelSource", "make_options"]

PRECISIONS: Mapping[str, Precision] = {precision: precision for precision in get_args(Precision)}

OUTPUTS: Mapping[str, bool] = {"whole": False, "local": True}
"""Whether outputs stay divided over devices, by the names of the choices."""

MOST_COMBINATIONS = 16
"""How many combinations of sizes may have kernels of their own: each is one more kernel wherever all of them occur."""

BEYOND_SIZES = 1 << 63
"""Sizes are int64 in native code: a guard could not tell this one from another."""

ModelSource = str | os.PathLike[str] | os.PathLike[bytes] | bytes | BinaryIO | SupportsSerialize
DimRange = int | tuple[int, int | None]
DTypesOption = Mapping[str, npt.DTypeLike] | npt.DTypeLike | None
CacheOption = str | os.PathLike[str] | Literal[False] | None


@record
class CompileOptions:
    """Checked options of one compilation.

    threads: for the calls, None for as many as the process may use. cache: the folder of artifacts and machine code,
    None for none. limits: how far the model may go. precision: what f32 is stored and multiplied in. specialize: for
    symbols the sizes that get kernels of their own. operators: those that the caller brings or has registered.
    allow_links: whether external data may be linked. config: the device configuration whose shardings are executed;
    devices: how many there must be in it, None for any number. microbatches: into how many parts calls of its pipeline
    stages go, None for as many as there are stages where that can be. opset: of the standard's
    operators, for a model that imports none. local_outputs: whether outputs stay divided over the devices.
    """

    target: Target
    inputs: InputOptions = field(default_factory=InputOptions)
    threads: int | None = None
    cache: Path | None = None
    limits: Limits = DEFAULT_LIMITS
    precision: Precision = "fp32"
    specialize: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    operators: CustomOperators = NO_OPERATORS
    allow_links: bool = False
    config: str | None = None
    devices: int | None = None
    opset: int | None = None
    microbatches: int | None = None
    local_outputs: bool = False


def make_options(
    target: str = "cpu",
    dims: Mapping[str, DimRange] | None = None,
    shapes: Mapping[str, Sequence[int | str | None]] | None = None,
    dtypes: DTypesOption = None,
    precision: str = "fp32",
    specialize: Mapping[str, Sequence[int]] | None = None,
    freeze_params: bool = True,
    config: str | None = None,
    devices: str | None = None,
    threads: int | None = None,
    cache: CacheOption = None,
    limits: Limits | Mapping[str, int] | None = None,
    strict: bool = False,
    operators: Sequence[CustomOperator] = (),
    allow_links: bool = False,
    opset: int | None = None,
    microbatches: int | None = None,
    outputs: str = "whole",
) -> CompileOptions:
    """The options, checked.

    Raises InputError for what cannot be, UnsupportedError for what cannot be yet.
    """
    parsed = parse_target(expect_text("target", target))
    chosen, count = _device_options(config, devices, parsed)
    each = dtypes if isinstance(dtypes, Mapping) else {}
    inputs = InputOptions(
        {str(name): _range(name, value) for name, value in expect_mapping("dims", dims).items()},
        {
            str(name): expect_shape(f"shapes[{name!r}]", value)
            for name, value in expect_mapping("shapes", shapes).items()
        },
        {str(name): _dtype(f"dtypes[{name!r}]", value) for name, value in each.items()},
        _flag("freeze_params", freeze_params),
        _flag("strict", strict),
        None if dtypes is None or isinstance(dtypes, Mapping) else _float_type(dtypes),
    )
    return CompileOptions(
        parsed,
        inputs,
        _threads(threads),
        _cache_folder(cache),
        make_limits(limits),
        _precision(precision, parsed),
        _specializations(specialize, inputs.dims),
        custom_operators(operators),
        _flag("allow_links", allow_links),
        chosen,
        count,
        _opset(opset),
        _microbatches(microbatches, chosen),
        _local_outputs(outputs, chosen),
    )


def custom_operators(operators: Sequence[CustomOperator]) -> CustomOperators:
    """The operators given, and those that are registered. Raises InputError."""
    if not isinstance(operators, Sequence):
        raise InputError(f"operators is {operators!r}, expected a sequence of operators", code="option-type")
    return operators_with(operators)


def _flag(option: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{option} is {value!r}, expected True or False", code="option-type")
    return value


def _precision(precision: str, target: Target) -> Precision:
    if precision not in PRECISIONS:
        raise InputError(f"precision is {precision!r}, known are {', '.join(PRECISIONS)}", code="unknown-precision")
    if precision == "tf32" and target.kind != "cuda":
        raise UnsupportedError(f"precision='tf32' is for GPUs, the target is {target}", code="unsupported-precision")
    return PRECISIONS[precision]


def _threads(threads: object) -> int | None:
    count = None if threads is None else expect_integer("threads", threads)
    if count is not None and count < 1:
        raise InputError(f"threads is {threads}, and at least 1 is needed", code="thread-count")
    return count


def _opset(opset: object) -> int | None:
    version = None if opset is None else expect_integer("opset", opset)
    if version is not None and not 1 <= version < 1 << 31:
        raise InputError(f"opset is {version}, expected a positive number of 31 bits", code="opset-range")
    return version


def _cache_folder(cache: object) -> Path | None:
    """The folder of machine code: None asks for the usual one, False for none."""
    if cache is None:
        return default_cache_folder()
    if cache is False:
        return None
    if not isinstance(cache, str | os.PathLike) or not os.fspath(cache):
        raise InputError(f"cache is {cache!r}, expected a folder, None or False", code="option-type")
    return Path(os.fsdecode(cache))


def _device_options(config: object, devices: object, target: Target) -> tuple[str | None, int | None]:
    """The device configuration, and how many devices it must have."""
    count = None if devices is None else _device_count(devices)
    if config is None:
        if devices is not None:
            message = f"devices is {devices!r}; config says which configuration of the model they execute"
            raise InputError(message, code="devices-without-config")
        return None, None
    if target.kind not in ("cpu", "cuda"):
        message = f"config={config!r} is for devices of a CPU or GPUs, the target is {target}"
        raise UnsupportedError(message, code="unsupported-devices")
    expect_kind(None if devices is None else str(devices), target.kind)
    return expect_text("config", config), count


def _device_count(devices: object) -> int:
    count = parse_devices(devices)
    if count is None:
        message = (
            f"devices={devices!r} is for onnxc.load, in each process; compile once, for cpu:N or cuda:N, and save that"
        )
        raise UnsupportedError(message, code="unsupported-devices")
    return count


def _microbatches(value: object, config: str | None) -> int | None:
    """Into how many parts a call goes. Raises InputError."""
    if value is None:
        return None
    count = expect_integer("microbatches", value)
    if count < 1:
        raise InputError(f"microbatches is {count}, and at least 1 is needed", code="microbatch-count")
    if config is None and count > 1:
        message = f"microbatches is {count}; config says which configuration of the model they go through"
        raise InputError(message, code="microbatches-without-stages")
    return count


def _local_outputs(value: object, config: str | None) -> bool:
    """Whether outputs stay as devices hold them. Raises InputError."""
    kind = expect_text("outputs", value)
    if kind not in OUTPUTS:
        raise InputError(f"outputs is {value!r}, known are {', '.join(OUTPUTS)}", code="unknown-outputs")
    if config is None and OUTPUTS[kind]:
        message = f"outputs is {value!r}; config says over which configuration of the model they are divided"
        raise InputError(message, code="outputs-without-config")
    return OUTPUTS[kind]


def _range(name: str, value: object) -> DimRange:
    """A size, or a range of sizes whose upper end may be None."""
    what = f"dims[{name!r}]"
    if not isinstance(value, tuple | list):
        size = expect_integer(what, value)
        if size < 0:
            raise InputError(f"{what} is {size}, and a size is at least 0", code="dims-range")
        return size
    if len(value) != 2:
        raise InputError(f"{what} is {value!r}, expected a size or a pair (least, greatest)", code="dims-range")
    low, high = expect_integer(what, value[0]), None if value[1] is None else expect_integer(what, value[1])
    if low < 0 or (high is not None and high < low):
        raise InputError(f"{what} is {value!r}: no size is in that range", code="dims-range")
    return low, high


def _specializations(
    given: Mapping[str, Sequence[int]] | None, dims: Mapping[str, DimRange]
) -> dict[str, tuple[int, ...]]:
    """For each symbol its sizes in the order given."""
    chosen = {
        str(name): _choices(str(name), sizes, dims) for name, sizes in expect_mapping("specialize", given).items()
    }
    combinations = prod(map(len, chosen.values()))
    if combinations > MOST_COMBINATIONS:
        message = f"specialize asks for {combinations} combinations of sizes, the most are {MOST_COMBINATIONS}"
        raise InputError(message, code="too-many-specializations")
    return chosen


def _choices(name: str, value: object, dims: Mapping[str, DimRange]) -> tuple[int, ...]:
    """Sizes of a symbol that differ and are in its range."""
    what, span = f"specialize[{name!r}]", dims.get(name, (0, None))
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
        raise InputError(f"{what} is {value!r}, expected a sequence of sizes", code="option-type")
    if not isinstance(span, tuple):
        raise InputError(f"specialize names {name!r}, which dims fixes at {span}", code="specialize-fixed")
    sizes, (low, high) = tuple(expect_integer(what, size) for size in value), span
    if not sizes or len(set(sizes)) < len(sizes):
        raise InputError(f"{what} is {value!r}, expected sizes that differ, at least one", code="specialize-range")
    most = BEYOND_SIZES - 1 if high is None else min(high, BEYOND_SIZES - 1)
    if min(sizes) < low or max(sizes) > most:
        raise InputError(f"{what} is {value!r}, expected sizes from {low} to {most}", code="specialize-range")
    return sizes


def _float_type(value: object) -> DType:
    """An element type that all floats may have."""
    dtype = _dtype("dtypes", value)
    if dtype not in (BF16, F16, F32, F64):
        message = f"dtypes is {dtype}, and all floats may be bf16, f16, f32 or f64; for one input give a mapping"
        raise InputError(message, code="unknown-dtype")
    return dtype


def _dtype(what: str, value: object) -> DType:
    """An element type by its name in the IR, else as anything that NumPy takes for one: "i4" has four bits."""
    if isinstance(value, str) and value in DTYPES:
        return DTYPES[value]
    try:
        return dtype_of(np.dtype(value))  # type: ignore[call-overload]
    except (TypeError, KeyError) as problem:
        message = f"{what} is {value!r}, expected one of {', '.join(DTYPES)}"
        raise InputError(message, code="unknown-dtype") from problem
