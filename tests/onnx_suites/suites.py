"""The suites: which files of onnx's tests, and which functions of the onnx package are ours while they run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.onnx_suites import checking, inference, parts, texts

__all__ = ["SUITES", "Suite"]

Counterpart = Callable[..., object]

INFERENCE: Mapping[str, Counterpart] = {
    "onnx.shape_inference.infer_shapes": inference.infer_shapes,
    "onnx.shape_inference.infer_node_outputs": inference.infer_node_outputs,
    "onnx.shape_inference.infer_function_output_types": inference.infer_function_output_types,
}


@dataclass(frozen=True)
class Suite:
    """Files beside one another in a folder of onnx's tests, and functions by the names that they are called by."""

    files: tuple[str, ...]
    counterparts: Mapping[str, Counterpart]


SUITES: Mapping[str, Suite] = {
    "shape inference": Suite(
        (
            "shape_inference_test.py",
            "symbolic_shape_test.py",
            "model_inference_test.py",
            "function_inference_test.py",
            "inference_function_test.py",
            "node_shape_inference_test.py",
        ),
        INFERENCE,
    ),
    "data propagation": Suite(("data_propagation_test.py",), INFERENCE),
    "checker": Suite(
        ("checker_test.py",),
        {
            "onnx.checker.check_model": checking.check_model,
            "onnx.checker.check_graph": checking.check_graph,
            "onnx.checker.check_node": checking.check_node,
            "onnx.checker.check_function": checking.check_function,
            "onnx.checker.check_tensor": checking.check_tensor,
            "onnx.checker.check_sparse_tensor": checking.check_sparse_tensor,
        },
    ),
    "parser": Suite(
        ("parser_test.py",),
        {
            "onnx.parser.parse_model": texts.parse_model,
            "onnx.parser.parse_graph": texts.parse_graph,
            "onnx.parser.parse_function": texts.parse_function,
            "onnx.parser.parse_node": texts.parse_node,
        },
    ),
    "printer": Suite(("printer_test.py",), {"onnx.printer.to_text": texts.to_text}),
    "version converter": Suite(
        (
            "version_converter_test.py",
            "version_converter/automatic_upgrade_test.py",
            "version_converter/automatic_downgrade_test.py",
        ),
        {"onnx.version_converter.convert_version": parts.convert_version},
    ),
    "compose": Suite(
        ("compose_test.py",),
        {
            "onnx.compose.merge_models": parts.merge_models,
            "onnx.compose.merge_graphs": parts.merge_graphs,
            "onnx.compose.add_prefix": parts.add_prefix,
            "onnx.compose.add_prefix_graph": parts.add_prefix_graph,
        },
    ),
    "inliner": Suite(
        ("inliner_test.py",),
        {
            "onnx.inliner.inline_local_functions": parts.inline_local_functions,
            "onnx.inliner.inline_selected_functions": parts.inline_selected_functions,
        },
    ),
    "utils": Suite(
        ("utils_test.py", "function_test.py"),
        {"onnx.utils.extract_model": parts.extract_model, "onnx.utils.Extractor": parts.Extractor},
    ),
}
