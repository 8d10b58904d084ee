"""Generators: tensors made from attributes alone."""

import numpy as np

from onnxc.runtime.host.attributes import array, element_type, flag, integer, integers
from onnxc.runtime.host.conversions import convert, wrapped
from onnxc.runtime.host.registry import Arrays, Attributes, meaning


@meaning("constant")
def constant(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """->  T[...], the attribute `value`, as a view that cannot be written to."""
    view = array(attributes, "value").view()
    view.flags.writeable = False
    return (view,)


@meaning("iota")
def iota(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """->  dtype[*shape], each element its own index along axis."""
    shape, axis = integers(attributes, "shape"), integer(attributes, "axis")
    counted = convert(np.arange(shape[axis], dtype=np.int64), element_type(attributes))
    column = np.expand_dims(counted, tuple(i for i in range(len(shape)) if i != axis))
    return (np.broadcast_to(column, shape).copy(),)


@meaning("sizes")
def sizes(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """->  dtype[n], the attribute `values`, wrapped to its bits; dtype[] of the only one with scalar=True."""
    values = wrapped(integers(attributes, "values"))
    if flag(attributes, "scalar", default=False):
        values = values.reshape(())
    return (convert(values, element_type(attributes)),)
