"""The table of the README that says what works today, made from the registry and from the list of known gaps.

`python -m tests.support.coverage` writes it.
"""

from collections import Counter
from pathlib import Path

from compiler.frontend.schemas import all_schemas
from tests.operators_not_yet import lowered

README = Path(__file__).parents[2] / "README.md"
KNOWN_GAPS = Path(__file__).parents[1] / "conformance" / "known_gaps.txt"
OFFICIAL_CASES = 2033
START, END = "<!-- coverage: ", "<!-- end of coverage -->"


def coverage_table() -> str:
    """The table, without a final line break."""
    covered, total = Counter[str](), Counter[str]()
    done = lowered()
    for schema in all_schemas():
        domain = schema.domain or "ai.onnx"
        total[domain] += 1
        covered[domain] += schema.identity in done
    gaps = sum(1 for line in KNOWN_GAPS.read_text().splitlines() if line.strip() and not line.startswith("#"))
    rows = [f"| operator versions of {domain} | {covered[domain]} of {total[domain]} |" for domain in sorted(total)]
    cases = f"| official ONNX backend tests, compiled for the CPU | {OFFICIAL_CASES - gaps} of {OFFICIAL_CASES} |"
    return "\n".join(["| what | covered |", "|---|---:|", *rows, cases])


def with_table(readme: str) -> str:
    """`readme` with the table between its marks."""
    head, rest = readme.split(START, 1)
    mark, rest = rest.split("\n", 1)
    tail = rest.split(END, 1)[1]
    return f"{head}{START}{mark}\n{coverage_table()}\n{END}{tail}"


if __name__ == "__main__":
    README.write_text(with_table(README.read_text()))
