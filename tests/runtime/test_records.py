"""Records behave as the frozen dataclasses of the standard library do, beside which they are put here."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field

import pytest

from onnxc.runtime.records import record

frozen = dataclass(frozen=True)
NAN = float("nan")


@record
class Empty:
    """No field."""


@record
class One:
    """A field."""

    value: float


@record
class Pair:
    """Two fields, one with a default."""

    left: int
    right: str = "r"


@record
class Longer(Pair):
    """A field more."""

    behind: tuple[int, ...] = ()


def kinds(decorate: Callable[..., type], decorate_identity: Callable[..., type]) -> dict[str, type]:
    """The same classes by each decorator."""

    class Pair:
        left: int
        right: str = "r"

    class Made:
        first: list[int] = field(default_factory=list)
        hidden: int = field(default=1, repr=False, compare=False)
        made: dict[str, int] = field(default_factory=dict, init=False, compare=False)
        last: int = field(default=0, kw_only=True)

        def __post_init__(self) -> None:
            self.made["last"] = self.last

    class Named:
        value: int

        def __repr__(self) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Named)

        def __hash__(self) -> int:
            return 7

    class Identity:
        value: int

    return {
        "pair": decorate(Pair),
        "made": decorate(Made),
        "named": decorate(Named),
        "identity": decorate_identity(Identity),
    }


OURS = kinds(record, record(eq=False))
THEIRS = kinds(frozen, dataclass(frozen=True, eq=False))


@pytest.mark.parametrize(
    ("kind", "arguments", "named"),
    [
        ("pair", (1,), {}),
        ("pair", (1, "x"), {}),
        ("pair", (), {"left": NAN, "right": ()}),
        ("made", (), {}),
        ("made", ([3], 4), {"last": 5}),
        ("named", (1,), {}),
        ("identity", (1,), {}),
    ],
)
def test_instances_are_filled_and_shown_as_dataclasses_are(
    kind: str, arguments: tuple[object, ...], named: dict[str, object]
) -> None:
    ours, theirs = OURS[kind](*arguments, **named), THEIRS[kind](*arguments, **named)
    assert vars(ours) == vars(theirs)
    assert repr(ours) == repr(theirs)
    assert [item.name for item in dataclasses.fields(ours)] == [item.name for item in dataclasses.fields(theirs)]
    assert OURS[kind].__match_args__ == THEIRS[kind].__match_args__  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "arguments", "named"),
    [
        ("pair", (), {}),
        ("pair", (1, 2, 3), {}),
        ("pair", (1,), {"left": 1}),
        ("pair", (1,), {"other": 1}),
        ("made", ([], 1, 2), {}),
        ("made", (), {"made": {}}),
    ],
)
def test_wrong_arguments_are_refused_in_the_same_words(
    kind: str, arguments: tuple[object, ...], named: dict[str, object]
) -> None:
    with pytest.raises(TypeError) as theirs:
        THEIRS[kind](*arguments, **named)
    # The first instance of a class is made by other code than the second.
    for _ in range(2):
        with pytest.raises(TypeError) as ours:
            OURS[kind](*arguments, **named)
        assert str(ours.value) == str(theirs.value)


def test_records_of_one_class_and_equal_fields_are_equal_and_hash_as_tuples_do() -> None:
    assert Empty() == Empty()
    assert hash(Empty()) == hash(())
    assert One(1.0) == One(1)
    assert hash(One(1.0)) == hash((1.0,))
    assert One(NAN) == One(NAN)
    assert One(NAN) != One(float("nan"))
    assert Pair(1) == Pair(1, "r")
    assert hash(Pair(1)) == hash((1, "r"))
    assert Pair(1) != Pair(2)
    assert Pair(1) != Longer(1)
    assert Pair(1) != (1, "r")
    assert Pair(1).__eq__((1, "r")) is NotImplemented
    made = OURS["made"]
    assert made([1], 2) == made([1], 3)
    with pytest.raises(TypeError, match="unhashable"):
        hash(made())


def test_what_a_class_says_of_itself_stays() -> None:
    named = OURS["named"]
    assert named(1) == named(2)
    assert hash(named(1)) == 7
    identity = OURS["identity"](1)
    assert identity == identity
    assert identity != OURS["identity"](1)
    assert hash(identity) == object.__hash__(identity)


@pytest.mark.parametrize("name", ["left", "other"])
def test_records_do_not_change(name: str) -> None:
    pair = Pair(1)
    with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(pair, name, 2)
    with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
        delattr(pair, name)
    assert pair == Pair(1)


def test_a_class_that_is_no_record_may_have_changing_attributes_beside_the_fields() -> None:
    class Counting(Pair):
        count = 0

    counting = Counting(1)
    counting.count = 3
    assert (counting.left, counting.count) == (1, 3)
    del counting.count
    assert counting.count == 0
    with pytest.raises(FrozenInstanceError):
        counting.left = 2  # type: ignore[misc]


def test_records_inherit_fields() -> None:
    assert repr(Longer(1, behind=(2,))) == "Longer(left=1, right='r', behind=(2,))"
    assert Longer(1, "x", (2,)).behind == (2,)
    # Made before and after one of the class that it inherits from.
    assert Pair(5).left == 5
    assert Longer(6).left == 6


def test_the_functions_of_the_standard_library_take_records() -> None:
    longer = Longer(1, "x", (2,))
    assert dataclasses.replace(longer, left=4) == Longer(4, "x", (2,))
    assert dataclasses.asdict(longer) == {"left": 1, "right": "x", "behind": (2,)}
    assert dataclasses.is_dataclass(Longer)
    assert copy.copy(longer) == copy.deepcopy(longer) == longer
    assert pickle.loads(pickle.dumps(longer)) == longer
    match longer:
        case Longer(left, right, behind):
            assert (left, right, behind) == (1, "x", (2,))


def test_fields_by_name_only() -> None:
    @record(kw_only=True)
    class Named:
        """Both have to be named."""

        first: int
        second: int = 2

    assert repr(Named(first=1)) == f"{Named.__qualname__}(first=1, second=2)"
    with pytest.raises(TypeError, match="positional"):
        Named(1)  # type: ignore[misc]


def test_a_record_within_itself_is_shown() -> None:
    inner: list[object] = []
    one = One(inner)  # type: ignore[arg-type]
    inner.append(one)
    assert repr(one) == "One(value=[...])"


def test_defaults_made_anew_are_not_shared() -> None:
    made = OURS["made"]
    assert made().first is not made().first
