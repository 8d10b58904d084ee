"""`onnxc simulate`: what a call of a divided model should cost on many devices, as tables, as JSON, or as a page."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from rich.console import RenderableType

import onnxc
from onnxc.command_line.option_values import Range
from onnxc.command_line.progress import progress
from onnxc.command_line.shared import (
    AS_JSON,
    DIM,
    MODEL,
    PRECISION,
    print_parts,
    reporting_errors,
    write_page,
)
from onnxc.command_line.texts.tables import bytes_text, facts_table, seconds_text, table
from onnxc.compiler.simulation.simulation import DeviceClass, ExchangeTotal, Simulation
from onnxc.runtime.errors import InputError

__all__ = ["simulate_command", "simulation_parts"]


@click.command("simulate")
@MODEL
@click.option("--network", required=True, metavar="FILE|alpha=S,beta=S", help="Seconds of a message, and of a byte.")
@click.option("--config", metavar="NAME", help="The configuration of the model; not needed where it has one only.")
@click.option("--tp", type=int, default=1, help="As for `onnxc shard`, in place of a configuration of the model.")
@click.option("--pp", type=int, default=1, help="The same.")
@click.option("--dp", type=int, default=1, help="The same.")
@click.option("--devices", type=int, help="How many there must be in the configuration.")
@click.option("--microbatches", type=int, help="In how many parts a call goes through pipeline stages.")
@click.option("--target", default="cpu", show_default=True, help='What each device is: "cpu", "cuda:sm_90", ...')
@DIM
@PRECISION
@AS_JSON
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with a timeline by devices."
)
@reporting_errors
def simulate_command(
    model: Path,
    network: str,
    config: str | None,
    tp: int,
    pp: int,
    dp: int,
    devices: int | None,
    microbatches: int | None,
    target: str,
    dims: Mapping[str, Range],
    precision: str,
    html: Path | None,
    *,
    as_json: bool,
) -> None:
    """Say what a call of MODEL should cost on the devices of a configuration.

    Time, communication, and the memory of each device, by the plan that they would run: nothing is computed or
    compiled, and floats in files beside MODEL are not read, so that these need not be there.
    """
    with progress(f"simulating {model.name}"):
        simulation = onnxc.simulate(
            *(model, network, _sizes(dims), target, config, tp, pp, dp, devices, microbatches, precision)
        )
    if html is not None:
        write_page(html, simulation.html())
    if as_json:
        click.echo(json.dumps(simulation.to_json(), indent=1, ensure_ascii=False))
        return
    print_parts(simulation_parts(simulation))
    if html is not None:
        click.echo(f"{html}: {bytes_text(html.stat().st_size)}")


def _sizes(dims: Mapping[str, Range]) -> dict[str, int]:
    ranges = [name for name, size in dims.items() if not isinstance(size, int)]
    if ranges:
        raise InputError(f"a simulation is of one size of {', '.join(ranges)}, not of a range", code="simulated-sizes")
    return {name: size for name, size in dims.items() if isinstance(size, int)}


def simulation_parts(simulation: Simulation) -> Iterator[RenderableType]:
    """What a call takes, then devices, then exchanges from those that take longest on."""
    yield facts_table(_facts(simulation))
    yield ""
    classes = table(
        "devices", "stages", "computing", "exchanging", "both", "sent", "weights", "inputs", "working", "memory"
    )
    for each in simulation.classes:
        classes.add_row(*_class_cells(each))
    yield classes
    yield ""
    exchanges = table("exchange", "stage", "devices", "algorithm", "in a call", "brought", "sent", "each")
    for exchange in sorted(simulation.exchanges, key=lambda each: -each.seconds * each.count):
        exchanges.add_row(*_exchange_cells(exchange))
    yield exchanges


def _facts(simulation: Simulation) -> dict[str, str]:
    sizes = ", ".join(f"{name} = {size}" for name, size in simulation.sizes.items())
    shares = ", ".join(f"{share:.1%} {name}" for name, share in simulation.shares.items())
    return {
        "model": simulation.model + (f" at {sizes}" if sizes else ""),
        "devices": f"{simulation.devices} of {simulation.target}, configuration {simulation.configuration}",
        "network": simulation.network,
        "a call": f"{seconds_text(simulation.seconds)} in {simulation.parts} parts: {shares}",
        "sent": f"{bytes_text(simulation.sent_bytes)} by all devices",
        "memory": f"{bytes_text(simulation.peak_bytes)} of the device that needs most",
    }


def _class_cells(each: DeviceClass) -> tuple[str, ...]:
    first, last, memory = each.devices[0], each.devices[-1], each.memory
    is_run = last - first + 1 == len(each.devices)
    devices = f"{first}..{last}" if is_run else f"{len(each.devices)} from {first} on"
    times = (each.computing_seconds, each.exchanging_seconds, each.overlapped_seconds)
    sizes = (each.sent_bytes, memory.weights, memory.inputs, memory.working, memory.total)
    return devices, ", ".join(map(str, each.stages)), *map(seconds_text, times), *map(bytes_text, sizes)


def _exchange_cells(each: ExchangeTotal) -> tuple[str, ...]:
    counts = (str(each.stage), str(each.devices), each.algorithm, str(each.count))
    return each.op, *counts, bytes_text(each.nbytes), bytes_text(each.sent_bytes), seconds_text(each.seconds)
