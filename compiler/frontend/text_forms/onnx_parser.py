"""ONNX's own text syntax, read: a text becomes the model that the standard's parser makes of it.

The grammar is that of docs/Syntax.md, and where that is silent, of the standard's parser. What the syntax cannot say
may follow in comments (`beyond_syntax.py`).
"""

from collections.abc import Mapping

from onnxc.compiler.frontend.attribute_fields import ATTRIBUTE_FIELDS, AttributeType
from onnxc.compiler.frontend.proto.onnxc_pb2 import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    TypeProto,
)
from onnxc.compiler.frontend.text_forms.onnx_values import INTEGER, NUMBER, ValueParser, as_float
from onnxc.compiler.frontend.text_forms.syntax import (
    ATTRIBUTE_TYPES,
    FLOAT_WORD,
    FUNCTION_HEADER,
    LIST_TYPES,
    MODEL_HEADER,
    NESTED_GRAPHS,
    PLAIN,
    TYPE_WORDS,
)

__all__ = ["parse_syntax"]

AttributeValue = int | float | bytes | TensorProto | TypeProto | GraphProto

_ELEMENTS = {whole: single for single, whole in LIST_TYPES.items()}
_NAMES = {code: name for name, code in ATTRIBUTE_TYPES.items()}


def parse_syntax(text: str) -> tuple[ModelProto, int]:
    """The model that the text is, but for what comments say, and the offset behind it.

    Raises ModelError, which tells line and column of what is wrong.
    """
    return _ModelParser(text).model()


