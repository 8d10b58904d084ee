"""No name in the sources has one of the words that docs/vocabulary.md says stand for nothing.

Names are those of functions, classes, parameters, variables, fields, keywords and modules. Texts and comments are free.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("compiler", "runtime", "onnxc", "benchmarks")
WORDS = re.compile(r"(?:^|_)(?:places?|placed|numbers?|numbered|found|told|around)(?:_|$)")

# Names that have one of the words in a meaning that the vocabulary leaves it, or that others gave.
ALLOWED: Mapping[str, str] = {
    "place": "the verb: of an op, to give it its group",
    "place_buffers": "the verb: to give buffers their offsets",
    "place_parameters": "the verb: to give parameters their buffers",
    "in_place": "the term for writing a result over an operand",
    "is_in_place": "the same",
    "complex_numbers": "the mathematical term",
    "Number": "any integer or float: a type",
    "_is_number": "any integer or float, as opposed to other objects",
    "numbers_in": "integers and floats, as opposed to texts",
    "numbers_as_texts": "the same",
    "numbers_from_strings": "the same",
    "strings_from_numbers": "the same",
    "_is_of_numbers": "the same",
    "_is_tensor_of_numbers": "the same",
    "draws_numbers": "random numbers",
    "NUMBER": "of JSON and of ONNX's text form: a token of an integer or a float",
    "_NUMBER": "the same",
    "_NUMBERS": "the same",
    "_number": "the same",
    "_number_texts": "the same",
    "fields_by_number": "a name of protobuf",
    "FileNotFoundError": "a name of Python",
    "ModuleNotFoundError": "a name of Python",
    "PackageNotFoundError": "a name of Python",
    "NotFound": "a name of ONNX Runtime",
    "NOT_FOUND": "a name of gRPC",
}
ALLOWED_IN: Mapping[tuple[str, str], str] = {
    ("compiler/frontend/wire.py", "number"): "protobuf's term for what tells the fields of a message apart",
    ("compiler/frontend/text_forms/json_form.py", "number"): "the same",
    ("onnxc/command_line/doctor.py", "found"): "a key of the report in JSON, which other programs read",
    ("runtime/host/attributes.py", "number"): "a name of NumPy",
    ("benchmarks/models/tables.py", "numbers"): "an input of an exported model, whose name its file has",
}


def names_in(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each name in a syntax tree with its line."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, line
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name, line
            case ast.keyword(arg=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name, line
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield name, line
            case ast.alias(name=name, asname=alias):
                yield from ((part, line) for part in name.split("."))
                yield from ((alias, line),) if alias else ()


def has_word(name: str) -> bool:
    """Whether one of the words is a part of a name, in any case."""
    return WORDS.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()) is not None


def sources() -> Iterator[Path]:
    seen = set()
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.resolve() not in seen and not path.name.endswith("_pb2.py"):
                seen.add(path.resolve())
                yield path


def test_no_name_has_a_word_that_stands_for_nothing() -> None:
    used, wrong = set[object](), []
    for path in sources():
        text = str(path.relative_to(ROOT))
        for name, line in ((path.stem, 1), *names_in(ast.parse(path.read_text()))):
            if has_word(name):
                key = (text, name) if (text, name) in ALLOWED_IN else name
                used.add(key)
                wrong += [] if key in ALLOWED or key in ALLOWED_IN else [f"{text}:{line}: {name}"]
    assert not wrong, "docs/vocabulary.md has words for these:\n" + "\n".join(wrong)
    unused = {*ALLOWED, *ALLOWED_IN} - used
    assert not unused, f"allowed, but used nowhere: {unused}"


@pytest.mark.parametrize(
    "name",
    ["place", "_places", "tilePlace", "PLACE_BITS", "found_symbols", "FoundType", "number_of", "is_told"],
)
def test_a_word_is_found_in_any_part_and_case(name: str) -> None:
    assert has_word(name)


@pytest.mark.parametrize("name", ["replace", "placeholder", "placement", "foundation", "ordinal", "isnumeric"])
def test_a_word_within_a_word_is_another_one(name: str) -> None:
    assert not has_word(name)


def test_names_of_all_kinds_are_seen() -> None:
    tree = ast.parse(
        "import a.b as c\n"
        "def d(e, *f, **g):\n"
        "    try: h = i.j(k=lambda l: l)\n"
        "    except E as m: pass\n"
        "    match h:\n"
        "        case [n, *o]: return f'{p}'\n"
        "class q: r: int\n"
    )
    assert {name for name, _ in names_in(tree)} >= set("abcdefghijklmnopqr")
