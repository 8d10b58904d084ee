"""Why ours differs from onnx's, test by test: a suite, a pattern of the name and the failure, and the reason."""

__all__ = ["REASONS"]

STRICT = "the model breaks a rule of the standard that onnx does not check here, and ours refuses it"
CONVERTER, CHECKER, INFERENCE = "version converter", "checker", "shape inference"
SAID = "opset [0-9]+ cannot say this "
SAID_OTHERWISE = "ours says it by what the older version has, where onnx says that it cannot be"

RULES = "|".join(
    (
        *(
            "axis-out-of-range",
            "complex-signal",
            "concat-rank",
            "concat-sizes",
            "convolution-groups",
            "crop-shape",
            "fmod-of-floats",
            "gather-rank",
            "gemm-bias",
        ),
        *("gemm-rank", "initialized-subgraph-input", "initializer-shape", "input-count", "loss-rank"),
        *("concat-rank", "concat-sizes", "linear-coefficients", "resize-target", "tree-members"),
        *("missing-attribute", "nms-scores", "not-a-scalar", "output-count", "output-from-outside", "output-type"),
        *("quantization-axis", "quantization-granularity", "recurrent-shape", "resize-antialias", "rotary-width"),
        *("scatter-updates", "shadowed-name", "shapes-differ", "signal-shape", "tensor-data-length"),
        *("type-constraint", "type-mismatch"),
    )
)
"""Codes of rules that models of the tests break: an axis that there is not, types that an operator does not take."""

REASONS: tuple[tuple[str, str, str], ...] = (
    # Inference
    (INFERENCE, "too-many-elements", "a limit of ours on the elements of one value, which callers may lift"),
    (
        INFERENCE,
        "linear_attention_unknown_qkv|qlinearmatmul_allow_unknown|batch_norm_train_no_shape",
        "more ranks follow from data than are tried: ours writes no type, onnx one without a rank",
    ),
    (INFERENCE, "test_add_inference_raises_errors", STRICT),
    (INFERENCE, "test_add_inference ", "ours names a size that only data tells, where onnx leaves it open"),
    (INFERENCE, "broadcast-mismatch|type-mismatch|type-constraint|shapes-differ|missing-|declared-type", STRICT),
    (INFERENCE, "unknown-operator", "the operator is one that the test registers with onnx, which ours does not know"),
    (INFERENCE, "linear-coefficients|not-a-scalar|resize-target|recurrent-shape|tree-members", STRICT),
    (INFERENCE, "shadowed-name", STRICT),
    (INFERENCE, "pathlike_error", "a path is a model to ours, and onnx takes none here"),
    (
        INFERENCE,
        "rejects_cyclic",
        "ours raises it as an error of inference, which a call that is not strict passes over",
    ),
    (INFERENCE, "excessive_length", "a limit of ours on the rank of a value that only data tells"),
    (INFERENCE, "slice_with_input_shape", "what is sliced keeps its rank, whatever its axes are; onnx forgets it"),
    (INFERENCE, "sequence", "the elements of a sequence may differ in the size: the standard gives it no name"),
    (INFERENCE, "rotaryembedding_4d", "the width is twice that of the cosines, and ours says so by their size"),
    (INFERENCE, "test_stft_reals", "by its schema onesided is 1 where it is left out; onnx infers with 0"),
    # Checker
    (CHECKER, "einsum_bfloat16", "the test expects the error of inference, where ours is that of the checker"),
    (CHECKER, "unknown-operator", "ai.onnx has no such operator: onnx leaves nodes without a schema unchecked"),
    (CHECKER, "malformed_bytes", "the test expects another class of error than that of the checker, which ours raises"),
    (CHECKER, "protobuf_size_over_limit", "the test mocks the size of the message, which ours does not ask for"),
    (
        CHECKER,
        "tensor-data-length",
        "4-bit elements in int32_data: by the text of the field two are in an entry; the test packs more",
    ),
    (CHECKER, RULES, STRICT),
    # Printer
    ("printer", r"'\{1.5,-2.5,0\}'", "floats are printed as floats: 0.0"),
    ("printer", "raw_data_size_mismatch", "a tensor of a wrong size is printed so that it is read back as it is"),
    ("printer", "undecodable", "ours prints 4-bit elements, and reads them back"),
    # Versions
    (CONVERTER, r"tensor\(uint64\)", "onnx casts uint64 to float32 and back, which changes large elements"),
    (CONVERTER, "external-data-without-folder", "a message has no folder in which external data could be"),
    (CONVERTER, f"{SAID}OneHot", "from opset 11 on a negative index counts from the end; before it was no class"),
    (CONVERTER, f"{SAID}PRelu", "the slope has no shape by which to tell whether it goes with the channels"),
    (CONVERTER, f"{SAID}Reduce.* is not constant", "the axes are an input that is not constant; onnx drops them"),
    (
        CONVERTER,
        f"{SAID}Upsample.* is not constant",
        "the scales are an input with a default, which a call may replace",
    ),
    (CONVERTER, "test_constant_9_8", "onnx casts a constant of uint64 from float32; ours becomes an initializer"),
    (
        CONVERTER,
        "'Constant'|'Unsqueeze' == 'Scan'|2 == 1",
        "the node is there, but constants made of attributes, or left over, are nodes too",
    ),
    (CONVERTER, "test_(rnn|gru|lstm)_13_14", "an attribute that is its default in the new version is not written"),
    (CONVERTER, "scatter_16_15_bfloat16", "version 13 takes bfloat16 by its schema"),
    (CONVERTER, "test_range.*'shape'", "an output that is declared without a shape stays so; onnx adds one"),
    (CONVERTER, "CausalConvWithState", "ours says it by a convolution"),
    (
        CONVERTER,
        "LinearAttention_downgrade|attention_25_to_24_window|resize_18_17_rejects_axes|(?i:bitshift)_.*_fails",
        SAID_OTHERWISE,
    ),
    (CONVERTER, "mod_float_fmod_0_28_27|optional_(has|get)_element18_", SAID_OTHERWISE),
    (CONVERTER, "reshape_without_output", "a node of another domain is kept as it is, whatever its name is"),
    (CONVERTER, RULES, STRICT),
    # Compose and inliner
    ("compose", "drop_outputs", "of chosen outputs ours keeps the inputs that they need"),
    ("compose", "mismatch", "ours merges: into the newer IR version, and the newer opset by conversion"),
    ("compose", "shadowed-name", STRICT),
    ("compose", "overlapping_value_info", "the names are of no values of the graph, which ours leaves as they are"),
    ("compose", "overlapping_sparse", "the indices of a sparse tensor are no value, and keep their name"),
    ("inliner", RULES, STRICT),
)
