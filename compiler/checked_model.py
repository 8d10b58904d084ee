"""Models checked for those who compile them: what breaks a rule and leaves no doubt is repaired, with a warning."""

from onnxc.compiler.diagnostics import DiagnosedModelError, warning
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.frontend.parts.repair import REPAIRED, repaired
from onnxc.compiler.frontend.read import LoadedModel, rewritten
from onnxc.compiler.model_warnings import warn_of
from onnxc.compiler.options import CompileOptions

__all__ = ["checked_model"]


def checked_model(loaded: LoadedModel, options: CompileOptions) -> tuple[LoadedModel, CheckedModel]:
    """The model without errors, as it was read or repaired.

    Raises ModelError where it is wrong in anything that `repaired` does not mend, or at all with `strict`.
    """
    try:
        return loaded, check_model(loaded, limits=options.limits, operators=options.operators)
    except DiagnosedModelError as problem:
        if options.inputs.strict or not {finding.code for finding in problem.diagnostics} <= REPAIRED:
            raise
        # The first of each kind says enough: a converter that writes nodes out of order does so everywhere.
        first = {finding.code: finding for finding in reversed(problem.diagnostics)}
    made = rewritten(loaded, repaired(loaded.proto))
    checked = check_model(made, limits=options.limits, operators=options.operators)
    warn_of(warning(each.code, each.message, each.location, each.values, each.rule) for each in first.values())
    return made, checked
