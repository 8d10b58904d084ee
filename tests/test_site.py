"""The site: every page is in its navigation, and a page that loads something of a network is noticed."""

import re
from pathlib import Path

import pytest

from tests.site import loads_of, loads_of_site

ROOT = Path(__file__).parents[1]


def test_the_navigation_has_every_page_once() -> None:
    listed = re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_the_reference_has_every_public_name() -> None:
    named = set(re.findall(r"^::: [\w.]+\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE))
    public = re.search(r"__all__ = \[(.*?)\]", (ROOT / "onnxc" / "__init__.py").read_text(), re.DOTALL)
    assert public is not None
    assert set(re.findall(r'"(\w+)"', public[1])) <= named


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        ('<script src="https://a.b/x.js"></script>', ["https://a.b/x.js"]),
        ('<link rel="stylesheet" href="//fonts.example/css">', ["//fonts.example/css"]),
        ("<style>@import 'https://a.b/x.css'; p { background: url(http://a.b/i.png) }</style>", 2),
        ('<a href="https://onnx.ai">ONNX</a><link rel="canonical" href="https://a.b/"><img src="x.png">', []),
    ],
)
def test_what_a_page_loads(text: str, loads: list[str] | int) -> None:
    found = loads_of(text)
    assert (found if isinstance(loads, list) else len(found)) == loads


def test_a_page_of_a_site_is_named(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "index.html").write_text('<img src="http://a.b/i.png">')
    assert [*loads_of_site(tmp_path)] == ["p/index.html loads http://a.b/i.png"]
