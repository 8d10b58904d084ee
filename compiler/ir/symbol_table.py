"""The symbols of a function while it is built."""


class SymbolTable:
    """The symbols of one function and their ranges; hands out new ones."""

    def __init__(self) -> None:
        self.ranges: dict[str, tuple[int, int | None]] = {}

    def fresh(self, hint: str) -> str:
        """A name that is not taken yet, `hint` itself where it is free."""
        name, count = hint, 0
        while name in self.ranges:
            count += 1
            name = f"{hint}_{count}"
        self.ranges[name] = (0, None)
        return name
