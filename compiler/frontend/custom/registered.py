"""The custom operators that every compilation of this process sees, until they are taken back."""

from collections import Counter
from collections.abc import Iterable
from threading import Lock
from types import TracebackType

from onnxc.compiler.frontend.custom.operators import CustomOperator, CustomOperators
from onnxc.runtime.errors import InputError

__all__ = ["Registration", "operators_with", "register"]

_lock = Lock()
_registered: list[CustomOperator] = []


class Registration:
    """Operators that are registered until `unregister`, or until the `with` block ends."""

    def __init__(self, operators: tuple[CustomOperator, ...]) -> None:
        self.operators = operators

    def unregister(self) -> None:
        """Takes the operators back; what was compiled with them stays as it is. Once more does nothing."""
        with _lock:
            _registered[:] = [operator for operator in _registered if operator not in self.operators]

    def __enter__(self) -> "Registration":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unregister()

    def __repr__(self) -> str:
        return f"<Registration of {', '.join(map(str, self.operators)) or 'nothing'}>"


def register(operators: Iterable[CustomOperator]) -> Registration:
    """From now on every compilation of this process sees the operators.

    Raises InputError where one of the same domain, name and version is registered.
    """
    added = tuple(operators)
    with _lock:
        _expect_distinct((*_registered, *added))
        _registered.extend(added)
    return Registration(added)


def operators_with(given: Iterable[CustomOperator]) -> CustomOperators:
    """Those given, and those registered that none of them stands for. Raises InputError."""
    own = tuple(given)
    _expect_distinct(own)
    with _lock:
        others = tuple(_registered)
    names = {str(operator) for operator in own}
    return CustomOperators((*own, *(operator for operator in others if str(operator) not in names)))


def _expect_distinct(operators: tuple[CustomOperator, ...]) -> None:
    for operator in operators:
        if not isinstance(operator, CustomOperator):
            kind = type(operator).__name__
            raise InputError(f"an operator is of type {kind}: make it by onnxc.custom_operator", code="custom-operator")
    for shown, count in Counter(map(str, operators)).items():
        if count > 1:
            raise InputError(f"there are two operators {shown}", code="duplicate-custom-operator")
