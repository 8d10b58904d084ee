"""Names of ONNX Runtime that are not here, each with the reason: what a program that asks for one is told."""

__all__ = ["ABSENT"]

_ADAPTERS = (
    "LoRA adapters are files of ONNX Runtime's own; put the weights into the model, or swap them by with_weights"
)
_COMPILED = "onnxc.compile(...).save(path) writes compiled models"
_DEVICES = "there is one provider, the CPU; for GPUs use onnxc.compile(target='cuda')"
_PACKAGES = "packages of models are files of ONNX Runtime's own; onnxc serve has repositories of models"
_PROVIDERS = "kernels of other providers are for ONNX Runtime; bring operators by onnxc.register"
_STREAMS = "values are on the CPU, where there is nothing to copy or to wait for"
_INSIDE = "it is a part of ONNX Runtime's package that programs do not need"

ABSENT = {
    "AdapterFormat": _ADAPTERS,
    "LoraAdapter": _ADAPTERS,
    "ModelCompiler": _COMPILED,
    "ModelPackage": _PACKAGES,
    "ModelPackageComponentContext": _PACKAGES,
    "ModelPackageContext": _PACKAGES,
    "ModelPackageOptions": _PACKAGES,
    "ModelPackageWriteMode": _PACKAGES,
    "OrtCompileApiFlags": _COMPILED,
    "OrtDeviceMemoryType": _DEVICES,
    "OrtEpAssignedNode": _DEVICES,
    "OrtEpAssignedSubgraph": _DEVICES,
    "OrtEpContextData": _COMPILED,
    "OrtEpContextDataBuffer": _COMPILED,
    "OrtEpDevice": _DEVICES,
    "OrtExecutionProviderDevicePolicy": _DEVICES,
    "OrtExternalInitializerInfo": "SessionOptions.add_external_initializers takes the values",
    "OrtHardwareDevice": _DEVICES,
    "OrtHardwareDeviceType": _DEVICES,
    "OrtMemoryInfoDeviceType": _DEVICES,
    "OrtSyncStream": _STREAMS,
    "copy_tensors": _STREAMS,
    "cuda_version": _DEVICES,
    "import_capi_exception": _INSIDE,
    "package_name": _INSIDE,
    "register_execution_provider_library": _PROVIDERS,
    "unregister_execution_provider_library": _PROVIDERS,
    "version": "__version__ is that of onnxc",
}
"""Of version 1.32."""
