"""Exports real architectures with seeded random weights through both torch exporters, with a manifest of their inputs.

    python -m benchmarks.models.export_models --out DIR [--zoo] [NAME ...]

Needs torch, transformers and onnxscript (extra `bench`); downloads nothing. NAME.onnx is written by the dynamo
exporter, NAME.legacy.onnx by the TorchScript one.
"""

import argparse
import contextlib
import io
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.models import text, vision, zoo

EXPORTERS = {"dynamo": ".onnx", "legacy": ".legacy.onnx"}
IMAGE_SIZES = {"one": {"batch": 1}, "prime": {"batch": 3}, "large": {"batch": 8}}
ROW_SIZES = {"one": {"batch": 1}, "prime": {"batch": 7}, "large": {"batch": 256}}
TEXT_SIZES = {
    "one": {"batch": 1, "sequence": 1},
    "prime": {"batch": 3, "sequence": 13},
    "large": {"batch": 4, "sequence": 128},
}
DECODE_SIZES = {
    "one": {"batch": 1, "sequence": 1, "past": 1},
    "prime": {"batch": 3, "sequence": 1, "past": 13},
    "large": {"batch": 1, "sequence": 1, "past": 256},
}


@dataclass(frozen=True)
class Input:
    """One input: its sizes (a number, a symbol, or a sum of symbols), and the seeded draw its elements come from.

    fill is "normal", "image" (normal, each channel of each row with a scale and an offset of its own, so that outputs
    behind a global average still differ), "integers" (below `high`), or "mask" (ones, then zeros).
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    fill: str = "normal"
    high: int = 0


@dataclass(frozen=True)
class Row:
    """A model: how to build it, its inputs and outputs, and the sizes to try it at."""

    build: Callable[[], nn.Module]
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    sizes: dict[str, dict[str, int]]
    caches: int = 0
    cache_shape: tuple[int | str, ...] = ()
    exporters: tuple[str, ...] = ("dynamo", "legacy")
    legacy_opset: int = 17
    example: dict[str, int] = field(
        default_factory=lambda: {"batch": 2, "sequence": 5, "past": 7, "source": 11, "height": 32, "width": 48}
    )

    def all_inputs(self) -> tuple[Input, ...]:
        names = [f"past_key_values.{i // 2}.{'value' if i % 2 else 'key'}" for i in range(self.caches)]
        return self.inputs + tuple(Input(name, "float32", self.cache_shape) for name in names)

    def all_outputs(self) -> tuple[str, ...]:
        return self.outputs + tuple(f"present.{i // 2}.{'value' if i % 2 else 'key'}" for i in range(self.caches))


def image(name: str, *sizes: int | str) -> Input:
    return Input(name, "float32", ("batch", *sizes), "image" if len(sizes) > 1 else "normal")


def ids(name: str, high: int) -> Input:
    return Input(name, "int64", ("batch", "sequence"), "integers", high)


MASK = Input("attention_mask", "int64", ("batch", "sequence"), "mask")
PAST_MASK = Input("attention_mask", "int64", ("batch", "past + sequence"), "mask")
BERT_INPUTS = (ids("input_ids", 30522), MASK, ids("token_type_ids", 2))
BERT_OUTPUTS = ("last_hidden_state", "pooler_output")
PIXELS = (image("pixel_values", 3, 224, 224),)
PICTURE = (image("x", 3, 224, 224),)

MODELS: dict[str, Row] = {
    "mlp_tiny": Row(vision.mlp_tiny, (image("x", 64),), ("logits",), ROW_SIZES),
    "mnist_cnn": Row(
        vision.mnist_cnn, (image("x", 1, 28, 28),), ("log_probabilities",), {**ROW_SIZES, "large": {"batch": 64}}
    ),
    "resnet50": Row(vision.resnet50, PICTURE, ("logits",), IMAGE_SIZES),
    "mobilenet_v2": Row(vision.mobilenet_v2, PICTURE, ("logits",), IMAGE_SIZES),
    "bert_tiny": Row(
        lambda: text.bert(2, 128, 2),
        BERT_INPUTS,
        BERT_OUTPUTS,
        {**TEXT_SIZES, "large": {"batch": 16, "sequence": 128}},
        legacy_opset=14,
    ),
    "bert_base": Row(lambda: text.bert(12, 768, 12), BERT_INPUTS, BERT_OUTPUTS, TEXT_SIZES),
    "gpt2_decode": Row(
        text.gpt2_decode, (ids("input_ids", 50257), PAST_MASK), ("logits",), DECODE_SIZES, 24, ("batch", 12, "past", 64)
    ),
    "distilbert": Row(
        text.distilbert, (ids("input_ids", 30522), MASK), ("last_hidden_state",), TEXT_SIZES, legacy_opset=14
    ),
    "t5_small_encoder": Row(text.t5_small_encoder, (ids("input_ids", 32128), MASK), ("last_hidden_state",), TEXT_SIZES),
    "vit_base": Row(text.vit_base, PIXELS, ("logits",), IMAGE_SIZES),
    "swin_tiny": Row(text.swin_tiny, PIXELS, ("logits",), IMAGE_SIZES),
    "convnext_tiny": Row(text.convnext_tiny, PIXELS, ("logits",), IMAGE_SIZES),
    "efficientnet_b0": Row(vision.efficientnet_b0, PICTURE, ("logits",), IMAGE_SIZES),
    "unet_small": Row(
        vision.UNet,
        (image("x", 3, "height", "width"),),
        ("y",),
        {
            "one": {"batch": 1, "height": 8, "width": 8},
            "prime": {"batch": 3, "height": 56, "width": 104},
            "large": {"batch": 1, "height": 256, "width": 256},
        },
    ),
    "llama_small_decode": Row(
        text.llama_small_decode,
        (ids("input_ids", 32000), PAST_MASK),
        ("logits",),
        DECODE_SIZES,
        16,
        ("batch", 4, "past", 64),
    ),
    "whisper_tiny_encoder": Row(
        text.whisper_tiny_encoder,
        (image("input_features", 80, 3000),),
        ("last_hidden_state",),
        {"one": {"batch": 1}, "prime": {"batch": 3}, "large": {"batch": 4}},
    ),
}

ZOO_TEXT = {
    "one": {"batch": 1, "sequence": 1},
    "prime": {"batch": 3, "sequence": 13},
    "large": {"batch": 2, "sequence": 61},
}
ZOO_STATES = {name: {**sizes, "source": 1 + 2 * sizes["sequence"]} for name, sizes in ZOO_TEXT.items()}
STATES = Input("encoder_states", "float32", ("batch", "source", 48))
SOURCE_MASK = Input("attention_mask", "int64", ("batch", "source"), "mask")
LOGITS, HIDDEN = ("logits",), ("last_hidden_state",)
ZOO: dict[str, Row] = {
    **{
        name: Row(build, (ids("input_ids", 211), MASK), HIDDEN, ZOO_TEXT, legacy_opset=zoo.legacy_opset(name))
        for name, build in zoo.TEXT_ENCODERS.items()
    },
    **{
        name: Row(build, (image("x", 3, 64, 64),), ("y",), IMAGE_SIZES, legacy_opset=zoo.legacy_opset(name))
        for name, build in zoo.IMAGE_ENCODERS.items()
    },
    **{
        name: Row(build, (ids("input_ids", 211), PAST_MASK), LOGITS, DECODE_SIZES, 4, ("batch", heads, "past", 12))
        for name, build in zoo.DECODERS.items()
        for heads in (zoo.cache_heads(name),)
    },
    "t5_decoder": Row(zoo.t5_decoder, (ids("input_ids", 211), STATES, SOURCE_MASK), LOGITS, ZOO_STATES),
    "whisper_decoder": Row(zoo.whisper_decoder, (ids("input_ids", 211), STATES), HIDDEN, ZOO_STATES),
}


def size_of(size: int | str, values: dict[str, int]) -> int:
    """The number behind a size of the manifest: a number, a symbol, or symbols joined by +."""
    return size if isinstance(size, int) else sum(values[part.strip()] for part in size.split("+"))


def example(spec: Input, values: dict[str, int]) -> Tensor:
    shape = tuple(size_of(size, values) for size in spec.shape)
    if spec.fill == "integers":
        return torch.randint(0, spec.high, shape)
    return torch.ones(shape, dtype=torch.int64) if spec.fill == "mask" else torch.randn(shape)


def build(row: Row) -> nn.Module:
    """The model in evaluation mode, its weights drawn from one seed, normalisations off their defaults."""
    torch.manual_seed(0)
    model = row.build().eval()
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            # The default draw shrinks a signal so much that deep outputs would hardly depend on the input.
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        elif isinstance(module, nn.LayerNorm) and module.elementwise_affine:
            nn.init.uniform_(module.weight, 0.7, 1.3)
            if module.bias is not None:
                nn.init.normal_(module.bias, std=0.1)
    return model


def call_arguments(row: Row, values: dict[str, int]) -> tuple[object, ...]:
    tensors = tuple(example(spec, values) for spec in row.all_inputs())
    return (*tensors[:2], list(tensors[2:])) if row.caches else tensors


def dynamic_axes(row: Row) -> tuple[dict[int, str], ...]:
    return tuple(
        {axis: str(size).replace(" + ", "_") for axis, size in enumerate(spec.shape) if isinstance(size, str)}
        for spec in row.all_inputs()
    )


def export_dynamo(row: Row, path: Path) -> None:
    axes = dynamic_axes(row)
    variadic = isinstance(row_model := build(row), text.Fields)
    shapes = (*axes[:2], list(axes[2:])) if row.caches else (axes,) if variadic else axes
    torch.onnx.export(
        row_model,
        call_arguments(row, row.example),
        path,
        dynamo=True,
        dynamic_shapes=shapes,
        input_names=[spec.name for spec in row.all_inputs()],
        output_names=list(row.all_outputs()),
        external_data=False,
        verbose=False,
    )


def export_legacy(row: Row, path: Path) -> None:
    named = dict(zip((spec.name for spec in row.all_inputs()), dynamic_axes(row), strict=True))
    outputs = {name: {0: "batch"} for name in row.all_outputs()}
    torch.onnx.export(
        build(row),
        call_arguments(row, row.example),
        path,
        dynamo=False,
        dynamic_axes=named | outputs,
        input_names=list(named),
        output_names=list(row.all_outputs()),
        opset_version=row.legacy_opset,
    )


EXPORT = {"dynamo": export_dynamo, "legacy": export_legacy}


def manifest_entry(name: str, row: Row) -> dict[str, object]:
    inputs = [
        {"name": i.name, "dtype": i.dtype, "shape": list(i.shape), "fill": i.fill, "high": i.high}
        for i in row.all_inputs()
    ]
    files = {exporter: name + EXPORTERS[exporter] for exporter in row.exporters}
    return {"files": files, "inputs": inputs, "outputs": list(row.all_outputs()), "sizes": row.sizes}


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


def export(name: str, row: Row, exporter: str, folder: Path) -> str:
    """What became of one export, in a line."""
    path = folder / (name + EXPORTERS[exporter])
    started = time.perf_counter()
    try:
        with quietly(), torch.no_grad():
            EXPORT[exporter](row, path)
    except Exception as reason:
        path.unlink(missing_ok=True)
        return f"failed: {type(reason).__name__}: {str(reason)[:2000]}"
    return f"{path.stat().st_size / 1e6:.2f} MB in {math.ceil(time.perf_counter() - started)} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write to")
    parser.add_argument("--zoo", action="store_true", help="many small architectures instead of the full-sized ones")
    parser.add_argument("--exporter", choices=EXPORTERS, action="append", help="default: both")
    options = parser.parse_args()
    models = ZOO if options.zoo else MODELS
    options.out.mkdir(parents=True, exist_ok=True)
    manifest = options.out / "manifest.json"
    manifest.write_text(json.dumps({name: manifest_entry(name, row) for name, row in models.items()}, indent=1) + "\n")
    for name in options.names or models:
        for exporter in options.exporter or models[name].exporters:
            print(f"{name:22} {exporter:7} {export(name, models[name], exporter, options.out)}", flush=True)


if __name__ == "__main__":
    main()
