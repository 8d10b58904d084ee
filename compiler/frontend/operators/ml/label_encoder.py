"""LabelEncoder and CategoryMapper: elements mapped to others by constant keys.

Source: https://onnx.ai/onnx/operators/onnx_aionnxml_LabelEncoder.html
"""

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.lookups import looked_up, picked, texts
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import I64, dtype_of
from onnxc.compiler.ir.module import Value

ML = "ai.onnx.ml"


@operator("LabelEncoder", since=(1,), domain=ML)
def label_encoder_of_classes(node: Node, ir: Builder) -> Value:
    """X: string[...] or i64[...]  ->  the index of each text among classes_strings, or the text at each index

    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_LabelEncoder.html
    """
    x, classes = node.input("X"), texts(node.strings("classes_strings", ()))
    if x.dtype.is_string:
        indices = np.arange(classes.size)
        return looked_up(x, classes, indices, np.array(node.int("default_int64")), ir)
    inside = ir.and_(ir.less_equal(0, x), ir.less(x, classes.size))
    index_or_end = ir.select(inside, x, classes.size)
    return picked(index_or_end, classes, np.array(node.string("default_string"), object), ir)


@operator("LabelEncoder", since=(2, 4), domain=ML)
def label_encoder(node: Node, ir: Builder) -> Value:
    """X: T1[...]  ->  T2[...], the value of the key that each element is, or the default

    The last of equal keys counts.
    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_LabelEncoder.html
    """
    x = node.input("X")
    keys, values = _vector("keys", node), _vector("values", node)
    if dtype_of(keys.dtype) != x.dtype:
        node.fail("key-type", f"X is {x.dtype}, the keys are {dtype_of(keys.dtype)}", rule="ONNX LabelEncoder, keys_*")
    if keys.size != values.size:
        node.fail("label-pairs", f"{keys.size} keys have {values.size} values", rule="ONNX LabelEncoder, values_*")
    return looked_up(x, keys, values, _default(values.dtype, node), ir)


def _vector(side: str, node: Node) -> np.ndarray:
    """The elements of the attribute that has the keys or values."""
    given = [kind for kind in ("floats", "int64s", "strings", "tensor") if node.has(f"{side}_{kind}")]
    if len(given) != 1:
        node.fail("label-attributes", f"{len(given)} attributes {side}_* are given, not 1", rule="ONNX LabelEncoder")
    (kind,) = given
    name = f"{side}_{kind}"
    match kind:
        case "floats":
            return np.array(node.floats(name), np.float32)
        case "int64s":
            return np.array(node.ints(name), np.int64)
        case "strings":
            return texts(node.strings(name))
    tensor = node.tensor(name)
    if tensor.ndim != 1:
        node.fail("not-a-vector", f"{name} has {tensor.ndim} axes, not one", rule=f"ONNX LabelEncoder, {name}")
    return tensor


def _default(dtype: "np.dtype[np.generic]", node: Node) -> np.ndarray:
    """What stands for an unknown key, at rank 0: the default that matches the type of the values, however given."""
    if node.has("default_tensor"):
        default = node.tensor("default_tensor")
        if default.size != 1 or default.dtype != dtype:
            message = (
                f"default_tensor has {default.size} elements of {dtype_of(default.dtype)}, not one of {dtype_of(dtype)}"
            )
            node.fail("label-default", message, rule="ONNX LabelEncoder, default_tensor")
        return default.reshape(())
    if dtype.hasobject:
        return np.array(node.string("default_string"), object)
    return np.array(node.float("default_float") if dtype.kind == "f" else node.int("default_int64")).astype(dtype)


@operator("CategoryMapper", since=(1,), domain=ML)
def category_mapper(node: Node, ir: Builder) -> Value:
    """X: string[...] or i64[...]  ->  the integer of each text, or the text of each integer

    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_CategoryMapper.html
    """
    x = node.input("X")
    for name in ("cats_strings", "cats_int64s"):
        if not node.has(name):
            node.fail("category-pairs", f"{name} is absent", rule="ONNX CategoryMapper, cats_*")
    words, integers = texts(node.strings("cats_strings")), np.array(node.ints("cats_int64s"), np.int64)
    if words.size != integers.size:
        message = f"{words.size} texts stand beside {integers.size} integers"
        node.fail("category-pairs", message, rule="ONNX CategoryMapper, cats_*")
    if x.dtype.is_string:
        return looked_up(x, words, integers, np.array(node.int("default_int64")), ir)
    return looked_up(ir.cast(x, I64), integers, words, np.array(node.string("default_string"), object), ir)
