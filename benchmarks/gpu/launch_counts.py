"""How many kernels a call of a model launches, and what of it runs on the host: from the plan, no GPU is needed.

    python -m benchmarks.gpu.launch_counts --models DIR [--models DIR] [--only NAME,...] [--precision P] [--out FILE]

A folder is one of exported models with its manifest, or any other of ONNX files. "of a layer": from one attention to
the next. "moves alone": launches that compute nothing. A loop that the host drives counts as one round.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.gpu.emitted import emitted
from benchmarks.inputs import read_manifest
from onnxc.compiler.options import ModelSource, make_options
from onnxc.runtime.program import JsonValue
from tests.support.fake_gpu import fake_kernels

__all__ = ["LINES", "LaunchCounts", "Line", "counts_of", "table_of"]

MOVEMENTS = {"transpose", "reshape", "slice", "broadcast"}


@dataclass(frozen=True)
class Line:
    """The most launches of a call, or from one attention to the next; transfers: the most copies in a call."""

    most: int | None = None
    of_a_layer: int | None = None
    transfers: int | None = None


LINES: Mapping[str, Line] = {
    "bert_base": Line(of_a_layer=8),
    "gpt2_decode": Line(of_a_layer=9),
    "llama_small_decode": Line(of_a_layer=9),
    "swin_tiny": Line(most=110),
    "unet_small": Line(most=130),
    "diffusion_unet": Line(most=130),
    "resnet50_int8": Line(most=62),
    "lstm": Line(most=12, transfers=0),
    "boxes_of_20_classes": Line(transfers=0),
}
"""What the table holds models to."""


@dataclass(frozen=True)
class LaunchCounts:
    """A row of the table; of_a_layer: 0 where there are no two attentions."""

    model: str
    launches: int
    of_a_layer: int
    moves_alone: int
    transfers: int
    host_steps: int

    @property
    def is_met(self) -> bool | None:
        """Whether the line of the model is met; None where it has none."""
        line = LINES.get(self.model)
        if line is None:
            return None
        pairs = (
            (self.launches, line.most),
            (self.of_a_layer, line.of_a_layer),
            (self.transfers, line.transfers),
        )
        return all(most is None or count <= most for count, most in pairs)


def counts_of(name: str, source: ModelSource, precision: str = "bf16") -> LaunchCounts:
    """The row of a model, planned for an H100 or H200."""
    report = emitted(source, make_options("cuda:sm_90", precision=precision, cache=False), fake_kernels).report
    assert isinstance(report, Mapping)
    launches, totals = report["launches"], report["totals"]
    attentions = [ordinal for ordinal, launch in enumerate(launches) if launch["kind"] == "attention"]
    return LaunchCounts(
        name,
        totals["launches"],
        max((later - earlier for earlier, later in pairwise(attentions)), default=0),
        sum(_only_moves(launch) for launch in launches),
        totals["transfers"],
        totals["host_steps"],
    )


def _only_moves(launch: Mapping[str, JsonValue]) -> bool:
    return set(str(launch["ops"]).split(", ")) <= MOVEMENTS


def models_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """The models of a folder, by its manifest where it has one."""
    if (folder / "manifest.json").exists():
        yield from ((spec.name, spec.path) for spec in read_manifest(folder))
    else:
        yield from ((path.stem, path) for path in sorted(folder.glob("*.onnx")))


def table_of(rows: Sequence[LaunchCounts]) -> str:
    """The rows as a table of Markdown."""
    head = ["model", "launches", "of a layer", "line", "moves alone", "transfers", "host steps"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        counts = [row.launches, row.of_a_layer or "", _line_text(row), row.moves_alone, row.transfers, row.host_steps]
        lines.append([row.model, *map(str, counts)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _line_text(row: LaunchCounts) -> str:
    """What a model is held to, and that it is above where it is."""
    line = LINES.get(row.model)
    if line is None:
        return ""
    limits = ((line.most, "{}"), (line.of_a_layer, "{} of a layer"), (line.transfers, "{} transfers"))
    text = ", ".join(form.format(most) for most, form in limits if most is not None)
    return text if row.is_met else f"{text}: **above**"


def main() -> int:
    """Prints the table, and writes it where asked to; 1 where a model is above its line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.launch_counts", description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, action="append", required=True, metavar="DIR", help="may be repeated")
    parser.add_argument("--only", type=lambda text: tuple(text.split(",")), default=(), metavar="NAME,...")
    parser.add_argument("--precision", default="bf16", help="(default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the table is written here too")
    options = parser.parse_args()
    rows = []
    for name, path in (model for folder in options.models for model in models_in(folder)):
        if not options.only or name in options.only:
            rows.append(counts_of(name, str(path), options.precision))
            print(table_of(rows[-1:]).splitlines()[-1], flush=True)
    if options.out is not None:
        options.out.write_text(table_of(rows))
    return 1 if any(row.is_met is False for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
