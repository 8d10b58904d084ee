"""Exports real architectures with seeded random weights through both torch exporters, with a manifest of their inputs.

    python -m benchmarks.models.export_models --out DIR [--set main|wide|zoo] [NAME ...]

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

from benchmarks.models import pictures, sounds, tables, text, vision, zoo

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
        default_factory=lambda: (
            {"batch": 2, "sequence": 5, "past": 7, "source": 11, "height": 32, "width": 48}
            | {"time": 40, "nodes": 50, "edges": 70}
        )
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

# Kinds of models that MODELS lacks: the width of the originals, fewer layers where many are alike.
FRAME_SIZES = {"one": {"batch": 1, "time": 64}, "prime": {"batch": 3, "time": 37}, "large": {"batch": 4, "time": 256}}
WORDS = (ids("input_ids", 8192), MASK)
WIDE: dict[str, Row] = {
    "yolov8n": Row(pictures.Yolo, (image("x", 3, 320, 320),), ("y",), IMAGE_SIZES),
    "deeplab": Row(pictures.DeepLab, (image("x", 3, 256, 256),), ("y",), IMAGE_SIZES),
    "style_transfer": Row(pictures.StyleTransfer, (image("x", 3, 256, 256),), ("y",), IMAGE_SIZES),
    "densenet121": Row(pictures.densenet121, PICTURE, LOGITS, IMAGE_SIZES),
    "shufflenet_v2": Row(pictures.shufflenet_v2, PICTURE, LOGITS, IMAGE_SIZES),
    "squeezenet": Row(pictures.squeezenet, PICTURE, LOGITS, IMAGE_SIZES),
    "mobilenet_v3": Row(pictures.mobilenet_v3, PICTURE, LOGITS, IMAGE_SIZES),
    "inception": Row(pictures.inception, (image("x", 3, 299, 299),), LOGITS, IMAGE_SIZES),
    "super_resolution": Row(pictures.super_resolution, (image("x", 1, 160, 240),), ("y",), IMAGE_SIZES),
    "gan_generator": Row(pictures.gan_generator, (image("z", 100, 1, 1),), ("y",), IMAGE_SIZES),
    "diffusion_unet": Row(
        pictures.DiffusionUNet,
        (image("latent", 4, 32, 32), image("time"), image("words", 77, 768)),
        ("noise",),
        IMAGE_SIZES,
    ),
    "vae_decoder": Row(pictures.VaeDecoder, (image("latent", 4, 32, 32),), ("y",), IMAGE_SIZES),
    "volume_unet": Row(pictures.VolumeUNet, (image("x", 1, 32, 48, 48),), ("y",), IMAGE_SIZES),
    "ocr": Row(pictures.Ocr, (image("x", 1, 32, 160),), ("y",), IMAGE_SIZES),
    "mixer": Row(pictures.Mixer, PICTURE, LOGITS, IMAGE_SIZES),
    "segformer_b0": Row(zoo.segformer_b0, PICTURE, LOGITS, IMAGE_SIZES),
    "mobilevit_s": Row(zoo.mobilevit_s, (image("x", 3, 256, 256),), HIDDEN, IMAGE_SIZES),
    "clip_text": Row(zoo.clip_text, WORDS, ("text_embeds",), TEXT_SIZES),
    "clip_image": Row(zoo.clip_image, PICTURE, ("image_embeds",), IMAGE_SIZES),
    "deberta_v3": Row(zoo.deberta_v3, WORDS, HIDDEN, TEXT_SIZES),
    "mixtral_prefill": Row(zoo.mixtral_prefill, WORDS, LOGITS, TEXT_SIZES),
    "qwen2_decode": Row(
        zoo.qwen2_decode, (ids("input_ids", 8192), PAST_MASK), LOGITS, DECODE_SIZES, 16, ("batch", 2, "past", 64)
    ),
    "wav2vec2": Row(zoo.wav2vec2, (image("x", 16000),), HIDDEN, IMAGE_SIZES),
    "conformer": Row(sounds.Conformer, (image("x", "time", 80),), ("y",), FRAME_SIZES),
    "vocoder": Row(sounds.vocoder, (image("x", 80, "time"),), ("y",), FRAME_SIZES),
    "tcn": Row(sounds.temporal_convolutions, (image("x", 8, "time"),), ("y",), FRAME_SIZES),
    "denoiser": Row(sounds.Denoiser, (image("x", 1, 8192),), ("y",), IMAGE_SIZES),
    "voice_detector": Row(
        sounds.VoiceDetector,
        (image("chunk", 512), Input("state", "float32", (2, "batch", 64))),
        ("p", "next"),
        ROW_SIZES,
    ),
    "forecaster": Row(sounds.Forecaster, (image("x", "time", 16),), ("y",), FRAME_SIZES),
    "n_beats": Row(sounds.Residuals, (image("x", 96),), ("y",), ROW_SIZES),
    "dlrm": Row(
        tables.Recommender,
        (image("numbers", 13), Input("categories", "int64", ("batch", 26), "integers", 20_000)),
        ("p",),
        ROW_SIZES,
    ),
    "deepfm": Row(
        tables.FactorMachine, (Input("categories", "int64", ("batch", 24), "integers", 100_000),), ("p",), ROW_SIZES
    ),
    "graph_net": Row(
        tables.GraphNet,
        (Input("nodes", "float32", ("nodes", 64)), Input("edges", "int64", (2, "edges"), "integers", 50)),
        ("y",),
        {
            "one": {"nodes": 50, "edges": 100},
            "prime": {"nodes": 503, "edges": 2003},
            "large": {"nodes": 5000, "edges": 20000},
        },
    ),
    "pointnet": Row(
        tables.PointNet,
        (image("points", 3, "time"),),
        ("y",),
        {"one": {"batch": 1, "time": 1024}, "prime": {"batch": 3, "time": 509}, "large": {"batch": 8, "time": 2048}},
    ),
    "radiance": Row(tables.Radiance, (image("points", 3),), ("y",), {**ROW_SIZES, "large": {"batch": 4096}}),
}
SETS = {"main": MODELS, "wide": WIDE, "zoo": ZOO}


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
    parser.add_argument("--set", choices=SETS, default="main", help="wide: many kinds; zoo: many small architectures")
    parser.add_argument("--exporter", choices=EXPORTERS, action="append", help="default: both")
    options = parser.parse_args()
    models = SETS[options.set]
    options.out.mkdir(parents=True, exist_ok=True)
    manifest = options.out / "manifest.json"
    manifest.write_text(json.dumps({name: manifest_entry(name, row) for name, row in models.items()}, indent=1) + "\n")
    for name in options.names or models:
        for exporter in options.exporter or models[name].exporters:
            print(f"{name:22} {exporter:7} {export(name, models[name], exporter, options.out)}", flush=True)


if __name__ == "__main__":
    main()
