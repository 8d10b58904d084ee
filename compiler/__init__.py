"""The compiler: from an ONNX model to an artifact.

| noun | verb to the next | where the verb lives |
|---|---|---|
| model file, bytes, or any object with `SerializeToString` | `read_model` | `compiler/frontend/read.py` |
| `LoadedModel` | `check_model` | `compiler/frontend/check.py` |
| `CheckedModel`: names resolved, versions chosen, functions inlined | `lower_model` | `compiler/frontend/lower/` |
| `Module`: typed SSA, symbolic sizes | `run_pipeline(OPTIMIZE)` | `compiler/passes/` |
| `Module`, optimised | `plan_kernels` | `compiler/planning/` |
| `KernelPlan`: kernels, launches, buffers | `emit` | `compiler/codegen_cpu/` |
| `Artifact`: code, program, weights | `load` | `runtime/load.py` |

`onnxc.compiler.driver` is this table as code. Importing this package loads none of it.
"""
