"""What is not arithmetic on tensors: a primitive that names a function of `runtime.host` and declares its results."""

from compiler.ir.primitive import Primitive, define, no_axes

define(Primitive("host", "host", None, no_axes))
