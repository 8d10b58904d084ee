"""Training information for a model that has none, of a loss and an optimizer by their names."""

from collections.abc import Mapping, Sequence

from onnxc.compiler.checked_model import check_or_repair
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.computation import TRAINING
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.read import read_model, wrap_model
from onnxc.compiler.frontend.schemas import schema
from onnxc.compiler.frontend.training.making.graph_maker import AttributeValue
from onnxc.compiler.frontend.training.making.initial_values import SPREADS
from onnxc.compiler.frontend.training.making.losses import LOSSES
from onnxc.compiler.frontend.training.making.make_information import TrainingChoices, add_training_information
from onnxc.compiler.frontend.training.making.optimizers import OPTIMIZERS
from onnxc.compiler.option_types import expect_finite, expect_mapping, expect_names
from onnxc.compiler.options import ModelSource
from onnxc.compiler.typed_model import typed_model
from onnxc.runtime.errors import InputError

__all__ = ["make_training"]


def make_training(
    source: ModelSource,
    loss: str,
    optimizer: str,
    output: str | None,
    trainable: Sequence[str] | None,
    learning_rate: float | None,
    settings: Mapping[str, float | str] | None,
    initialization: str | None,
) -> ModelProto:
    """The model with training information, which is checked.

    Raises InputError for choices that there are not or that do not fit, ModelError where the model is wrong.
    """
    _expect_known("loss", loss, LOSSES)
    _expect_known("optimizer", optimizer, OPTIMIZERS)
    if initialization is not None:
        _expect_known("initialization", initialization, SPREADS)
    rate = None if learning_rate is None else expect_finite("learning_rate", learning_rate)
    if output is not None and not isinstance(output, str):
        raise InputError(f"output is {output!r}, expected the name of a value", code="option-type")
    names = None if trainable is None else expect_names("trainable", trainable)
    attributes = _settings(optimizer, settings)
    choices = TrainingChoices(loss, optimizer, output, names, rate, attributes, initialization)
    loaded, checked = check_or_repair(read_model(source))
    if loaded.outline.training_info:
        raise InputError("the model has training information already", code="has-training-information")
    model = ModelProto()
    model.CopyFrom(loaded.proto)
    add_training_information(model, typed_model(loaded, checked), checked.graph, choices)
    check_model(wrap_model(model, loaded.folder))
    return model


def _expect_known(option: str, value: object, known: Mapping[str, object]) -> None:
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{option} is {value!r}, expected one of {', '.join(known)}", code="unknown-training-choice")


def _settings(optimizer: str, settings: Mapping[str, float | str] | None) -> dict[str, AttributeValue]:
    """The attributes of the optimizer's operator that the caller chose."""
    definition = schema(TRAINING, OPTIMIZERS[optimizer].operator, 1)
    known = {} if definition is None else definition.attributes
    chosen: dict[str, AttributeValue] = {}
    for name, value in expect_mapping("settings", settings).items():
        if name not in known:
            message = f"{optimizer} has no setting {name!r}, it has {', '.join(known) or 'none'}"
            raise InputError(message, code="unknown-training-choice")
        chosen[name] = value if isinstance(value, str) else expect_finite(f"settings[{name!r}]", value)
    return chosen
