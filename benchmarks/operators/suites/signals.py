"""Spectra, windows of signals, losses, random numbers excepted: nobody can compare those."""

from collections.abc import Iterator

from benchmarks.operators.case import OperatorCase, case, operand


def cases() -> Iterator[OperatorCase]:
    for length in (256, 400, 1024):
        yield case(
            "DFT<onesided = 1>(x, , a)", operand("x", "float32", (8, length, 1)), constants="int64 a = {1}", opset=20
        )
        yield case("DFT(x, , a)", operand("x", "float32", (8, length, 2)), constants="int64 a = {1}", opset=20)
    signal = operand("x", "float32", (1, 16000, 1))
    yield case("STFT<onesided = 0>(x, s, w)", signal, operand("w", "float32", (400,)), constants="int64 s = {160}")
    for window in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        yield case(f"{window}(n)", operand("n", "int64", (), "limits", 4000))
    mel = "int64 a = {80}, int64 b = {400}, int64 c = {16000}, float d = {0.0}, float e = {8000.0}"
    yield case("Add(m, x)", operand("x", "float32", (201, 80)), constants=mel)
    for reduction in ("mean", "sum", "none"):
        operands = operand("x", "float32", (128, 1000)), operand("t", "int64", (128,), "integers", 1000)
        yield case(f'NegativeLogLikelihoodLoss<reduction = "{reduction}">(x, t)', *operands)
        yield case(f'SoftmaxCrossEntropyLoss<reduction = "{reduction}">(x, t)', *operands)
    yield case("Dropout(x)", operand("x", "float32", (128, 768)))
    yield case("Shape(x)", operand("x", "float32", (128, 768)))
    yield case("Size(x)", operand("x", "float32", (128, 768)))
