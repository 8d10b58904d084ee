"""Models as text, in any of the forms of `frontend/text_forms/`, from and to every kind of source."""

from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.frontend.text_forms.forms import form_of_path, named_form, parse_text, print_text
from onnxc.compiler.option_types import expect_text
from onnxc.compiler.options import ModelSource

__all__ = ["file_bytes", "model_of_text", "text_of_model"]


def text_of_model(source: ModelSource, form: str) -> str:
    """The model in the text form of that name."""
    return print_text(read_model(source).proto, named_form(form))


def model_of_text(text: str, form: str) -> ModelProto:
    """The model that a text of that form is."""
    # A text may have halves of characters, which are no UTF-8; that is told as of files.
    return parse_text(expect_text("text", text).encode(errors="surrogatepass"), named_form(form))


def file_bytes(model: ModelProto, path: str) -> bytes:
    """What a file of this name holds for the model: a text where its ending is that of a text form."""
    form = form_of_path(path)
    return model.SerializeToString() if form is None else print_text(model, form).encode()
