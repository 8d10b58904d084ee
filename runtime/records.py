"""Immutable records: frozen dataclasses that cost little until they are used.

The standard library's decorator writes six functions for every frozen class as text and compiles them: 0.4 to 0.7 ms on
a Zen 3. A process that compiles a model defines 400 such classes, so that this was a third of what a model from the
cache takes. Here classes share what compares, hashes, prints and refuses changes, and what fills an instance is written
when there is the first one.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import TypeVar, dataclass_transform, overload

__all__ = ["record"]

T = TypeVar("T")


@overload
def record(cls: type[T], /) -> type[T]: ...


@overload
def record(*, eq: bool = True, kw_only: bool = False) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, Field))
def record(
    cls: type[T] | None = None, /, *, eq: bool = True, kw_only: bool = False
) -> type[T] | Callable[[type[T]], type[T]]:
    """As `dataclasses.dataclass(frozen=True)`, whose other functions, as `replace` and `fields`, take records as well.

    A record inherits from records and from classes that are no dataclasses. eq: whether records of equal fields are
    equal, and hash alike. kw_only: whether fields are given by name only.
    """

    def decorated(cls: type[T]) -> type[T]:
        made = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
        functions = [_filling(made), _printing(made), *(_comparing(made) if eq else ()), *_refusing(made)]
        for function in functions:
            # What a class says of itself stays.
            if function.__name__ not in vars(made):
                function.__qualname__ = f"{made.__qualname__}.{function.__name__}"
                setattr(made, function.__name__, function)
        return made

    return decorated if cls is None else decorated(cls)


def _filling(cls: type) -> Callable[..., None]:
    def __init__(self: object, /, *arguments: object, **named: object) -> None:
        initialize = _initializer(cls)
        cls.__init__ = initialize  # type: ignore[misc]
        initialize(self, *arguments, **named)

    return __init__


def _initializer(cls: type) -> Callable[..., None]:
    """What fills an instance, with the parameters that the fields are."""
    scope: dict[str, object] = {"_set": object.__setattr__, "_missing": MISSING}
    positional, named = ["self"], list[str]()
    lines = list[str]()
    for field in dataclasses.fields(cls):
        value = field.name
        default = ""
        if field.default is not MISSING:
            scope[f"_default_{field.name}"] = field.default
            default = f"=_default_{field.name}"
        elif field.default_factory is not MISSING:
            scope[f"_make_{field.name}"] = field.default_factory
            made = f"_make_{field.name}()"
            default = "=_missing"
            value = f"{made} if {field.name} is _missing else {field.name}" if field.init else made
        if field.init:
            (named if field.kw_only else positional).append(field.name + default)
        if field.init or field.default_factory is not MISSING:
            lines.append(f"_set(self, {field.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join([*positional, *(["*", *named] if named else [])])
    exec(f"def __init__({parameters}):\n  " + "\n  ".join(lines or ["pass"]), scope)
    initialize: Callable[..., None] = scope["__init__"]  # type: ignore[assignment]
    initialize.__qualname__ = f"{cls.__qualname__}.__init__"
    return initialize


def _printing(cls: type) -> Callable[..., str]:
    names = tuple(field.name for field in dataclasses.fields(cls) if field.repr)

    @recursive_repr()
    def __repr__(self: object) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({shown})"

    return __repr__


def _comparing(cls: type) -> tuple[Callable[..., object], ...]:
    """Records of one class are equal if their fields are, each of which may be told not to count."""
    compared = _values(*(field.name for field in dataclasses.fields(cls) if field.compare))
    hashed = _values(*(f.name for f in dataclasses.fields(cls) if (f.compare if f.hash is None else f.hash)))

    def __eq__(self: object, other: object) -> bool:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: object) -> int:
        return hash(hashed(self))

    return __eq__, __hash__


def _values(*names: str) -> Callable[[object], tuple[object, ...]]:
    """What gives the attributes of these names."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple(getattr(record, name) for name in names)


def _refusing(cls: type) -> tuple[Callable[..., None], ...]:
    """As in the standard library, classes that inherit may have further attributes, which change."""
    names = frozenset(field.name for field in dataclasses.fields(cls))

    def __setattr__(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    return __setattr__, __delattr__
