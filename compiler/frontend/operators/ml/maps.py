"""ZipMap, CastMap and DictVectorizer: between tensors and maps, which live on the host.

Source: https://onnx.ai/onnx/operators/index.html#ai-onnx-ml
"""

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.host_values import required
from onnxc.compiler.frontend.operator_helpers.lookups import texts
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F32, I64, STRING
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import MapType, SequenceType, TensorType

ML = "ai.onnx.ml"
CASTS = {"TO_FLOAT": F32, "TO_STRING": STRING, "TO_INT64": I64}


def _keys(integers: str, words: str, node: Node) -> np.ndarray:
    """The keys that one of two attributes gives."""
    if node.has(integers) == node.has(words):
        node.fail("class-keys", f"exactly one of {integers} and {words} must be given", rule=f"ONNX {node.operator}")
    return texts(node.strings(words)) if node.has(words) else np.array(node.ints(integers), np.int64)


def _map_input(node: Node) -> tuple[Value, MapType]:
    value = required("X", node)
    if not isinstance(value.type, MapType) or not isinstance(value.type.value, TensorType):
        node.fail("not-a-map", f"X is {value.type}, not a map to numbers or texts", rule=f"ONNX {node.operator}, X")
    return value, value.type


@operator("ZipMap", since=(1,), domain=ML)
def zip_map(node: Node, ir: Builder) -> Value:
    """X: f32[N, k] or f32[k]  ->  seq(map(K, f32)), for each row the map from each key to the element of its column

    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_ZipMap.html
    """
    x, keys = node.input("X"), _keys("classlabels_int64s", "classlabels_strings", node)
    if x.rank not in (1, 2):
        node.fail("features-rank", f"X is {x.type}, of neither rank 1 nor 2", rule="ONNX ZipMap, X")
    rows = x if x.rank == 2 else ir.unsqueeze(x, (0,))
    ir.require_equal(rows.shape[1], keys.size, "the columns and the keys differ in number", "class-keys")
    key = STRING if keys.dtype == object else I64
    type = SequenceType(MapType(key, TensorType(x.dtype, ())))
    return ir.host("zip_map", (rows, ir.constant(keys)), (type,), {})[0]


@operator("CastMap", since=(1,), domain=ML)
def cast_map(node: Node, ir: Builder) -> Value:
    """X: map(i64, T)  ->  T2[1, n], its values by ascending key; with map_form SPARSE each at the index that its key is

    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_CastMap.html
    """
    x, type = _map_input(node)
    if type.key.is_string:
        node.fail("map-key", f"X is {type}, the keys must be i64", rule="ONNX CastMap, X")
    dtype = CASTS[node.choice("cast_to", tuple(CASTS))]
    if node.choice("map_form", ("DENSE", "SPARSE")) == "DENSE":
        size: Dim = ir.fresh_symbol("entries")
        return ir.host("dense_from_map", (x,), (TensorType(dtype, (1, size)),), {"dtype": dtype})[0]
    size = node.int("max_map")
    if size < 1:
        node.fail("attribute-range", f"max_map is {size}, below 1", rule="ONNX CastMap, attribute max_map")
    return ir.host("sparse_from_map", (x,), (TensorType(dtype, (1, size)),), {"dtype": dtype, "size": size})[0]


@operator("DictVectorizer", since=(1,), domain=ML)
def dict_vectorizer(node: Node, ir: Builder) -> Value:
    """X: map(K, T)  ->  T[1, k], the value of each word of the vocabulary, 0 where the map has none

    The text speaks of a vector; what exporters declare and runtimes give is one row.
    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_DictVectorizer.html
    """
    x, type = _map_input(node)
    keys = _keys("int64_vocabulary", "string_vocabulary", node)
    if type.key.is_string != (keys.dtype == object):
        node.fail("map-key", f"X is {type}, and the vocabulary is of the other kind", rule="ONNX DictVectorizer")
    assert isinstance(type.value, TensorType), type
    dtype = type.value.dtype
    result = TensorType(dtype, (1, keys.size))
    return ir.host("vectorize_map", (x, ir.constant(keys)), (result,), {"dtype": dtype})[0]
