"""Models checked for those who use them: what breaks a rule and leaves no doubt is repaired, with a warning."""

from onnxc.compiler.diagnostics import DiagnosedModelError, warning
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.custom.operators import NO_OPERATORS, CustomOperators
from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.frontend.parts.repair import REPAIRED, repaired
from onnxc.compiler.frontend.read import LoadedModel, rewritten
from onnxc.compiler.limits import DEFAULT_LIMITS, Limits
from onnxc.compiler.model_warnings import warn_of
from onnxc.compiler.options import CompileOptions

__all__ = ["check_or_repair", "checked_model"]


def checked_model(loaded: LoadedModel, options: CompileOptions) -> tuple[LoadedModel, CheckedModel]:
    """As `check_or_repair`; with the option `strict`, a model that can be repaired is refused too."""
    if options.inputs.strict:
        return loaded, check_model(loaded, limits=options.limits, operators=options.operators)
    return check_or_repair(loaded, options.limits, options.operators)


def check_or_repair(
    loaded: LoadedModel, limits: Limits = DEFAULT_LIMITS, operators: CustomOperators = NO_OPERATORS
) -> tuple[LoadedModel, CheckedModel]:
    """The model without errors, as it was read or repaired.

    Raises ModelError, of the model as it was read, where it is wrong in anything that `repaired` does not mend.
    """
    try:
        return loaded, check_model(loaded, limits=limits, operators=operators)
    except DiagnosedModelError as problem:
        if not {finding.code for finding in problem.diagnostics} <= REPAIRED:
            raise
        made = rewritten(loaded, repaired(loaded.proto))
        try:
            checked = check_model(made, limits=limits, operators=operators)
        except DiagnosedModelError:
            raise problem from None
        # The first of each kind says enough: a converter that writes nodes out of order does so everywhere.
        first = {finding.code: finding for finding in reversed(problem.diagnostics)}
    warn_of(warning(each.code, each.message, each.location, each.values, each.rule) for each in first.values())
    return made, checked
