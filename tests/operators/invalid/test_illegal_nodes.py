"""Illegal models of one node, a file of them for each family of operators.

A line is the code of the finding, the opset of the node's domain, and a graph in ONNX text form.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest
from onnx import ModelProto, parser

from onnxc.compiler.diagnostics import DiagnosedModelError
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.input_options import InputOptions
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model

ML = "ai.onnx.ml"
PREVIEWS = '"ai.onnx.preview" : 1, "ai.onnx.preview.training" : 1'
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """One line of a file."""

    code: str
    opset: int
    graph: str
    place: str

    def model(self) -> ModelProto:
        """The model, which imports the opset for the domain that the node is of."""
        opset, ml = (21, self.opset) if f"{ML}." in self.graph else (self.opset, 1)
        imports = f'"" : {opset}, "{ML}" : {ml}, {PREVIEWS}'
        return parser.parse_model(f"<ir_version: 10, opset_import: [{imports}]>\nillegal {self.graph}")


def read_cases(path: Path) -> list[Case]:
    """The cases of a file; lines that start with # tell what they are about."""
    cases = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if line and not line.startswith("#"):
            code, opset, graph = line.split(" ", 2)
            cases.append(Case(code, int(opset), graph, f"{path.stem}:{number}:{code}"))
    return cases


CASES = [case for path in sorted(FOLDER.glob("*.txt")) for case in read_cases(path)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.place)
def test_an_illegal_node_is_rejected_by_the_rule_that_it_breaks(case: Case) -> None:
    with pytest.raises(DiagnosedModelError) as caught:
        lower_model(check_model(read_model(case.model())), InputOptions(strict=True))
    finding = caught.value.diagnostics[0]
    assert finding.code == case.code, str(finding)
    assert finding.location is not None
    assert finding.location.operator, finding
    assert finding.rule.startswith(("ONNX", "TensorProto")), finding
    assert finding.message


def test_no_graph_is_there_twice() -> None:
    graphs = [(case.opset, case.graph) for case in CASES]
    assert len(set(graphs)) == len(graphs)
