"""The README and the documents are true: their tables are current and their Python runs."""

import re
from pathlib import Path

import pytest

from tests.support.coverage import README, with_table

ROOT = README.parent
DOCUMENTS = (README, *sorted((ROOT / "docs").glob("*.md")))


def test_the_table_of_what_works_is_current() -> None:
    text = README.read_text()
    assert with_table(text) == text, "run python -m tests.support.coverage"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_python_of_a_document_runs(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL)
    (tmp_path / "onnxc").symlink_to(ROOT / "onnxc")
    monkeypatch.chdir(tmp_path)
    expect_to_run(blocks, document)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_files_that_a_document_names_exist(document: Path) -> None:
    for name in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / name).exists(), f"{document.name} names {name}"
    for name in re.findall(r"`((?:compiler|runtime|onnxc|tests|docs|examples)/[\w/.]+)`", document.read_text()):
        assert (ROOT / name).exists(), f"{document.name} names {name}"


def expect_to_run(blocks: list[str], document: Path) -> None:
    """Runs the blocks one after another, as a reader would; what fails is raised."""
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(document), "exec"), names)
