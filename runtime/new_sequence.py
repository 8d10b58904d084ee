"""Sequences that a host function has made anew, with all that is in them, so that nobody need copy them."""

__all__ = ["NewSequence"]


class NewSequence(tuple):  # type: ignore[type-arg]
    """A sequence of which nothing is held elsewhere: an output that it is may be given away as it is.

    What another step makes of its elements is an ordinary sequence, and copied.
    """

    __slots__ = ()
