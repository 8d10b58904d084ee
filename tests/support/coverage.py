"""What works today, as the table of the README and as docs/coverage.md: operators, versions, types, the official score.

`python -m tests.support.coverage` writes both, from the registry, the list of known gaps, and what
`python -m tests.support.type_support` found out about types.
"""

import json
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from onnxc.compiler.frontend.schemas import Schema, all_schemas, onnxruntime_schemas
from tests.operators_not_yet import listed, lowered

README = Path(__file__).parents[2] / "README.md"
PAGE = README.parent / "docs" / "coverage.md"
KNOWN_GAPS = Path(__file__).parents[1] / "conformance" / "known_gaps.txt"
TYPE_SUPPORT = Path(__file__).with_name("type_support.json")
OFFICIAL_CASES = 2033
START, END = "<!-- coverage: ", "<!-- end of coverage -->"

HOW = {
    "native": "native",
    "native and host": "native and host",
    "host": "host",
    "known": "known when compiled",
    "none": "refused",
}
"""The words of the data, and those of the page, in the order of its columns."""

HEAD = """\
# What is covered

Written by `python -m tests.support.coverage`; the types are what `python -m tests.support.type_support` found by
planning small models of one node for the CPU, with the operands, attributes and sizes of our differential tests.

{table}

For each operator version, the types of its first type parameter, by where the work is done:

* **native**: in generated code.
* **native and host**: what the generated code cannot do is a step of NumPy between native calls.
* **host**: in such steps alone: strings, sequences, and results whose size only data decides.
* **known when compiled**: nothing is left to do at run time, as for a Shape, or for a cast that changes nothing.
* **refused**: an error that says why, such as for what the standard has deprecated.
"""


ONNX_RUNTIME = """\
## com.microsoft

Of the operators that ONNX Runtime's optimiser and quantiser write, these are compiled:

{names}.

A model with others is refused with the list of all of them, each with what to do instead.
"""


def type_support() -> Mapping[str, Mapping[str, list[str]]]:
    """For each operator version, the types of its first type parameter that run in each way."""
    found: Mapping[str, Mapping[str, list[str]]] = json.loads(TYPE_SUPPORT.read_text())
    return found


def coverage_table() -> str:
    """The table of the README, without a final line break."""
    covered, total = Counter[str](), Counter[str]()
    done = lowered()
    for schema in all_schemas():
        domain = schema.domain or "ai.onnx"
        total[domain] += 1
        covered[domain] += schema.identity in done
    gaps = sum(1 for line in KNOWN_GAPS.read_text().splitlines() if line.strip() and not line.startswith("#"))
    rows = [f"| operator versions of {domain} | {covered[domain]} of {total[domain]} |" for domain in sorted(total)]
    cases = f"| official ONNX backend tests, compiled for the CPU | {OFFICIAL_CASES - gaps} of {OFFICIAL_CASES} |"
    beside = [schema.identity in done for schema in onnxruntime_schemas()]
    own = f"| operators that ONNX Runtime adds | {sum(beside)} of {len(beside)} |"
    return "\n".join(["| what | covered |", "|---|---:|", *rows, own, cases])


def coverage_page() -> str:
    """docs/coverage.md."""
    support = type_support()
    pairs = {how: sum(len(ways.get(how, ())) for ways in support.values()) for how in HOW}
    counts = [f"| types of operator versions: {words} | {pairs[how]} |" for how, words in HOW.items() if pairs[how]]
    parts = [HEAD.format(table="\n".join([coverage_table(), *counts]))]
    domains = sorted({schema.domain for schema in all_schemas()})
    parts += [f"## {domain or 'ai.onnx'}\n\n" + "\n".join(operator_rows(domain, support)) + "\n" for domain in domains]
    return "\n".join([*parts, onnxruntime_section()])


def onnxruntime_section() -> str:
    """The operators beside the standard's that lower, by name."""
    done = lowered()
    names = [schema.name for schema in onnxruntime_schemas() if schema.identity in done]
    text = textwrap.fill(", ".join(sorted(set(names))), 118)
    return ONNX_RUNTIME.format(names=text)


def operator_rows(domain: str, support: Mapping[str, Mapping[str, list[str]]]) -> Iterator[str]:
    """A table of the operator versions of a domain."""
    yield f"| operator | {' | '.join(HOW.values())} |"
    yield f"|---|{'---|' * len(HOW)}"
    reasons = listed()
    for schema in all_schemas():
        if schema.domain == domain:
            yield f"| {schema.name}-{schema.since_version} | {' | '.join(cells(schema, support, reasons))} |"


def cells(schema: Schema, support: Mapping[str, Mapping[str, list[str]]], reasons: Mapping[str, str]) -> list[str]:
    """The types of each column; where nothing was tried, why."""
    ways = support.get(schema.identity)
    if ways is None:
        return [*[""] * (len(HOW) - 1), reasons.get(schema.identity, "not tried by itself")]
    return [", ".join(kind or "yes" for kind in ways.get(how, ())) for how in HOW]


def with_table(readme: str) -> str:
    """`readme` with the table between its marks."""
    head, rest = readme.split(START, 1)
    mark, rest = rest.split("\n", 1)
    tail = rest.split(END, 1)[1]
    return f"{head}{START}{mark}\n{coverage_table()}\n{END}{tail}"


if __name__ == "__main__":
    README.write_text(with_table(README.read_text()))
    PAGE.write_text(coverage_page())
