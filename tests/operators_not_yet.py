"""The operator versions that do not lower yet, each with the reason; the list may only shrink.

`python -m tests.operators_not_yet` writes it anew, keeping the reasons that are there.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path

from onnxc.compiler.frontend import operators
from onnxc.compiler.frontend.advice import advice
from onnxc.compiler.frontend.operator import OPERATORS
from onnxc.compiler.frontend.schemas import all_schemas, onnxruntime_schemas

PATH = Path(__file__).with_name("operators_not_yet.txt")
HEADER = """\
# Operator versions that do not lower yet: name, reason. One that lowers fails the tests until its line is gone.
# Written by `python -m tests.operators_not_yet`.
"""


def listed(path: Path = PATH) -> Mapping[str, str]:
    """The reason of each listed version, such as ai.onnx.Gather-13."""
    lines = [line.split(maxsplit=1) for line in path.read_text().splitlines() if not line.startswith("#")]
    return dict(lines)


def known() -> tuple[str, ...]:
    """Every version of every operator in the schema tables, of the standard and of ONNX Runtime."""
    return tuple(schema.identity for schema in (*all_schemas(), *onnxruntime_schemas()))


def lowered() -> frozenset[str]:
    """Every version that has a lowering."""
    for module in pkgutil.walk_packages(operators.__path__, f"{operators.__name__}."):
        importlib.import_module(module.name)
    return frozenset(f"{domain or 'ai.onnx'}.{name}-{since}" for domain, name, since in OPERATORS)


def _default_reasons() -> Mapping[str, str]:
    standard = {
        schema.identity: "deprecated by the standard" if schema.deprecated else "not written yet"
        for schema in all_schemas()
    }
    return standard | {schema.identity: advice(schema.domain, schema.name) for schema in onnxruntime_schemas()}


def write(path: Path = PATH) -> None:
    kept = listed(path) if path.exists() else {}
    reasons = {**_default_reasons(), **kept}
    missing = sorted(set(known()) - lowered())
    path.write_text(HEADER + "".join(f"{name} {reasons[name]}\n" for name in missing))


if __name__ == "__main__":
    write()
