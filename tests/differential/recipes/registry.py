"""The table of recipes, and the decorator that fills it."""

from collections.abc import Callable

from tests.differential.draw import Draw, Parts

Recipe = Callable[[Draw], Parts]

RECIPES: dict[tuple[str, str], Recipe] = {}


def recipe(*names: str, domain: str = "") -> Callable[[Recipe], Recipe]:
    """Registers the decorated function for these operators, in all their versions."""

    def register(function: Recipe) -> Recipe:
        for name in names:
            assert (domain, name) not in RECIPES, name
            RECIPES[domain, name] = function
        return function

    return register
