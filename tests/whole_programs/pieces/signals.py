"""Spectra of signals whose lengths only a call knows."""

from tests.whole_programs.forms import reduced, squeeze, unsqueeze
from tests.whole_programs.scope import Piece, Scope


def spectrogram(scope: Scope) -> None:
    """Frames of a padded signal, their power, and the sum over time."""
    x = scope.pick(("float",), exact=False)
    zeros = scope.floats([0.0] * 8)
    signal = unsqueeze(scope, scope.node("Concat", x, zeros, axis=0), [0, 2])
    window = scope.node("HannWindow", scope.constant(8)) if scope.flag() else ""
    frames = scope.node("STFT", signal, scope.constant(scope.choose([2, 3])), window, scope.constant(8), onesided=1)
    power = reduced(scope, "ReduceSumSquare", frames, [3])
    made = squeeze(scope, power, [0])
    scope.add(scope.node("Log", scope.node("Add", made, scope.floats(1))), "float", 2, exact=False)


def spectrum(scope: Scope) -> None:
    """There and back again."""
    x = scope.pick(("float",))
    some = unsqueeze(scope, scope.node("Concat", x, scope.floats([1.0]), axis=0), [0, 2])
    if scope.opset >= 20:
        there = scope.node("DFT", some)
        back = scope.node("DFT", there, inverse=1)
    else:
        there = scope.node("DFT", some, axis=1)
        back = scope.node("DFT", there, axis=1, inverse=1)
    real = squeeze(scope, reduced(scope, "ReduceSum", back, [2]), [0])
    scope.add(real, "float", 1, exact=False)


PIECES = (Piece("spectrogram", spectrogram, 17), Piece("spectrum", spectrum, 17))
