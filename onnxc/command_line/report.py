"""`onnxc report`: how a model was compiled, as tables where the report.py of a code generator says so, else as text."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
from rich.console import RenderableType

from onnxc.command_line.option_files import PLAIN_FILE
from onnxc.command_line.shared import print_parts, reporting_errors
from onnxc.command_line.texts.tables import facts_table, json_text, table
from onnxc.runtime.load import read_artifact
from onnxc.runtime.program import JsonValue

__all__ = ["report_command", "report_parts"]

_UNITS = ("", "k", "M", "G", "T", "P")


@click.command("report")
@click.argument("file", type=PLAIN_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON value.")
@reporting_errors
def report_command(file: Path, *, as_json: bool) -> None:
    """Say how a model was compiled.

    FILE is an .onnxc file. Of code for a GPU, its launches with what the cost model expects of them, its kernels, and
    every copy between host and device inside of a call are printed.
    """
    report = read_artifact(file).report
    if as_json:
        click.echo(json.dumps(report, indent=1, ensure_ascii=False))
    else:
        print_parts(report_parts(report))


def report_parts(report: JsonValue) -> Iterator[RenderableType]:
    """Totals, launches, host steps, and of code for a GPU transfers and kernels; else the report as it is."""
    if not isinstance(report, Mapping) or not isinstance(report.get("totals"), Mapping):
        yield json_text(report)
        return
    yield from _totals(report)
    yield ""
    yield from _launches(_entries(report, "launches"))
    if "transfers" in report:
        yield ""
        yield from _transfers(_entries(report, "transfers"))
    yield from _host_steps(_entries(report, "host_steps"))
    if "devices" in report:
        yield ""
        yield from _devices(_mapping(report["devices"]))
    if "kernels" in report:
        yield ""
        yield from _kernels(_entries(report, "kernels"))


def _totals(report: Mapping[str, JsonValue]) -> Iterator[RenderableType]:
    totals, sizes = _mapping(report["totals"]), _mapping(report["typical_sizes"])
    at = f" at {', '.join(f'{name} = {size}' for name, size in sizes.items())}" if sizes else ""
    card = "card" if "card" in report else "machine"
    facts = {
        card: f"{report[card]}; calibrated on {report['calibrated_on']}",
        f"estimate{at}": f"{_amount(totals['seconds'])}s",
        "launches": f"{totals['launches']}, of {totals['kernels']} kernels",
        "operations": f"{_amount(totals['flops'])}FLOP",
        "memory": f"{_amount(totals['bytes'])}B moved, an arena of {_size(totals['arena_bytes'])} bytes",
    }
    if "transfers" in totals:
        facts["transfers in a call"] = f"{totals['transfers']}, {_amount(totals['transferred_bytes'])}B"
    if "growing" in report:
        facts["sizes that grow"] = _growing(_mapping(report["growing"]))
    yield facts_table({**facts, "steps on the host": str(totals["host_steps"])})


def _growing(growing: Mapping[str, JsonValue]) -> str:
    """Whether one graph serves all calls of a decoder, for which sizes, or why not."""
    if not growing["one_graph"]:
        return f"each call launches kernel by kernel: {growing['reason']}"
    limits = ", ".join(f"{name} up to {limit}" for name, limit in _mapping(growing["symbols"]).items())
    return f"{limits}, in one graph"


def _devices(devices: Mapping[str, JsonValue]) -> Iterator[RenderableType]:
    """How a divided program is divided, and what its devices exchange; `--json` has the sharding of each value."""
    held, whole = devices["share_bytes"], devices["whole_bytes"]
    shares = [_size(each) for each in held] if isinstance(held, list | tuple) else []
    yield facts_table(
        {
            "configuration": str(devices["configuration"]),
            "devices": f"{len(shares)}, as a mesh of {devices['mesh'] or 'one'}",
            "weights": f"{', '.join(shares)} bytes on one device each, {_size(whole)} bytes on all",
        }
    )
    exchanges = _entries(devices, "collectives")
    if exchanges:
        yield ""
        made = table("exchange", "groups", "bytes of each device", "node")
        for each in exchanges:
            made.add_row(*(str(each[name]) for name in ("op", "groups", "bytes", "node")))
        yield made


def _launches(launches: Sequence[Mapping[str, JsonValue]]) -> Iterator[RenderableType]:
    is_measured = any("measured" in launch for launch in launches)
    columns = ("", "kernel", "algorithm", "ops", "read", "written", "FLOP", "us", "bound", "node")
    made = table(*columns, *(("measured us",) if is_measured else ()))
    for ordinal, launch in enumerate(launches):
        read, written = (f"{_amount(_typical(launch[name]))}B" for name in ("read_bytes", "written_bytes"))
        made.add_row(
            f"{ordinal}{' (loop)' if launch['in_loop'] else ''}", str(launch["kind"]), str(launch["algorithm"]),
            str(launch["ops"]), read, written,
            _amount(launch["typical_flops"]), _microseconds(launch["seconds"]), str(launch["bound"]),
            str(launch["node"]),
            *((_microseconds(_mapping(launch.get("measured")).get("seconds")),) if is_measured else ()),
        )  # fmt: skip
    yield made
    steps = [step for launch in launches for step in _entries(launch, "steps")]
    explained = (step for step in steps if step.get("why") or step.get("when"))
    reasons = Counter((str(step.get("when", "")), str(step.get("why", ""))) for step in explained)
    if reasons:
        yield ""
        chosen = table("launches", "where", "what decided")
        for (when, why), count in reasons.items():
            chosen.add_row(str(count), when, why)
        yield chosen


def _transfers(transfers: Sequence[Mapping[str, JsonValue]]) -> Iterator[RenderableType]:
    if not transfers:
        yield "no transfer between host and device inside of a call"
        return
    made = table("transfer", "value", "bytes", "because")
    for transfer in transfers:
        notes = ["" if transfer["is_certain"] else "perhaps", "each iteration" if transfer["in_loop"] else ""]
        note = ", ".join(filter(None, notes))
        direction = f"{transfer['direction']}{f' ({note})' if note else ''}"
        made.add_row(direction, str(transfer["value"]), _size(transfer["bytes"]), str(transfer["reason"]))
    yield made


def _host_steps(steps: Sequence[Mapping[str, JsonValue]]) -> Iterator[RenderableType]:
    if not steps:
        return
    yield ""
    made = table("on the host", "because", "node")
    for step in steps:
        made.add_row(str(step["op"]), str(step["reason"]), str(step["node"]))
    yield made


def _kernels(kernels: Sequence[Mapping[str, JsonValue]]) -> Iterator[RenderableType]:
    made = table("kernel", "warps", "registers", "stack bytes", "shared bytes", "blocks per SM", "cubin bytes")
    names = ("key", "warps", "registers", "stack_bytes", "shared_bytes", "blocks_per_sm", "cubin_bytes")
    for kernel in kernels:
        made.add_row(*(str(kernel[name]) for name in names))
    yield made


def _entries(report: Mapping[str, JsonValue], name: str) -> list[Mapping[str, JsonValue]]:
    entries = report.get(name)
    return [_mapping(entry) for entry in entries] if isinstance(entries, list | tuple) else []


def _mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, Mapping) else {}


def _typical(value: JsonValue) -> JsonValue:
    return value["typical"] if isinstance(value, Mapping) else value


def _size(value: JsonValue) -> str:
    return f"{value['size']} ({_amount(value['typical'])})" if isinstance(value, Mapping) else f"{value:,}"


def _microseconds(value: JsonValue) -> str:
    return f"{value * 1e6:.1f}" if isinstance(value, int | float) else ""


def _amount(value: JsonValue) -> str:
    """A number with a prefix: 12.3 M; seconds below one in thousandths or millionths."""
    if not isinstance(value, int | float):
        return str(value)
    scaled, unit = float(value), 0
    if 0 < scaled < 1:
        return f"{scaled * 1e3:.3g} m" if scaled >= 1e-3 else f"{scaled * 1e6:.3g} u"
    while scaled >= 1000 and unit + 1 < len(_UNITS):
        scaled, unit = scaled / 1000, unit + 1
    return f"{scaled:.3g} {_UNITS[unit]}"
