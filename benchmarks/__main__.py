"""Times each model of a folder with onnxc and with ONNX Runtime, in turns, and compares the outputs beside each figure.

    python -m benchmarks --dir DIR [--models NAME,...] [--threads 1,2] [--sizes one,prime,large] [--rounds N]
    python -m benchmarks --dir DIR --compile
    python -m benchmarks --suite control

DIR holds models and a manifest.json, as benchmarks.models.export_models writes them; default: $ONNXC_MODELS.
"""

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.inputs import ModelSpec, read_manifest
from benchmarks.isolation import Row, run_isolated
from benchmarks.models.control import write_models

LIMIT_S = 900.0
# heading, key, width and precision; text where there is no precision.
Column = tuple[str, str, int, int | None]
CALLS: tuple[Column, ...] = (
    ("model", "model", 28, None),
    ("size", "size", 7, None),
    ("threads", "threads", 8, 0),
    ("onnxc ms", "onnxc_ms", 11, 4),
    ("±", "onnxc_spread", 6, 2),
    ("ORT ms", "ort_ms", 11, 4),
    ("±", "ort_spread", 6, 2),
    ("ratio", "ratio", 7, 2),
    ("max |Δ|/|y|", "difference", 13, 8),
    ("compile s", "compile_s", 10, 2),
)
COMPILES: tuple[Column, ...] = (
    ("model", "model", 28, None),
    ("MB", "model_mb", 9, 2),
    ("compile s", "compile_s", 10, 2),
    ("peak / MB", "peak_ratio", 10, 2),
    ("artifact MB", "artifact_mb", 12, 2),
    ("load ms", "load_ms", 9, 2),
)


def main() -> None:
    options = parse_options()
    if options.suite == "control":
        with tempfile.TemporaryDirectory() as folder:
            write_models(Path(folder))
            measure(Path(folder), options)
    else:
        measure(options.dir, options)


def measure(folder: Path, options: argparse.Namespace) -> None:
    """Measures the models of a folder, and prints a line for each."""
    models = chosen_models(folder, options.models)
    columns = COMPILES if options.compile else CALLS
    print(
        "".join(
            f"{heading:>{width}}" if at else f"{heading:{width}}" for at, (heading, _, width, _) in enumerate(columns)
        )
    )
    rows: list[Row] = []
    for model in models:
        for row in measure_compile(model) if options.compile else measure_calls(model, options):
            rows.append(row)
            print(as_line(row, columns), flush=True)
    if not options.compile:
        print(summary(rows))
    if options.json:
        machine = {"machine": platform.machine(), "processor": processor_name(), "cpus": len(os.sched_getaffinity(0))}
        options.json.write_text(json.dumps({**machine, "rows": rows}, indent=1) + "\n")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, default=os.environ.get("ONNXC_MODELS"), help="default: $ONNXC_MODELS")
    parser.add_argument(
        "--models", type=words, default=(), metavar="NAME,...", help="default: every model of the folder"
    )
    parser.add_argument("--threads", type=words, default=("1", "2"), metavar="N,...", help="default: 1,2")
    parser.add_argument(
        "--sizes", type=words, default=("one", "prime", "large"), metavar="SIZE,...", help="names of sizes"
    )
    parser.add_argument(
        "--rounds", type=int, default=15, metavar="N", help="timed rounds of each (default: %(default)s)"
    )
    parser.add_argument("--compile", action="store_true", help="measure compiling and loading instead of calls")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows and the machine")
    parser.add_argument(
        "--suite", choices=["control"], help="models written for it: loops, branches, sizes from data, trees"
    )
    options = parser.parse_args()
    if options.suite is None:
        if options.dir is None:
            parser.error("name a folder of models: --dir DIR, or ONNXC_MODELS=DIR; or --suite control")
        options.dir = Path(options.dir).resolve()
    return options


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def chosen_models(folder: Path, names: Sequence[str]) -> tuple[ModelSpec, ...]:
    """The models asked for; a name stands for its exports by either exporter unless it names one."""
    models = read_manifest(folder)
    unknown = [name for name in names if name not in {model.name for model in models}]
    if unknown:
        raise SystemExit(
            f"not in {folder}: {', '.join(unknown)}; there are {', '.join(model.name for model in models)}"
        )
    return tuple(model for model in models if not names or model.name in names)


def measure_calls(model: ModelSpec, options: argparse.Namespace) -> list[Row]:
    rows: list[Row] = []
    available = sorted(os.sched_getaffinity(0))
    for threads in map(int, options.threads):
        sizes = ",".join(size for size in options.sizes if size in model.sizes)
        asked = {"folder": str(model.path.parent), "model": model.name, "sizes": sizes, "threads": threads}
        cpus = available[:threads]
        measured = run_isolated("benchmarks.measure_calls", {**asked, "rounds": options.rounds}, cpus, LIMIT_S)
        rows += [{"model": model.name, "threads": threads, **with_ratio(row)} for row in measured]
    return rows


def measure_compile(model: ModelSpec) -> list[Row]:
    cpus = sorted(os.sched_getaffinity(0))
    asked = {"folder": str(model.path.parent), "model": model.name}
    return [{"model": model.name, **row} for row in run_isolated("benchmarks.measure_compile", asked, cpus, LIMIT_S)]


def with_ratio(row: Row) -> Row:
    ours, theirs = row.get("onnxc_ms"), row.get("ort_ms")
    return {**row, "ratio": ours / theirs} if isinstance(ours, float) and isinstance(theirs, float) else row


def as_line(row: Row, columns: Sequence[Column]) -> str:
    if "error" in row:
        threads = f"{row['threads']} threads: " if "threads" in row else ""
        return f"{row['model']!s:{columns[0][2]}}{threads}{row['error']}"
    return "".join(cell(row, column, at) for at, column in enumerate(columns))


def cell(row: Mapping[str, object], column: Column, at: int) -> str:
    _, key, width, precision = column
    value = row[key]
    text = f"{value:.{precision}f}" if precision is not None and isinstance(value, (int, float)) else str(value)
    return f"{text:>{width}}" if at else f"{text:{width}}"


def summary(rows: Sequence[Row]) -> str:
    ratios = [row["ratio"] for row in rows if isinstance(row.get("ratio"), float)]
    wrong = [
        str(row["model"]) for row in rows if isinstance(row.get("difference"), float) and not row["difference"] <= 1e-4
    ]
    failed = [str(row["model"]) for row in rows if "error" in row]
    if not ratios:
        return "nothing was measured"
    product = 1.0
    for ratio in ratios:
        product *= ratio
    mean = product ** (1 / len(ratios))
    notes = [f"{len(ratios)} figures, ratio to ONNX Runtime: geometric mean {mean:.2f}, worst {max(ratios):.2f}"]
    notes += [f"outputs differ by more than 1e-4: {', '.join(dict.fromkeys(wrong))}"] if wrong else []
    notes += [f"failed: {', '.join(dict.fromkeys(failed))}"] if failed else []
    return "\n".join(notes)


def processor_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


if __name__ == "__main__":
    main()
