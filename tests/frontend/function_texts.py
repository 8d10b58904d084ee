"""Models with functions of their own, as text: what a call can be given, and where it can stand."""

from collections.abc import Mapping

import numpy as np
import onnx

from tests.frontend.model_texts import Edit, model

X = {"x": np.array([[-2.0, 0.5, 3.0]], np.float32)}


def own(text: str, edit: Edit | None = None) -> onnx.ModelProto:
    """The model that `text` says, where OWN stands before each function of domain own."""
    return model(text.replace("OWN", '<domain: "own", opset_import: ["": 21, "own": 1]>'), edit)


def feeds_of(official: onnx.ModelProto) -> dict[str, np.ndarray]:
    """A value for each input of one of the models."""
    choices: Mapping[str, np.ndarray] = {"x": X["x"], "c": np.array(False), "a": X["x"], "b": X["x"] + 1}
    return {name: choices[name] for name in sorted({info.name for info in official.graph.input})}


MODELS: dict[str, str] = {
    "a call": """g (float[1,3] x) => (float[1,3] y) { y = own.f(x) }
        OWN f (a) => (b) { t = Relu(a) b = Neg(t) }""",
    "two calls": """g (float[1,3] x) => (float[1,3] y) { u = own.f(x) y = own.f(u) }
        OWN f (a) => (b) { t = Relu(a) b = Add(t, a) }""",
    "names of the caller in the body": """
        g (float[1,3] x) => (float[1,3] y) { t = Neg(x) b = own.f(t) y = Add(b, t) }
        OWN f (x) => (y) { t = Relu(x) b = Neg(t) y = Add(b, x) }""",
    "crossed names": """g (float[1,3] a, float[1,3] b) => (float[1,3] y) { y = own.f(b, a) }
        OWN f (a, b) => (c) { c = Sub(a, b) }""",
    "a call within a call": """g (float[1,3] x) => (float[1,3] y) { y = own.f(x) }
        OWN f (a) => (b) { t = own.h(a) b = own.h(t) }
        OWN h (a) => (b) { t = Add(a, a) b = Neg(t) }""",
    "an attribute": """g (float[1,3] x) => (float[1,3] y) { y = own.f<alpha: float = 0.5>(x) }
        OWN f <alpha> (a) => (b) { b = LeakyRelu<alpha: float = @alpha>(a) }""",
    "an attribute of another name": """g (float[1,3] x) => (float[1,3] y) { y = own.f<slope: float = 0.5>(x) }
        OWN f <slope> (a) => (b) { b = LeakyRelu<alpha: float = @slope>(a) }""",
    "an attribute handed on": """g (float[1,3] x) => (float[1,3] y) { y = own.f<outer: float = 0.5>(x) }
        OWN f <outer> (a) => (b) { b = own.h<inner: float = @outer>(a) }
        OWN h <inner> (a) => (b) { b = LeakyRelu<alpha: float = @inner>(a) }""",
    "an attribute left out": """g (float[1,3] x) => (float[1,3] y) { y = own.f(x) }
        OWN f <alpha> (a) => (b) { b = LeakyRelu<alpha: float = @alpha>(a) }""",
    "an attribute inside a branch": """
        g (float[1,3] x, bool c) => (float[1,3] y) { y = own.f<alpha: float = 0.5>(x, c) }
        OWN f <alpha> (a, c) => (b) { b = If (c) <
            then_branch = t () => (p) { p = LeakyRelu<alpha: float = @alpha>(a) },
            else_branch = e () => (q) { q = Neg(a) }> }""",
    "ints as attribute": """g (float[1,3] x) => (float[3,1] y) { y = own.f<p: ints = [1, 0]>(x) }
        OWN f <p> (a) => (b) { b = Transpose<perm: ints = @p>(a) }""",
    "a tensor as attribute": """g (float[1,3] x) => (float[1,3] y) { y = own.f<w: tensor = float[1] {4}>(x) }
        OWN f <w> (a) => (b) { k = Constant<value: tensor = @w>() b = Mul(a, k) }""",
    "an output left out": """g (float[1,3] x) => (float[1,3] y) { y = own.f(x) }
        OWN f (a) => (b, c) { b = Neg(a) c = Relu(a) }""",
    "an inner value that is also an output": """g (float[1,3] x) => (float[1,3] y, float[1,3] z) { y, z = own.f(x) }
        OWN f (a) => (b, c) { b = Neg(a) c = Relu(b) }""",
    "a call in a branch": """g (bool c, float[1,3] x) => (float[1,3] y) {
            y = If (c) <
                then_branch = t () => (float[1,3] a) { a = own.f(x) },
                else_branch = e () => (float[1,3] b) { b = Neg(x) }> }
        OWN f (x) => (b) { a = Neg(x) b = Add(a, x) }""",
    "calls in both branches and around": """g (bool c, float[1,3] x) => (float[1,3] y) {
            z = own.f(x)
            w = If (c) <
                then_branch = t () => (float[1,3] a) { a = own.f(x) },
                else_branch = e () => (float[1,3] b) { b = own.f(z) }>
            y = Add(w, z) }
        OWN f (x) => (y) { a = Neg(x) y = Add(a, x) }""",
    "a branch that captures inputs of the function": """
        g (float[1,3] x, bool c) => (float[1,3] y) { y = own.f(x, c) }
        OWN f (a, c) => (b) { k = Neg(a) b = If (c) <
            then_branch = t () => (p) { q = Relu(a) p = Add(q, k) },
            else_branch = e () => (p) { q = Relu(k) p = Sub(q, a) }> }""",
    "a loop in a function": """g (float[1,3] x) => (float[1,3] y) { y = own.f(x) }
        OWN f (a) => (b) { n = Constant<value: tensor = int64 {3}>() c = Constant<value: tensor = bool {1}>()
            b = Loop (n, c, a) <body = l (int64 i, bool k, float[1,3] s) => (bool k2, float[1,3] t)
                { k2 = Identity(k) t = Add(s, a) }> }""",
    "a function in a loop": """g (float[1,3] x) => (float[1,3] y) {
            n = Constant<value: tensor = int64 {3}>() c = Constant<value: tensor = bool {1}>()
            y = Loop (n, c, x) <body = l (int64 i, bool k, float[1,3] s) => (bool k2, float[1,3] t)
                { k2 = Identity(k) t = own.f(s, x) }> }
        OWN f (s, x) => (t) { k = Neg(s) t = Sub(k, x) }""",
    "a function that hides an operator": """g (float[1,3] x) => (float[1,3] y) { y = Relu(x) }
        <domain: "", opset_import: ["": 21]> Relu (a) => (b) { b = Neg(a) }""",
}
