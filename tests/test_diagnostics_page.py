"""The page of diagnostic codes: complete, not stale, and every code of it is shown by a test."""

import ast
from pathlib import Path

from onnxc.compiler.diagnostic_codes import CODES, SECTIONS
from tests.diagnostics_page import CODE, DERIVED, PAGE, TABLED, page, sources

TESTS = Path(__file__).parent
ABOUT_CODES = ("diagnostics_page.py", "test_diagnostics_page.py")


def codes_in_tests() -> frozenset[str]:
    """The codes that tests name."""
    found: set[str] = set()
    for path in TESTS.rglob("*.py"):
        if path.name in ABOUT_CODES:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.update(match.group() for match in CODE.finditer(node.value))
    for path in (TESTS / "operators" / "invalid").glob("*.txt"):
        found.update(line.split(" ", 1)[0] for line in path.read_text().splitlines())
    return frozenset(found)


def test_the_page_is_not_stale() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.diagnostics_page`"


def test_every_code_of_the_sources_is_on_the_page() -> None:
    text = PAGE.read_text()
    assert [code for code in sources() if f"| `{code}` |" not in text] == []


def test_every_code_of_models_and_calls_has_a_meaning_in_the_table() -> None:
    ours = {
        code
        for code, source in sources().items()
        if any(file.startswith(TABLED) and not file.startswith(DERIVED) for file in source.files)
    }
    assert sorted(ours - CODES.keys()) == []


def test_every_code_of_the_table_is_in_the_sources() -> None:
    assert sorted(CODES.keys() - sources().keys()) == []


def test_every_code_of_the_table_is_shown_by_a_test() -> None:
    assert sorted(CODES.keys() - codes_in_tests()) == []


def test_no_code_is_in_two_sections() -> None:
    assert sum(map(len, SECTIONS.values())) == len(CODES)


def test_meanings_are_sentences_without_an_end() -> None:
    wrong = [code for code, (meaning, rule) in CODES.items() if not meaning or not rule or meaning.endswith(".")]
    assert wrong == []
