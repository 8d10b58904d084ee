"""What is known about the symbols of sizes at a point of the program: ranges, and which are equal to what."""

from collections.abc import Callable, Mapping
from dataclasses import field, replace

from onnxc.compiler.ir.dim_functions import always_broadcast, bcast, maximum, minimum
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim, Size, at_least, floordiv, lower_bound, mod, sum_of
from onnxc.compiler.ir.module import Attribute, Op
from onnxc.compiler.ir.types import MapType, OptionalType, SequenceType, ShapedType, Type
from onnxc.runtime.records import record

FUNCTIONS: Mapping[str, Callable[..., Dim]] = {"floordiv": floordiv, "mod": mod, "bcast": bcast}


@record
class SizeFacts:
    """`ranges` of symbols, and the sizes that symbols are `equal` to; those have no symbol that is itself replaced."""

    ranges: Mapping[str, tuple[int, int | None]]
    equal: Mapping[str, Dim]
    _simplified: dict[Dim, Dim] = field(default_factory=dict, init=False, repr=False, compare=False)

    def dim(self, dim: Dim) -> Dim:
        """`dim` in as few symbols and functions as the facts allow."""
        if isinstance(dim, int):
            return dim
        if dim not in self._simplified:
            self._simplified[dim] = self._simplify(dim)
        return self._simplified[dim]

    def _simplify(self, dim: Size) -> Dim:
        terms: list[Dim] = []
        for monomial, factor in dim.terms:
            term: Dim = factor
            for atom in monomial:
                if isinstance(atom, str):
                    term = term * self.equal.get(atom, Size.symbol(atom))
                else:
                    term = term * self._apply(atom.function, [self.dim(argument) for argument in atom.arguments])
            terms.append(term)
        return sum_of(terms)

    def _apply(self, function: str, arguments: list[Dim]) -> Dim:
        match function:
            case "min":
                return minimum(*self._extremes(arguments, lambda a, b: at_least(b, a, self.ranges)))
            case "max":
                return maximum(*self._extremes(arguments, lambda a, b: at_least(a, b, self.ranges)))
            case "bcast":
                return bcast(*self._widest(arguments))
        return FUNCTIONS[function](*arguments)

    def _extremes(self, dims: list[Dim], beats: Callable[[Dim, Dim], bool]) -> list[Dim]:
        """`dims` without those that another one certainly beats."""
        kept: list[Dim] = []
        for dim in dims:
            if not any(beats(other, dim) for other in kept):
                kept = [other for other in kept if not beats(dim, other)] + [dim]
        return kept

    def _widest(self, dims: list[Dim]) -> list[Dim]:
        """One of `dims` that is at least 2 is what they broadcast to; a guard sees to it that the others fit."""
        for dim in dims:
            low = lower_bound(dim, self.ranges)
            if low is not None and low >= 2:
                return [dim]
        return dims

    def type(self, type: Type) -> Type:
        """`type` with its sizes simplified."""
        match type:
            case ShapedType(shape=shape):
                return type.with_shape(None if shape is None else tuple(map(self.dim, shape)))
            case SequenceType(element):
                return SequenceType(self.type(element))
            case OptionalType(element):
                return OptionalType(self.type(element))
            case MapType(key, value):
                return MapType(key, self.type(value))

    def attribute(self, value: Attribute) -> Attribute:
        """`value` with its sizes simplified."""
        if isinstance(value, Size):
            return self.dim(value)
        return tuple(map(self.attribute, value)) if isinstance(value, tuple) else value

    def holds(self, relation: str, left: Dim, right: Dim) -> bool:
        """Whether `left` `relation` `right` is certain."""
        if relation == "at_least":
            return at_least(left, right, self.ranges)
        return left == right or (relation == "broadcast" and always_broadcast(left, right))

    def after(self, guard: Op) -> "SizeFacts":
        """The facts where `guard` has held, too."""
        relation, left, right = guard.text("relation"), self.dim(guard.dim("left")), self.dim(guard.dim("right"))
        if relation == "equal":
            return self._with_equal(left, right)
        return self._with_least(left - right) if relation == "at_least" else self

    def _with_equal(self, left: Dim, right: Dim) -> "SizeFacts":
        for dim, other in sorted(((right, left), (left, right)), key=lambda pair: not str(pair[0]).startswith("?")):
            name = single_symbol(dim)
            if name is not None and name not in symbols_of(other):
                return self.with_symbol(name, other)
        return self

    def with_symbol(self, name: str, size: Dim) -> "SizeFacts":
        """The facts where a symbol is a size that has not the symbol in it, and is written as that."""
        chosen = SizeFacts(self.ranges, {name: size})
        equal = {known: chosen.dim(other) for known, other in self.equal.items()}
        return replace(self, equal={**equal, name: size})

    def _with_least(self, excess: Dim) -> "SizeFacts":
        """The facts where `excess` is at least 0, too; of one with several terms nothing is learnt."""
        terms = dict(excess.terms) if isinstance(excess, Size) else {}
        constant = terms.pop((), 0)
        if len(terms) != 1:
            return self
        ((monomial, factor),) = terms.items()
        if len(monomial) != 1:
            return self
        atom = monomial[0]
        if not isinstance(atom, str):
            divisor = atom.arguments[-1]
            divides = atom.function == "floordiv" and factor == 1 and isinstance(divisor, int) and divisor > 0
            return self._with_least(atom.arguments[0] + divisor * constant) if divides else self
        least, greatest = self.ranges.get(atom, (-(2**63) if atom.startswith("?") else 0, None))
        if factor > 0:
            least = max(least, -(constant // factor))
        else:
            limit = constant // -factor
            greatest = limit if greatest is None else min(greatest, limit)
        return replace(self, ranges={**self.ranges, atom: (least, greatest)})


def single_symbol(dim: Dim) -> str | None:
    """The name of the symbol that `dim` is, or None where it is something else."""
    names = symbols_of(dim)
    return next(iter(names)) if len(names) == 1 and dim == Size.symbol(next(iter(names))) else None
