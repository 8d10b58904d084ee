"""The symbols of a function while it is built."""


class SymbolTable:
    """The symbols of one function and their ranges; hands out new ones."""

    def __init__(self) -> None:
        self.ranges: dict[str, tuple[int, int | None]] = {}
        self._counts: dict[str, int] = {}

    def fresh(self, hint: str) -> str:
        """A name that is not taken yet, `hint` itself where it is free."""
        # Names are never given back, so that the search goes on where the last one for the hint ended.
        name, count = hint, self._counts.get(hint, 0)
        while name in self.ranges:
            count += 1
            name = f"{hint}_{count}"
        self._counts[hint] = count
        self.ranges[name] = (0, None)
        return name
