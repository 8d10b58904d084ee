"""A compiled model as a classifier of scikit-learn: it scores, stands in a pipeline, and is pickled as others are."""

import pickle
from importlib.resources import files
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import onnxc
from onnxc.runtime.executable import Executable


class CompiledClassifier(ClassifierMixin, BaseEstimator):
    """A model that gives a probability for each class; it is trained already, so `fit` only learns the classes."""

    def __init__(self, executable: Executable | None = None) -> None:
        self.executable = executable

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.executable(X)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def as_images(pixels: np.ndarray) -> np.ndarray:
    """f32[N, 1, 8, 8] of rows of 64 pixels."""
    return pixels.reshape(-1, 1, 8, 8).astype(np.float32)


def main() -> None:
    data = files("onnxc") / "data"
    with (data / "digits.npz").open("rb") as file, np.load(file) as held_out:
        rows, labels = held_out["images"].reshape(-1, 64), held_out["labels"]
    with (data / "digits.onnx").open("rb") as file:
        classifier = CompiledClassifier(onnxc.compile(file))
    pipeline = make_pipeline(FunctionTransformer(as_images), classifier).fit(rows, labels)
    print(f"accuracy: {pipeline.score(rows, labels):.3f}")
    print("ones read as ones:", confusion_matrix(labels, pipeline.predict(rows))[1, 1], "of", (labels == 1).sum())
    again = pickle.loads(pickle.dumps(classifier))
    print("the same after pickling:", np.array_equal(again.predict(as_images(rows)), pipeline.predict(rows)))


if __name__ == "__main__":
    main()
