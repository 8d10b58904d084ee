"""A model that breaks one rule, and what it must be refused for."""

from dataclasses import dataclass, field

import onnx

from onnxc.compiler.limits import DEFAULT_LIMITS, Limits
from tests.frontend.model_texts import HEADER, Edit, model


@dataclass(frozen=True)
class Case:
    """A model as text, changed by `edit`; every error found in it has the code `code`."""

    code: str
    text: str
    edit: Edit | None = None
    header: str = HEADER
    limits: Limits = field(default=DEFAULT_LIMITS)

    def build(self) -> onnx.ModelProto:
        """The model."""
        return model(self.text, self.edit, self.header)


def ir_version(number: int, opset: int = 10) -> str:
    """The header of a model of this IR version."""
    return f'<ir_version: {number}, opset_import: ["": {opset}, "own": 1]>\n'


Cases = dict[str, Case]
