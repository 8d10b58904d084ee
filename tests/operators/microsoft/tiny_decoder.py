"""A decoder of one layer with random weights, as the graph that a search of com.microsoft runs."""

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper, parser

from onnxc.compiler.frontend.operator_domains import MICROSOFT

WORDS, HEADS, WIDTH, MOST = 11, 2, 4, 32

BODY = """
<ir_version: 8, opset_import: ["" : 17]>
decoder (
    int32[r, s] input_ids, int32[r, s] position_ids, int32[r, t] attention_mask,
    float[2, r, 2, p, 4] past_0, float[2, r, 2, p, 4] past_1
) => (float[r, s, 11] logits, float[2, r, 2, t, 4] present_0, float[2, r, 2, t, 4] present_1) {
    words = Gather (table, input_ids)
    moved = Gather (angles, position_ids)
    x = Add (words, moved)
    shape = Constant <value_ints = [0, 0, 2, 4]> ()
    flat = Constant <value_ints = [0, 0, 8]> ()
    first = Constant <value_ints = [0]> ()
    last = Constant <value_ints = [1, 2]> ()
    one = Constant <value_float = 1.0> ()
    hidden = Constant <value_float = -10000.0> ()
    shown = Cast <to = 1> (attention_mask)
    unseen = Sub (one, shown)
    dark = Mul (unseen, hidden)
    bias = Unsqueeze (dark, last)
    LAYER(x, 0, y)
    LAYER(y, 1, z)
    out = MatMul (z, head)
    logits = Identity (out)
}
"""
LAYER = """
    q{n} = MatMul ({x}, q_weight_{n})
    k{n} = MatMul ({x}, k_weight_{n})
    v{n} = MatMul ({x}, v_weight_{n})
    qs{n} = Reshape (q{n}, shape)
    ks{n} = Reshape (k{n}, shape)
    vs{n} = Reshape (v{n}, shape)
    qt{n} = Transpose <perm = [0, 2, 1, 3]> (qs{n})
    kt{n} = Transpose <perm = [0, 2, 1, 3]> (ks{n})
    vt{n} = Transpose <perm = [0, 2, 1, 3]> (vs{n})
    ku{n} = Unsqueeze (kt{n}, first)
    vu{n} = Unsqueeze (vt{n}, first)
    new{n} = Concat <axis = 0> (ku{n}, vu{n})
    present_{n} = Concat <axis = 3> (past_{n}, new{n})
    keys{n}, values{n} = Split <axis = 0> (present_{n})
    key{n} = Squeeze (keys{n}, first)
    value{n} = Squeeze (values{n}, first)
    turned{n} = Transpose <perm = [0, 1, 3, 2]> (key{n})
    raw{n} = MatMul (qt{n}, turned{n})
    scores{n} = Add (raw{n}, bias)
    weights{n} = Softmax (scores{n})
    mixed{n} = MatMul (weights{n}, value{n})
    back{n} = Transpose <perm = [0, 2, 1, 3]> (mixed{n})
    joined{n} = Reshape (back{n}, flat)
    {y} = Add ({x}, joined{n})
"""


def decoder(seed: int, scale: float = 1.0) -> GraphProto:
    """Input ids, positions, a mask and two pasts to scores of the next word and two presents; queries see all keys."""
    rng = np.random.default_rng(seed)
    text = BODY.replace("LAYER(x, 0, y)", LAYER.format(n=0, x="x", y="y"))
    graph = parser.parse_model(text.replace("LAYER(y, 1, z)", LAYER.format(n=1, x="y", y="z"))).graph
    size = HEADS * WIDTH
    shapes = {"table": (WORDS, size), "angles": (MOST, size), "head": (size, WORDS)}
    shapes |= {f"{name}_weight_{layer}": (size, size) for name in "qkv" for layer in (0, 1)}
    for name, shape in shapes.items():
        weights = np.float32(rng.standard_normal(shape) * scale)
        graph.initializer.append(numpy_helper.from_array(weights, name))
    return graph


def search_model(
    operator: str, inputs: dict[str, np.ndarray | None], outputs: list[str], **attributes: object
) -> ModelProto:
    """A model of one search, with sizes of the prompt that a call gives; inputs that are None are left out."""
    given = {name: value for name, value in inputs.items() if value is not None}
    node = helper.make_node(
        operator, [name if name in given else "" for name in inputs], outputs, domain=MICROSOFT, **attributes
    )
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), _free(name, value))
        for name, value in given.items()
    ]
    kinds = {"sequences": TensorProto.INT32}
    results = [helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), None) for name in outputs]
    graph = helper.make_graph([node], "search", infos, results)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)], ir_version=8
    )


def _free(name: str, value: np.ndarray) -> list[int | str]:
    return ["batch", "length"] if name in ("prompt", "seen_words") else list(value.shape)
