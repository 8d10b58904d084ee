"""StringConcat, StringSplit, StringNormalizer and RegexFullMatch: functions of texts, which run on the host.

Source: https://onnx.ai/onnx/operators/
"""

import re

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.open_ranks.common_rank import at_common_rank
from onnxc.compiler.frontend.operator_helpers.regular_expressions import NotInPython, UnknownSyntax, python_pattern
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import BOOL, I64, STRING
from onnxc.compiler.ir.module import Attribute, Value
from onnxc.compiler.ir.types import TensorType

CASES = ("NONE", "LOWER", "UPPER")


@operator("StringConcat", since=(20,))
@at_common_rank
def string_concat(node: Node, ir: Builder) -> Value:
    """X: string[...], Y: string[...]  ->  string[...], X followed by Y

    Source: https://onnx.ai/onnx/operators/onnx__StringConcat.html
    """
    x, y = ir.broadcast_together(*node.inputs("X", "Y"))
    return ir.host("string_concatenate", (x, y), (x.type,), {})[0]


@operator("StringSplit", since=(20,))
def string_split(node: Node, ir: Builder) -> tuple[Value, ...]:
    """X: string[...]  ->  Y: string[..., n], the parts of each text, and Z: i64[...], how many they are

    Source: https://onnx.ai/onnx/operators/onnx__StringSplit.html
    """
    x = node.input("X")
    attributes: dict[str, Attribute] = {"delimiter": node.string("delimiter", ""), "maxsplit": node.int("maxsplit", -1)}
    parts = TensorType(STRING, (*x.shape, ir.fresh_symbol("parts")))
    return ir.host("string_split", (x,), (parts, TensorType(I64, x.shape)), attributes)


@operator("RegexFullMatch", since=(20,))
def regex_full_match(node: Node, ir: Builder) -> Value:
    """X: string[...]  ->  bool[...], whether all of the text matches `pattern`, in the syntax of RE2

    Source: https://onnx.ai/onnx/operators/onnx__RegexFullMatch.html
    """
    x, pattern = node.input("X"), node.string("pattern")
    try:
        translated = python_pattern(pattern)
        re.compile(translated)
    except NotInPython as reason:
        node.unsupported(f"pattern {pattern!r}: {reason}")
    except (UnknownSyntax, re.error) as problem:
        node.fail("regular-expression", f"pattern {pattern!r}: {problem}", rule="ONNX RegexFullMatch, pattern")
    type = TensorType(BOOL, x.shape)
    return ir.host("string_full_match", (x,), (type,), {"pattern": translated})[0]


@operator("StringNormalizer", since=(10,))
def string_normalizer(node: Node, ir: Builder) -> Value:
    """X: string[C] or string[1, C]  ->  string[n] or string[1, n]: those that are no stop words, in the wanted case

    One empty text where none is left. Cases are those of Unicode, which en_US has; `locale` changes nothing.
    Source: https://onnx.ai/onnx/operators/onnx__StringNormalizer.html
    """
    x = node.input("X")
    if x.rank not in (1, 2):
        node.fail("text-rank", f"X is {x.type}, of neither rank 1 nor 2", rule="ONNX StringNormalizer, X")
    if x.rank == 2:
        ir.require_equal(x.shape[0], 1, "the first axis of X is not 1", "text-rank")
    stops = node.strings("stopwords", ())
    case = node.choice("case_change_action", CASES)
    length: Dim = ir.fresh_symbol("words") if stops else maximum(x.shape[-1], 1)
    words = ir.constant(np.array(stops, object))
    type = TensorType(STRING, (length,) if x.rank == 1 else (1, length))
    attributes: dict[str, Attribute] = {"is_case_sensitive": node.flag("is_case_sensitive"), "case": case}
    return ir.host("string_normalize", (x, words), (type,), attributes)[0]
