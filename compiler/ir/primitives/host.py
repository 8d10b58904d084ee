"""What is not arithmetic on tensors: a primitive that names a function of `onnxc.runtime.host`, and its results."""

from onnxc.compiler.ir.primitive import Primitive, define, no_axes

define(Primitive("host", "host", None, no_axes, kernel=None))