class _ModelParser(ValueParser):
    """Reads graphs, functions and models; each method reads one thing of the grammar."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def model(self) -> tuple[ModelProto, int]:
        model = ModelProto()
        self._header(model, MODEL_HEADER)
        self._graph(model.graph)
        end = self.offset
        while self.next():
            self._function(model.functions.add())
            end = self.offset
        return model, end

    def _header(self, message: ModelProto | FunctionProto, kinds: Mapping[str, str]) -> None:
        """The fields before a model or a function, where there are any."""
        if not self.takes("<"):
            return
        while True:
            start = self.start()
            field = self.match(PLAIN, "a field")
            if field not in kinds:
                self.fail(f"{field} is none of {', '.join(kinds)}", start)
            self.expect(":")
            self._header_field(message, field, kinds[field])
            if not self.takes(","):
                break
        self.expect(">")

    def _header_field(self, message: ModelProto | FunctionProto, field: str, kind: str) -> None:
        start = self.start()
        if kind == "text":
            setattr(message, field, self.quoted())
        elif kind == "integer":
            setattr(message, field, self._int64(self.integer(), start))
        else:
            read = self._opset if kind == "versions" else self.entry
            getattr(message, field).extend(self.listed("[", "]", read))

    def _opset(self) -> OperatorSetIdProto:
        domain = self.quoted()
        self.expect(":")
        start = self.start()
        return OperatorSetIdProto(domain=domain, version=self._int64(self.integer(), start))

    def _int64(self, value: int, start: int) -> int:
        if value >= 1 << 63:
            self.fail("the integer has more than 63 bits", start)
        return value

    # Graphs and functions

    def _graph(self, graph: GraphProto) -> None:
        if self._depth > NESTED_GRAPHS:
            self.fail(f"graphs are nested more than {NESTED_GRAPHS} deep", code="nesting-too-deep")
        self._depth += 1
        graph.name = self.name()
        if self.sees("("):
            self.listed("(", ")", lambda: self._value(graph, is_input=True))
        self._arrow()
        graph.output.extend(self.listed("(", ")", self.value_info))
        if self.sees("<"):
            self.listed("<", ">", lambda: self._value(graph, is_input=False))
        self._nodes(graph)
        self._depth -= 1

    def _arrow(self) -> None:
        self.expect("=")
        if self.text[self.offset : self.offset + 1] != ">":
            self.fail("expected '=>'", self.offset - 1)
        self.offset += 1

    def _value(self, graph: GraphProto, *, is_input: bool) -> None:
        """An input, which may have a default; or an initializer or the declaration of a value."""
        start = self.start()
        info = self.value_info()
        has_elements = self.takes("=")
        if has_elements:
            graph.initializer.append(self.tensor(info.type, start, info.name))
        if is_input:
            graph.input.append(info)
        elif not has_elements:
            graph.value_info.append(info)

    def _nodes(self, holder: GraphProto | FunctionProto) -> None:
        self.expect("{")
        while not self.takes("}"):
            self._node(holder.node.add())

    def _function(self, function: FunctionProto) -> None:
        self._header(function, FUNCTION_HEADER)
        function.name = self.name()
        if self.sees("<"):
            self.listed("<", ">", lambda: self._parameter(function))
        function.input.extend(self.listed("(", ")", lambda: self._formal(function)))
        self._arrow()
        function.output.extend(self.listed("(", ")", lambda: self._formal(function)))
        if self.sees("<"):
            function.value_info.extend(self.listed("<", ">", self.value_info))
        self._nodes(function)

    def _parameter(self, function: FunctionProto) -> None:
        """An attribute of a function: a name, or with its default as a node has it."""
        name = self.name()
        if self.next() in (":", "="):
            self._attribute_value(function.attribute_proto.add(name=name))
        else:
            function.attribute.append(name)

    def _formal(self, function: FunctionProto) -> str:
        info = self.value_info()
        if info.HasField("type"):
            function.value_info.append(info)
        return info.name

    # Nodes

    def _node(self, node: NodeProto) -> None:
        if self.takes("["):
            node.name = self.name() if self.sees_name() else ""
            self.expect("]")
        node.output.extend(self._names())
        self.expect("=")
        words = [self.match(PLAIN, "an operator")]
        while self.takes("."):
            words.append(self.match(PLAIN, "an operator"))
        node.op_type = words[-1]
        if len(words) > 1:
            node.domain = ".".join(words[:-1])
        if self.takes(":"):
            node.overload = self.match(PLAIN, "an overload")
        self._attributes(node)
        self.expect("(")
        node.input.extend(self._names())
        self.expect(")")
        if not node.attribute:
            self._attributes(node)

    def _names(self) -> list[str]:
        """Names separated by commas; nothing before a comma is the empty name, nothing behind the last none."""
        names: list[str] = []
        while self.sees_name() or self.sees(","):
            names.append(self.name() if self.sees_name() else "")
            if not self.takes(","):
                break
        return names

    def _attributes(self, node: NodeProto) -> None:
        if self.sees("<"):
            self.listed("<", ">", lambda: self._attribute(node))

    def _attribute(self, node: NodeProto) -> None:
        self._attribute_value(node.attribute.add(name=self.match(PLAIN, "an attribute")))

    def _attribute_value(self, attribute: AttributeProto) -> None:
        """The type of an attribute, where it is given, and its value."""
        type = self._attribute_type() if self.takes(":") else AttributeProto.UNDEFINED
        self.expect("=")
        start = self.start()
        if self.takes("@"):
            attribute.ref_attr_name, kind = self.name(), type
        elif self.sees("["):
            kind = self._list(attribute, type, start)
        else:
            kind, value = self._single(type)
            if isinstance(value, int | float | bytes):
                setattr(attribute, ATTRIBUTE_FIELDS[kind], value)
            else:
                getattr(attribute, ATTRIBUTE_FIELDS[kind]).CopyFrom(value)
        if type and kind != type:
            self.fail(f"the attribute is of type {_NAMES[type]}, and its value of type {_NAMES[kind]}", start)
        if kind:
            attribute.type = kind

    def _attribute_type(self) -> AttributeType:
        start = self.start()
        word = self.match(PLAIN, "a type of attributes")
        if word not in ATTRIBUTE_TYPES:
            self.fail(f"{word} is no type of attributes", start)
        return ATTRIBUTE_TYPES[word]

    def _list(self, attribute: AttributeProto, type: AttributeType, start: int) -> AttributeType:
        """Reads a list, whose type is told by its elements or before it; its type."""
        values = self.listed("[", "]", lambda: self._single(_ELEMENTS.get(type, AttributeProto.UNDEFINED)))
        if not values and type not in _ELEMENTS:
            self.fail("an empty list needs the type of a list before it", start)
        kinds = {kind for kind, _ in values}
        if len(kinds) > 1:
            self.fail(f"the list has elements of types {' and '.join(_NAMES[kind] for kind in sorted(kinds))}", start)
        actual = LIST_TYPES[kinds.pop()] if values else type
        getattr(attribute, ATTRIBUTE_FIELDS[actual]).extend(value for _, value in values)
        return actual

    def _single(self, expected: AttributeType) -> tuple[AttributeType, AttributeValue]:
        """The type of attribute that a value is, and the value; an integer is a float where one is expected."""
        if self.sees('"'):
            return AttributeProto.STRING, self.quoted().encode()
        word, start = self.peek(PLAIN), self.start()
        if not word or FLOAT_WORD.match(word):
            return self._number(expected)
        if word not in TYPE_WORDS:
            graph = GraphProto()
            self._graph(graph)
            return AttributeProto.GRAPH, graph
        type = self.type()
        if self.next() not in ("{", "=") and not self.sees_name():
            return AttributeProto.TYPE_PROTO, type
        name = self.name() if self.sees_name() else ""
        self.takes("=")
        return AttributeProto.TENSOR, self.tensor(type, start, name)

    def _number(self, expected: AttributeType) -> tuple[AttributeType, int | float]:
        start = self.start()
        text = self.match(NUMBER, "a value")
        if expected != AttributeProto.FLOAT and INTEGER.fullmatch(text):
            return AttributeProto.INT, self._int64(self.to_int(text, start), start)
        value = as_float(text)
        if value is None:
            self.fail("the number is beyond all that a float has", start)
        return AttributeProto.FLOAT, value
