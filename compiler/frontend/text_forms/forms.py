"""The text forms of models, by the endings of file names: those that the onnx package knows.

What reads and writes a form is imported when there is such a model: most files are binary.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import PurePath
from types import ModuleType

from onnxc.compiler.diagnostics import error, model_error
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.runtime.errors import InputError, ModelError
from onnxc.runtime.records import record

__all__ = ["TEXT_FORMS", "TextForm", "form_of_path", "named_form", "parse_text", "print_text"]


@record
class TextForm:
    """One way of writing models as text; `suffixes` are the endings of its files. `module` has parse_* and print_*."""

    name: str
    suffixes: tuple[str, ...]
    module: str

    def parse(self, text: str) -> ModelProto:
        """The model of a text."""
        parse: Callable[[str], ModelProto] = getattr(self._functions, f"parse_{self.name}")
        return parse(text)

    def print(self, model: ModelProto) -> str:
        """The text of a model."""
        write: Callable[[ModelProto], str] = getattr(self._functions, f"print_{self.name}")
        return write(model)

    @property
    def _functions(self) -> ModuleType:
        return import_module(f"onnxc.compiler.frontend.text_forms.{self.module}")


TEXT_FORMS: Mapping[str, TextForm] = {
    form.name: form
    for form in (
        TextForm("onnxtxt", (".onnxtxt", ".onnxtext"), "onnx_form"),
        TextForm("textproto", (".textproto", ".txtpb", ".prototxt", ".pbtxt"), "textproto_form"),
        TextForm("json", (".json", ".onnxjson"), "json_form"),
    )
}

_BY_SUFFIX = {suffix: form for form in TEXT_FORMS.values() for suffix in form.suffixes}


def form_of_path(path: str) -> TextForm | None:
    """The text form that the name of a file tells; None for a binary one."""
    return _BY_SUFFIX.get(PurePath(path).suffix.lower())


def named_form(name: str) -> TextForm:
    """The text form of that name; InputError where there is none."""
    if name not in TEXT_FORMS:
        raise InputError(f"form is {name!r}, expected one of {', '.join(TEXT_FORMS)}", code="unknown-text-form")
    return TEXT_FORMS[name]


def parse_text(data: bytes | memoryview, form: TextForm) -> ModelProto:
    """The model that the bytes of a text are; ModelError tells line and column of what is wrong."""
    try:
        text = bytes(data).decode().removeprefix("\ufeff")
    except UnicodeDecodeError as problem:
        message = f"byte {problem.start} of the text is not UTF-8"
        raise model_error([error("invalid-utf8", message, rule="ONNX IR, strings are UTF-8")]) from None
    return form.parse(text)


def print_text(model: ModelProto, form: TextForm) -> str:
    """The model as a text that is read back as exactly this model; ModelError where there is none."""
    text = form.print(model)
    said = _read_back(text, form)
    if said is None or said.SerializeToString(deterministic=True) != model.SerializeToString(deterministic=True):
        unsaid = _first_missing(model, said) if said is not None else ""
        where = f"; the first is {unsaid.removeprefix('#| ')[:120]}" if unsaid else ""
        message = (
            f"{form.name} cannot say all of the model: it has text that is not UTF-8, a NaN whose bits the form cannot "
            f"tell, or what no standard knows{where}"
        )
        raise model_error([error("unwritable-text", message, rule="a text is read back as the same model")])
    return text


def _read_back(text: str, form: TextForm) -> ModelProto | None:
    try:
        return form.parse(text)
    except ModelError:
        return None


def _first_missing(model: ModelProto, said: ModelProto) -> str:
    """The first field of the model that was not said, as a comment tells it."""
    missing = import_module("onnxc.compiler.frontend.text_forms.beyond_syntax").missing_fields(model, said)
    return next(missing, "")
