"""What a compilation may say of the inputs of a model besides the model itself; knows no graph."""

from collections.abc import Mapping, Sequence
from dataclasses import field

from onnxc.compiler.ir.dtypes import DType
from onnxc.runtime.records import record

SizeRange = tuple[int, int | None]


@record
class InputOptions:
    """How the inputs of this compilation differ from what the model declares.

    `dims` fixes a symbol or gives its range; `shapes` and `dtypes` replace an input's. Where `freeze_params` is false,
    initializers are inputs with a default, but for those that decide shapes. `strict`: a declared shape that is wrong
    is an error. `floats` replaces the element type of all floats of the model. `random_state` names an input, u32[2],
    on which all draws without a seed depend; without it a program that draws gets such an input, with zeros as default.
    """

    dims: Mapping[str, int | SizeRange] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int | str | None]] = field(default_factory=dict)
    dtypes: Mapping[str, DType] = field(default_factory=dict)
    freeze_params: bool = True
    strict: bool = False
    floats: DType | None = None
    random_state: str | None = None
