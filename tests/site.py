"""What the pages of a built site would load from a network: nothing.

python -m tests.site FOLDER
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

# The attributes whose address a browser asks for without a click; a link or a form waits for one.
LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src", "object": "data"}
STYLES = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") == "canonical":
            return
        self.addresses.append(given.get(LOADED.get(tag, "")) or "")


def loads_of(text: str) -> list[str]:
    """The addresses of other hosts that a page or a style sheet loads."""
    page = _Page()
    page.feed(text)
    return [*(a for a in page.addresses if re.match(r"(https?:)?//", a)), *STYLES.findall(text)]


def loads_of_site(folder: Path) -> Iterator[str]:
    """A line for each page that loads something of another host."""
    for path in sorted([*folder.rglob("*.html"), *folder.rglob("*.css")]):
        for address in loads_of(path.read_text("utf8")):
            yield f"{path.relative_to(folder)} loads {address}"


def main(folder: Path) -> None:
    """Prints what pages load, and fails where there is any, or no page."""
    wrong = [*loads_of_site(folder)] or ([] if (folder / "index.html").exists() else [f"{folder} has no index.html"])
    print(*wrong or [f"{folder}: nothing is loaded from a network"], sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
