"""Labels of dimensions, as in "n01c": which axis is which, for primitives whose axes lie in any order."""


def axis_order(labels: str, leading: str) -> tuple[int, ...]:
    """The axes labelled by the letters of `leading`, then the spatial axes in the order of their labels."""
    # Digits come before capital letters, which label the axes after the tenth.
    spatial = sorted(set(labels) - set(leading))
    return tuple(labels.index(label) for label in (*leading, *spatial))
