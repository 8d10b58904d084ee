"""Boxes and the values between them as a drawing: positions, edges and scopes, in a compact form for a page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from onnxc.runtime.pages.layout import BOX_HEIGHT, ROW_HEIGHT, Layout, layered
from onnxc.runtime.program import JsonValue
from onnxc.runtime.records import record

__all__ = ["Box", "drawing"]

NARROWEST, WIDEST, CHARACTER_WIDTH, MARGIN = 70, 240, 7, 20

# A scope of fewer boxes says no more than their names; more scopes than this are exporters that name every node.
FEWEST_IN_A_SCOPE, MOST_SCOPES, DEEPEST_SCOPE = 3, 2000, 8


@record
class Box:
    """An input, an output, a value from around the graph, or a node, with the values that it reads and makes.

    captures: what the graphs within it read from around them.
    """

    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    details: Mapping[str, JsonValue] = field(default_factory=dict)
    scope: tuple[str, ...] = ()
    captures: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What stands in the box: the operator of a node, else the name."""
        return str(self.details.get("operator", self.name))


def drawing(boxes: Sequence[Box]) -> dict[str, JsonValue]:
    """The boxes with their positions, the edges with their routes, and the scopes with what they span.

    A box is [kind, name, inputs, outputs, details, x, y, width], an edge [source, target, value, x0, y0, x1, y1, ...],
    a scope [name, left, top, right, bottom, boxes].
    """
    widths = [_width(box) for box in boxes]
    edges = list(_edges(boxes))
    layout = layered(widths, [(source, target) for source, target, _ in edges])
    drawn: list[JsonValue] = [
        [box.kind, box.name, box.inputs, box.outputs, box.details, *at, width]
        for box, at, width in zip(boxes, layout.boxes, widths, strict=True)
    ]
    routes: list[JsonValue] = [
        [*edge, *(coordinate for point in route for coordinate in point)]
        for edge, route in zip(edges, layout.routes, strict=True)
    ]
    return {
        "boxes": drawn,
        "edges": routes,
        "scopes": _scopes(boxes, widths, layout),
        "box_height": BOX_HEIGHT,
        "row_height": ROW_HEIGHT,
    }


def _width(box: Box) -> int:
    longest = max(len(box.title), len(box.name))
    return max(NARROWEST, min(WIDEST, longest * CHARACTER_WIDTH + MARGIN))


def _edges(boxes: Sequence[Box]) -> Iterator[tuple[int, int, str]]:
    """Who makes and who reads a value, once for each pair; of a name that is made twice, by the last before."""
    makers: dict[str, int] = {}
    later = {name: box for box, each in reversed([*enumerate(boxes)]) for name in each.outputs}
    for target, box in enumerate(boxes):
        for name in dict.fromkeys((*box.inputs, *box.captures)):
            source = makers.get(name, later.get(name))
            if name and source is not None:
                yield source, target, name
        makers.update((name, target) for name in box.outputs)


def _scopes(boxes: Sequence[Box], widths: Sequence[float], layout: Layout) -> list[JsonValue]:
    spans: dict[tuple[str, ...], tuple[float, float, float, float, int]] = {}
    for box, (x, y), width in zip(boxes, layout.boxes, widths, strict=True):
        for depth in range(1, min(len(box.scope), DEEPEST_SCOPE) + 1):
            left, top, right, bottom, count = spans.get(box.scope[:depth], (x, y, x, y, 0))
            edges = min(left, x - width / 2), min(top, y), max(right, x + width / 2), max(bottom, y + BOX_HEIGHT)
            spans[box.scope[:depth]] = (*edges, count + 1)
    large = [(scope, span) for scope, span in spans.items() if span[-1] >= FEWEST_IN_A_SCOPE]
    large.sort(key=lambda each: -each[1][-1])
    return [["/".join(scope), *span] for scope, span in large[:MOST_SCOPES]]
