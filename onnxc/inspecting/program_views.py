"""A program as views: the steps of its body and of the bodies in them, with the slots that go between."""

from collections.abc import Iterator, Mapping

from onnxc.inspecting.report_tables import Json
from onnxc.runtime.pages.drawing import Box, drawing
from onnxc.runtime.program import (
    BindLate,
    BindMost,
    BindSizes,
    Body,
    Guard,
    Host,
    If,
    JsonValue,
    Launch,
    Program,
    Step,
    While,
)
from onnxc.runtime.records import record

__all__ = ["program_views"]


def program_views(program: Program) -> list[Json]:
    """The views of a program, that of its body first."""
    bodies = list(_bodies(program.body, "main"))
    paths = {path: ordinal for ordinal, (path, _) in enumerate(bodies)}
    ends = dict(zip(program.body.parameters, program.inputs, strict=True))
    ends |= zip(program.body.results, program.outputs, strict=True)
    names = {slot: parameter.name for slot, parameter in ends.items()}
    views = [_view(path, body, paths, names if body is program.body else {}) for path, body in bodies]
    views[0]["values"] = {_slot(slot): {"type": parameter.text} for slot, parameter in ends.items()}
    return views


@record
class _Shown:
    """What a step does, what it reads and writes, and what else there is to say."""

    operator: str
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: dict[str, JsonValue]


def _shown(step: Step) -> _Shown | None:
    """How a step is shown; None where it does nothing but free slots."""
    match step:
        case Launch():
            said: dict[str, JsonValue] = {"arena": f"{step.arena_bytes} bytes", "buffers of the heap": step.buffers}
            types = [f"{spec.dtype}[{', '.join(spec.shape)}]" for spec in step.specs]
            return _Shown("launch", step.entry, step.inputs, step.outputs, {**said, "makes": "; ".join(types)})
        case Host():
            said = {name: str(value) for name, value in step.attributes.items()}
            return _Shown("host", step.function, step.inputs, step.outputs, {**said, "for": step.location})
        case BindSizes():
            symbols = ", ".join(f"s[{symbol}]" for symbol in step.symbols)
            return _Shown("bind sizes", symbols, (step.slot,), (), {})
        case BindMost():
            return _Shown("bind most", f"s[{step.symbol}]", (step.slot,), (), {"most": step.most, "room": step.room})
        case BindLate():
            symbols = ", ".join(f"s[{symbol}]" for symbol in step.symbols)
            shapes = "; ".join(f"[{', '.join(spec.shape)}]" for spec in step.specs)
            return _Shown("bind late", symbols, (*step.slots, *step.arrays), (), {"shapes": shapes})
        case Guard():
            said = {"left": step.left, "right": step.right, "else": step.message, "for": step.location}
            return _Shown("guard", step.relation, (), (), said)
        case If():
            return _Shown("if", "", (step.condition, *step.inputs), step.outputs, {})
        case While():
            read = (step.limit, step.condition, *step.carried, *step.captures)
            return _Shown("while", "", read, step.outputs, {"for": step.location})
    return None


def _inner(step: Step) -> dict[str, Body]:
    match step:
        case If():
            return {"then": step.then, "otherwise": step.otherwise}
        case While():
            return {"body": step.body}
    return {}


def _bodies(body: Body, path: str) -> Iterator[tuple[str, Body]]:
    yield path, body
    for index, step in enumerate(body.steps):
        for label, inner in _inner(step).items():
            yield from _bodies(inner, f"{path}/{index}.{label}")


def _view(path: str, body: Body, paths: dict[str, int], names: Mapping[int, str]) -> Json:
    boxes = [
        *(Box("input", names.get(slot, _slot(slot)), (), (_slot(slot),)) for slot in body.parameters),
        *(Box("outer", f"weights at {each.offset}", (), (_slot(each.slot),)) for each in body.constants),
        *(_box(index, step, path, paths) for index, step in enumerate(body.steps) if _shown(step) is not None),
        *(Box("output", names.get(slot, _slot(slot)), (_slot(slot),), ()) for slot in body.results),
    ]
    parent, _, _ = path.rpartition("/")
    return {"path": path, "parent": paths[parent] if parent else None, "values": {}, **drawing(boxes)}


def _box(index: int, step: Step, path: str, paths: dict[str, int]) -> Box:
    shown = _shown(step)
    assert shown is not None, step
    opens: Json = {label: paths[f"{path}/{index}.{label}"] for label in _inner(step)}
    details: Json = {"index": index, "operator": shown.operator, "attributes": shown.attributes, "opens": opens}
    return Box("node", shown.name, tuple(map(_slot, shown.inputs)), tuple(map(_slot, shown.outputs)), details)


def _slot(slot: int) -> str:
    return f"slot {slot}"
