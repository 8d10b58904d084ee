"""Execution providers: the CPU is the one there is, others are warned of."""

import warnings
from collections.abc import Mapping, Sequence

__all__ = [
    "CPU", "check_and_normalize_provider_args", "chosen_providers", "expect_known", "get_all_providers",
    "get_available_providers",
]  # fmt: skip

CPU = "CPUExecutionProvider"

_OTHERS = (
    "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider", "CUDAExecutionProvider", "MIGraphXExecutionProvider",
    "ROCMExecutionProvider", "OpenVINOExecutionProvider", "DnnlExecutionProvider", "VitisAIExecutionProvider",
    "QNNExecutionProvider", "NnapiExecutionProvider", "CoreMLExecutionProvider", "XnnpackExecutionProvider",
    "CANNExecutionProvider", "DmlExecutionProvider", "WebGpuExecutionProvider", "AzureExecutionProvider",
    "ACLExecutionProvider", "ArmNNExecutionProvider", "JsExecutionProvider",
)  # fmt: skip
"""Names that ONNX Runtime knows."""

Provider = str | tuple[str, Mapping[object, object]]


def get_available_providers() -> list[str]:
    """What a session can use."""
    return [CPU]


def get_all_providers() -> list[str]:
    """What could be built in."""
    return [CPU]


def chosen_providers(providers: object, options: object, *, is_strict: bool) -> dict[str, dict[str, str]]:
    """The provider of a session, which is the CPU, with its options.

    Raises ValueError for what is no list of providers; strict, RuntimeError for a name that ONNX Runtime does not know.
    """
    names, given = check_and_normalize_provider_args(providers, options, get_available_providers())
    if is_strict:
        expect_known(*names)
    return {CPU: dict(zip(names, given, strict=True)).get(CPU, {})}


def expect_known(*names: str) -> None:
    """RuntimeError for a name that ONNX Runtime does not know."""
    unknown = [name for name in names if name not in (CPU, *_OTHERS)]
    if unknown:
        raise RuntimeError(f"Unknown Provider Type: {unknown[0]}")


def check_and_normalize_provider_args(
    providers: object, provider_options: object, available_provider_names: Sequence[str]
) -> tuple[list[str], list[dict[str, str]]]:
    """Names and options in two lists, for names alone, pairs of a name and options, or options in a list of their own.

    A name that comes again or is not available is a UserWarning. Raises ValueError for anything else.
    """
    if providers is None:
        return [], []
    listed = _sequence("providers", providers)
    given = None if provider_options is None else _sequence("provider_options", provider_options)
    if given is not None and len(given) != len(listed):
        raise ValueError(f"{len(given)} provider_options came for {len(listed)} providers")
    pairs = [_pair(each, None if given is None else given[ordinal]) for ordinal, each in enumerate(listed)]
    chosen: dict[str, dict[str, str]] = {}
    for name, options in pairs:
        if name not in available_provider_names:
            available = ", ".join(available_provider_names)
            message = (
                f"Specified provider '{name}' is not in available provider names. Available providers: {available}"
            )
            warnings.warn(message, UserWarning, stacklevel=5)
        if name in chosen:
            warnings.warn(f"provider '{name}' comes again, which is ignored", UserWarning, stacklevel=5)
        else:
            chosen[name] = options
    return [*chosen], [*chosen.values()]


def _sequence(what: str, value: object) -> Sequence[object]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError(f"{what} is {value!r}, expected a sequence")
    return value


def _pair(provider: object, options: object) -> tuple[str, dict[str, str]]:
    name, own = provider if isinstance(provider, tuple) and len(provider) == 2 else (provider, None)
    if own is not None and options is not None:
        raise ValueError(f"options of {name!r} came both beside it and in provider_options")
    chosen = own if own is not None else options if options is not None else {}
    if not isinstance(name, str) or not isinstance(chosen, Mapping):
        raise ValueError(f"{provider!r} with {options!r} is no provider: a name, or a pair of it and a mapping")
    return name, {str(key): str(value) for key, value in chosen.items()}
