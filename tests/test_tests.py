"""Every test says what must hold: it asserts, expects an error, or calls a function of the tests that does.

Functions are known by name: `check(...)` of a test file is looked up there, then in what the file imports from tests.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
FILES = tuple(sorted(ROOT.rglob("test_*.py")))

# Calls that fail where something does not hold, wherever they are defined; `raises` and `warns` are pytest's.
CLAIMS = ("assert_", "check", "expect", "verify", "raises", "warns")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def functions(path: Path) -> Mapping[str, Function]:
    """The functions of a file by name; of methods, the name alone."""
    return {node.name: node for node in ast.walk(tree(path)) if isinstance(node, Function)}


@cache
def imported(path: Path) -> Mapping[str, Path]:
    """The files of the tests from which a file imports names."""
    return {
        alias.asname or alias.name: ROOT.parent / f"{node.module.replace('.', '/')}.py"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("tests.")
        for alias in node.names
    }


@cache
def asserts(path: Path, name: str) -> bool:
    """Whether a function of a file, or one that it calls, asserts something."""
    return _asserts(path, name, frozenset())


def _asserts(path: Path, name: str, seen: frozenset[tuple[Path, str]]) -> bool:
    function = functions(path).get(name)
    if function is None or (path, name) in seen:
        return False
    if any(isinstance(node, ast.Assert) for node in ast.walk(function)):
        return True
    called = set(calls(function))
    if any(other.lstrip("_").startswith(CLAIMS) for other in called):
        return True
    below = seen | {(path, name)}
    homes = ((imported(path).get(other, path), other) for other in sorted(called))
    return any(home.exists() and _asserts(home, other, below) for home, other in homes)


def calls(function: Function) -> Iterator[str]:
    """The names of what is called, without what it is called on."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield node.func.id if isinstance(node.func, ast.Name) else node.func.attr


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_test_of_a_file_asserts_something(path: Path) -> None:
    names = [name for name in functions(path) if name.startswith("test_")]
    assert [name for name in names if not asserts(path, name)] == []


def test_a_test_without_an_assertion_is_told_from_one_with(tmp_path: Path) -> None:
    path = tmp_path / "test_x.py"
    path.write_text(
        "def helper(): deeper()\n"
        "def deeper(): assert False\n"
        "def idle(): idle()\n"
        "def test_plain(): assert 1\n"
        "def test_through_helpers(): helper()\n"
        "def test_of_an_object(): native.check(1)\n"
        "def test_of_an_error():\n with pytest.raises(ValueError): f()\n"
        "def test_of_nothing(): print(idle())\n"
    )
    assert [name for name in functions(path) if name.startswith("test_") and not asserts(path, name)] == [
        "test_of_nothing"
    ]
