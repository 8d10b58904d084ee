"""`onnxc check`: every finding about a model."""

import json
from collections.abc import Mapping
from pathlib import Path

import click

import onnxc
from onnxc.command_line.shared import ALLOW_LINKS, LIMIT, MODEL, OPERATORS, OPSET, reporting_errors
from onnxc.compiler.frontend.custom.operators import CustomOperator

__all__ = ["check_command"]


@click.command("check")
@MODEL
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list with an object for each finding.")
@LIMIT
@OPSET
@OPERATORS
@ALLOW_LINKS
@reporting_errors
def check_command(
    model: Path,
    limits: Mapping[str, int],
    opset: int | None,
    operators: tuple[CustomOperator, ...],
    *,
    as_json: bool,
    allow_links: bool,
) -> None:
    """Print every finding about MODEL.

    The exit code is 1 if one of them is an error.
    """
    findings = onnxc.check(model, limits, operators, allow_links, opset)
    if as_json:
        click.echo(json.dumps([finding.to_json() for finding in findings], indent=2, ensure_ascii=False))
    else:
        for finding in findings:
            click.echo(str(finding))
    errors = sum(finding.severity == "error" for finding in findings)
    click.echo(f"{model.name}: {errors} errors, {len(findings) - errors} warnings", err=True)
    if errors:
        raise SystemExit(1)
