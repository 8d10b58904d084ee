"""Names of ONNX Runtime that are not here, each with the reason: what a program that asks for one is told."""

from collections.abc import Mapping

__all__ = ["ABSENT", "ABSENT_ATTRIBUTES", "absent_attribute", "absent_name"]

_COMPILED = "onnxc.compile(...).save(path) writes compiled models"
_DEVICES = "there is one provider, the CPU; for GPUs use onnxc.compile(target='cuda')"
_PACKAGES = "packages of models are files of ONNX Runtime's own; onnxc serve has repositories of models"
_PROVIDERS = "kernels of other providers are for ONNX Runtime; bring operators by onnxc.register"
_STREAMS = "values are on the CPU, where there is nothing to copy or to wait for"
_SCHEMAS = "onnxc.schemas has what the standard says of operators"
_QUANTIZE = "weights in blocks of few bits are written by the tools of ONNX Runtime; onnxc reads what they write"
_INSIDE = "it is a part of ONNX Runtime's package that programs do not need"

ABSENT = {
    "copy_tensors": _STREAMS,
    "cuda_version": _DEVICES,
    "DeviceReset": _INSIDE,
    "get_all_operator_schema": _SCHEMAS,
    "get_all_opkernel_def": _INSIDE,
    "get_compatibility_info_from_model": _COMPILED,
    "get_compatibility_info_from_model_bytes": _COMPILED,
    "get_hardware_device_ep_incompatibility_details": _DEVICES,
    "get_hardware_devices": _DEVICES,
    "get_model_compatibility_for_ep_devices": _COMPILED,
    "get_registered_ep_kernel_defs": _INSIDE,
    "get_session_initializer": _INSIDE,
    "import_capi_exception": _INSIDE,
    "ModelCompiler": _COMPILED,
    "ModelPackage": _PACKAGES,
    "ModelPackageComponentContext": _PACKAGES,
    "ModelPackageContext": _PACKAGES,
    "ModelPackageOptions": _PACKAGES,
    "ModelPackageWriteMode": _PACKAGES,
    "opkernel": _INSIDE,
    "OrtCompileApiFlags": _COMPILED,
    "OrtCompiledModelCompatibility": _COMPILED,
    "OrtDeviceEpIncompatibilityReason": _DEVICES,
    "OrtEpContextData": _COMPILED,
    "OrtEpContextDataBuffer": _COMPILED,
    "OrtEpDevice": _DEVICES,
    "OrtExecutionProviderDevicePolicy": _DEVICES,
    "OrtExternalInitializerInfo": "SessionOptions.add_external_initializers takes the values",
    "OrtHardwareDevice": _DEVICES,
    "OrtHardwareDeviceType": _DEVICES,
    "OrtSyncStream": _STREAMS,
    "pack_fp4_weights_for_cuda_moe_gemm": _QUANTIZE,
    "package_name": _INSIDE,
    "quantize_matmul_2bits": _QUANTIZE,
    "quantize_matmul_4bits": _QUANTIZE,
    "quantize_matmul_8bits": _QUANTIZE,
    "quantize_matmul_bnb4": _QUANTIZE,
    "quantize_qdq_matmul_2bits": _QUANTIZE,
    "quantize_qdq_matmul_4bits": _QUANTIZE,
    "register_execution_provider_library": _PROVIDERS,
    "schemadef": _SCHEMAS,
    "SessionObjectInitializer": _INSIDE,
    "unregister_execution_provider_library": _PROVIDERS,
    "version": "__version__ is that of onnxc",
}
"""Names of the package and of its extension module, of version 1.32."""

ABSENT_ATTRIBUTES = {
    "add_provider_for_devices": _DEVICES,
    "clear_ep_context_data_read_func": _COMPILED,
    "set_ep_context_data_read_func": _COMPILED,
}
"""Methods of sessions and of their options."""


def absent_name(module: str, name: str) -> AttributeError:
    """The error of a module that has not the name."""
    return AttributeError(f"module {module!r} has no attribute {name!r}{_because(ABSENT, name)}")


def absent_attribute(owner: object, name: str) -> AttributeError:
    """The error of a value that has not the attribute."""
    return AttributeError(f"{type(owner).__name__!r} has no attribute {name!r}{_because(ABSENT_ATTRIBUTES, name)}")


def _because(reasons: Mapping[str, str], name: str) -> str:
    return f": {reasons[name]}" if name in reasons else ""
