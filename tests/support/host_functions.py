"""Functions on arrays that tests give custom operators as bodies, at a path that can be imported."""

import numpy as np

NOT_CALLABLE = 5


def swish(x: np.ndarray, beta: float) -> np.ndarray:
    result: np.ndarray = (x / (1 + np.exp(-beta * x))).astype(x.dtype)
    return result


def describe_all(first: np.ndarray, bias: np.ndarray | None, **attributes: object) -> np.ndarray:
    """What came, as one text."""
    parts = [f"{first.dtype}{list(first.shape)}", "no bias" if bias is None else "bias"]
    parts += [f"{name}={value!r}" for name, value in sorted(attributes.items())]
    return np.array("; ".join(parts))


def positive(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The elements above 0, whose number only data tells, and that number."""
    kept = x[x > 0]
    return kept, np.array(kept.size, np.int64)


def as_double(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


def flat(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1)


def shorter(x: np.ndarray) -> np.ndarray:
    return x[:-1]


def two(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x, x


def nothing(x: np.ndarray) -> None:
    return None


def failing(x: np.ndarray) -> np.ndarray:
    raise RuntimeError("the sensor is off")


def overwriting(x: np.ndarray) -> np.ndarray:
    x += 1
    return x


_KEPT = np.zeros(3, np.float32)


def reusing(x: np.ndarray) -> np.ndarray:
    """The same array at every call, as code that saves allocations gives."""
    _KEPT[:] = x
    return _KEPT


def affine(x: np.ndarray, scale: float, bias: int) -> np.ndarray:
    return (x * x.dtype.type(scale) + x.dtype.type(bias)).astype(x.dtype)


def centred(x: np.ndarray) -> np.ndarray:
    """Rows less their means."""
    return (x - x.mean(-1, keepdims=True)).astype(x.dtype)


def turned(x: np.ndarray) -> np.ndarray:
    return x.T
