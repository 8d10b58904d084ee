"""All pieces that programs are drawn from."""

from tests.whole_programs.pieces import (
    arithmetic,
    classical,
    containers,
    control,
    functions,
    narrow,
    selection,
    signals,
    texts,
)

# Control flow and sizes from data come up more often than they do in a list of all pieces.
ORDINARY = (*arithmetic.PIECES, *selection.PIECES, *selection.PIECES, *control.PIECES, *control.PIECES)
CONTAINERS = (*containers.PIECES, *functions.PIECES, *functions.PIECES)
TEXTS = (*texts.PIECES, *texts.PIECES, *arithmetic.PIECES, *control.PIECES)
CLASSICAL = (*classical.PIECES, *classical.PIECES, *control.PIECES, *selection.PIECES)
NARROW = (*narrow.PIECES, *narrow.PIECES, *narrow.PIECES, *arithmetic.PIECES, *control.PIECES)
SIGNALS = (*signals.PIECES, *signals.PIECES, *signals.PIECES, *arithmetic.PIECES, *control.PIECES)

# A program is drawn from one of these, in turn.
MANNERS = (
    ORDINARY,
    (*ORDINARY, *CONTAINERS, *CONTAINERS, *CONTAINERS),
    ORDINARY,
    (*ORDINARY, *TEXTS, *TEXTS),
    (*ORDINARY, *CONTAINERS, *CONTAINERS),
    CLASSICAL,
    ORDINARY,
    NARROW,
    (*ORDINARY, *CONTAINERS, *SIGNALS, *SIGNALS),
)
