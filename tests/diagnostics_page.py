"""The page of all diagnostic codes, docs/diagnostics.md, made from the sources and the table of meanings.

`python -m tests.diagnostics_page` writes it anew. A code is any text of the sources in the form of one, a-b-c, so none
can be raised that the page has not; for those without a row in the table the message in the sources is their meaning.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from onnxc.compiler.diagnostic_codes import CODES, SECTIONS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "diagnostics.md"
PACKAGES = ("compiler", "runtime", "onnxc")
CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+|cycle")

# Texts of that form that are no codes: names of processors and targets, kinds of GPU calls, a range of letters,
# scenarios of load, threads.
OTHER_FILES = ("compiler/target.py", "compiler/codegen_host/machine.py", "compiler/diagnostic_codes.py")
OTHER_TEXTS = frozenset(("a-z", "multi-stream", "onnxc-call", "single-stream"))

# Every code of these must have a row in the table.
TABLED = (
    "compiler/frontend/",
    "compiler/limits.py",
    "compiler/inspect_model.py",
    "runtime/signature.py",
    "runtime/arrays.py",
)
DERIVED = (
    "compiler/frontend/operators/",
    "compiler/frontend/operator_helpers/",
    "compiler/frontend/operand_types.py",
)

INTRODUCTION = """\
# Diagnostics

Every finding has a severity, a code that never changes its meaning, a message with the two things that disagree, the
place, the values, and the rule. `onnxc check model.onnx` prints all of them at once, `--json` as a list of objects:

```json
[{"severity": "error", "code": "undefined-name", "message": "\\"t\\" is used and never defined",
  "location": {"graph": "main", "index": 0, "name": "activate", "operator": "ai.onnx.Relu"},
  "values": [], "rule": "ONNX IR, names within a graph"}]
```

`location` is null where the model as a whole is meant; `index` is null where it is a graph. The exit status is 1 where
there is an error. This page is written by `python -m tests.diagnostics_page`.
"""


@dataclass(frozen=True)
class Source:
    """Where a code stands in the sources, and the first message that goes with it."""

    files: tuple[str, ...]
    message: str


@cache
def sources() -> Mapping[str, Source]:
    """Every code of the sources, sorted."""
    files: dict[str, dict[str, None]] = {}
    messages: dict[str, str] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name in OTHER_FILES:
                continue
            tree = ast.parse(path.read_text())
            for code in texts(tree):
                files.setdefault(code, {})[name] = None
            for code, message in told(tree):
                messages.setdefault(code, message)
    return {code: Source(tuple(files[code]), messages.get(code, "")) for code in sorted(files)}


def texts(tree: ast.AST) -> Iterator[str]:
    """The texts that have the form of a code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in OTHER_TEXTS:
            yield from [node.value] if CODE.fullmatch(node.value) else []


def told(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Codes with the message that the same call gives, directly or in a variable that is set before."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    for function in functions:
        variables: dict[str, str] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                variables[node.targets[0].id] = template(node.value, {})
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                given = [*node.args, *(keyword.value for keyword in node.keywords)]
                found = [template(argument, variables) for argument in given]
                for code in (text for text in found if CODE.fullmatch(text)):
                    yield from ((code, text) for text in found if " " in text)


def template(node: ast.expr, variables: Mapping[str, str]) -> str:
    """A text with an ellipsis for what is filled in; empty where it is none."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(template(part, {}) if isinstance(part, ast.Constant) else "…" for part in parts)
        case ast.Name(id=name):
            return variables.get(name, "")
    return ""


def page() -> str:
    """The page."""
    parts = [INTRODUCTION]
    for title, rows in SECTIONS.items():
        parts.append(table(title, [(code, meaning, rule) for code, (meaning, rule) in sorted(rows.items())]))
    rest = {code: source for code, source in sources().items() if code not in CODES}
    operators = {code: source for code, source in rest.items() if "compiler/frontend/" in source.files[0]}
    for title, found in (
        ("Operators: shapes, attributes, operands", operators),
        ("Code generators and devices", {code: source for code, source in rest.items() if code not in operators}),
    ):
        parts.append(table(title, [(code, source.message, places(source)) for code, source in found.items()]))
    count = len(CODES) + len(rest)
    return "\n".join([*parts, f"{count} codes.\n"])


def places(source: Source) -> str:
    """The modules, named shortly."""
    names = [Path(file).stem for file in source.files]
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


def table(title: str, rows: list[tuple[str, str, str]]) -> str:
    """A section with a row for each code."""
    lines = [f"| `{code}` | {cell(meaning)} | {cell(source)} |" for code, meaning, source in rows]
    return "\n".join([f"## {title}\n", "| code | meaning | rule or source |", "|---|---|---|", *lines, ""])


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    PAGE.write_text(page())
