"""What `precision` prints: the errors of outputs and layers in a lower precision, as tables or as JSON."""

import json
from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from onnxc.command_line.tables import number, table
from onnxc.compiler.precision_errors import LayerError, OutputError


def precision_parts(
    precision: str, samples: int, outputs: Sequence[OutputError], layers: Sequence[LayerError]
) -> Iterator[RenderableType]:
    """A table of the outputs, and one of the layers if there are any."""
    yield f"{precision} against fp32, {samples} {'sample' if samples == 1 else 'samples'}"
    made = table("output", "largest", "max error", "relative", "RMS error", "relative", "NaN", "inf", "changed")
    for output in outputs:
        errors = (output.largest, output.max_absolute, output.max_relative, output.rms, output.relative_rms)
        counts = (output.nan, output.infinite)
        changed = f"{output.changed} of {output.elements}"
        made.add_row(output.name, *(f"{error:.3g}" for error in errors), *map(number, counts), changed)
    yield made
    if layers:
        yield ""
        steps = table("node", "operator", "computed by", "growth", "relative RMS error")
        for layer in layers:
            place = layer.location
            name = place.name or f"{place.graph}[{place.index}]"
            steps.add_row(name, place.operator, layer.operator, f"{layer.growth:.3g}", f"{layer.relative_rms:.3g}")
        yield steps


def precision_json(precision: str, samples: int, outputs: Sequence[OutputError], layers: Sequence[LayerError]) -> str:
    """The same as one JSON object; the names of its fields do not change."""
    found = {
        "precision": precision,
        "samples": samples,
        "outputs": [output.to_json() for output in outputs],
        "layers": [layer.to_json() for layer in layers],
    }
    return json.dumps(found, indent=2, ensure_ascii=False)
