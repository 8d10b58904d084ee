"""`onnxc train`: a model trained on the arrays of a file, in shuffled batches, and written with its new weights."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import numpy as np

import onnxc
from onnxc.command_line.array_files import read_npz
from onnxc.command_line.shared import MODEL, THREADS, progress, reporting_errors
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.frontend.training.making.losses import LOSSES
from onnxc.compiler.frontend.training.making.optimizers import OPTIMIZERS
from onnxc.compiler.trainer import Trainer

__all__ = ["train_command"]

FILE = click.Path(dir_okay=False, path_type=Path)

Arrays = Mapping[str, np.ndarray]


@click.command("train")
@MODEL
@click.option("--data", type=FILE, required=True, help="An .npz with an array for each input of a step.")
@click.option("--loss", type=click.Choice(list(LOSSES)), help="For a model without training information.")
@click.option("--optimizer", type=click.Choice(list(OPTIMIZERS)), help="For the same; sgd if not given.")
@click.option("--learning-rate", type=float, help="For the same; a usual one if not given.")
@click.option("--epochs", type=click.IntRange(min=1), default=10, show_default=True, help="How often over all samples.")
@click.option("--batch", type=click.IntRange(min=1), default=64, show_default=True, help="Samples in a step.")
@click.option("--keep-weights", is_flag=True, help="Go on with the weights of the model; else they are initialized.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of weights and of the order.")
@THREADS
@click.option("-o", "--output", type=FILE, help="Default: MODEL with .trained.onnx.")
@reporting_errors
def train_command(
    model: Path,
    data: Path,
    loss: str | None,
    optimizer: str | None,
    learning_rate: float | None,
    epochs: int,
    batch: int,
    seed: int,
    threads: int | None,
    output: Path | None,
    *,
    keep_weights: bool,
) -> None:
    """Train MODEL, and write it with its new weights.

    Arrays of the data have one sample for each place of their first axis, but for those of rank 0, which all steps get.
    Samples that are left over when a batch is full wait for the next epoch.
    """
    arrays, path = _read(data), output or model.with_suffix(".trained.onnx")
    if not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {path.parent} for the trained model")
    with progress(f"compiling {model.name}"):
        trainer = onnxc.compile_training(_training_model(model, loss, optimizer, learning_rate), threads=threads)
    if not keep_weights:
        trainer.initialize(seed)
    for epoch, means in enumerate(_epochs(trainer, arrays, epochs, batch, seed), 1):
        click.echo(f"epoch {epoch}: {', '.join(f'{name} {value:.6g}' for name, value in means.items())}")
    trainer.save_model(path)
    click.echo(f"{path}: {len(trainer.variables)} variables trained")


def _read(path: Path) -> Arrays:
    """The arrays of the file; those with samples have as many."""
    try:
        arrays = read_npz(path, what="the data")
    except ValueError as problem:
        raise click.BadParameter(f"cannot read arrays from {path}: {problem}") from problem
    counts = {len(array) for array in arrays.values() if array.ndim}
    if len(counts) != 1 or 0 in counts:
        listed = ", ".join(f"{name}{list(array.shape)}" for name, array in arrays.items()) or "none"
        raise click.BadParameter(f"the arrays of {path} have no one number of samples: {listed}")
    return arrays


def _training_model(
    model: Path, loss: str | None, optimizer: str | None, learning_rate: float | None
) -> ModelProto | Path:
    """The model if it has training information, else one that is made of the options."""
    chosen = loss is not None or optimizer is not None or learning_rate is not None
    if read_model(model).outline.training_info:
        if chosen:
            raise click.UsageError(
                "--loss, --optimizer and --learning-rate are for models without training information"
            )
        return model
    if loss is None:
        raise click.UsageError(f"{model.name} has no training information; --loss and --optimizer make it")
    return onnxc.make_training(model, loss, optimizer or "sgd", learning_rate=learning_rate)


def _epochs(trainer: Trainer, arrays: Arrays, epochs: int, batch: int, seed: int) -> Iterator[dict[str, float]]:
    """For each epoch the means of the outputs of its steps that are numbers."""
    samples = next(len(array) for array in arrays.values() if array.ndim)
    size, random = min(batch, samples), np.random.default_rng(seed)
    for _ in range(epochs):
        order, sums = random.permutation(samples), dict[str, float]()
        starts = range(0, samples - size + 1, size)
        for start in starts:
            chosen = order[start : start + size]
            outputs = trainer.step({name: array[chosen] if array.ndim else array for name, array in arrays.items()})
            for name, value in outputs.items():
                if isinstance(value, np.ndarray) and value.ndim == 0:
                    sums[name] = sums.get(name, 0) + float(value) / len(starts)
        yield sums
