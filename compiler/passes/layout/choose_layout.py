"""Layout choice: convolutions read and write their channels as the last axis.

Where a tensor lies in another order than the program says, a transpose says so: `transpose(x, p)` with x as it lies.
Each convolution becomes transpose, convolution, transpose; the rules of `moved_layouts` move the second one down, past
whatever can compute in the order in which things lie, until it meets the first one of the next convolution.

What is picked from an image that lies so already, as boxes are cropped and resized, is moved down in the same way.

Between convolutions nothing is left to move. The transposes that stay are views: at inputs and outputs of the graph,
which the caller wants in the order that the model declares, and beside what needs one order of axes. A kernel reads the
three channels of an image through such a view; padding them to what its loads want is a matter of its weights.
"""

from collections.abc import Sequence
from dataclasses import replace

from onnxc.compiler.ir.dims import Dim, at_least, product
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Attribute, Function, Module, Op, Value, walk
from onnxc.compiler.ir.primitives.contractions import channels_innermost, parse_dimensions
from onnxc.compiler.ir.rewriter import Rewriter, Rule, rewrite, rule
from onnxc.compiler.passes.layout.flattened_products import contract_as_it_lies
from onnxc.compiler.passes.layout.mixed_pixels import mix_pixels_as_they_lie
from onnxc.compiler.passes.layout.moved_layouts import MOVED, Layout, layout_of
from onnxc.compiler.passes.notes import note_refusal
from onnxc.compiler.passes.simplify.rules import RULES
from onnxc.compiler.passes.simplify.rules.broadcasts import transpose_broadcast
from onnxc.compiler.passes.simplify.rules.reshapes import transpose_units
from onnxc.compiler.passes.simplify.rules.transposes import transpose_contraction

# These make something else of a transpose, and so would end its way: at what repeats rows and columns, at the one pixel
# that a pooled image has, and at the product that it is of.
ENDS = (transpose_broadcast, transpose_units, transpose_contraction)
OTHERS = tuple(each for each in RULES if each not in ENDS)


def choose_layout(module: Module) -> Module:
    """Puts the channels of convolutions last, and of all that lies between them."""
    return lay_out(module)


def lay_out(module: Module, more: Sequence[Rule] = ()) -> Module:
    """The module with channels last, by the rules of all targets and `more`, which come before them."""
    return replace(module, functions=tuple(_laid_out(function, more, module.name) for function in module.functions))


def _laid_out(function: Function, more: Sequence[Rule], name: str) -> Function:
    if not any(op.name == "convolution" or _picks_turned(op) for op in walk(function.body)):
        return function
    own = (convolve_as_it_lies, contract_as_it_lies, mix_pixels_as_they_lie, _renaming(function))
    return rewrite(Module(name, (function,)), (*more, *own, *MOVED, *OTHERS), note_refusal).main


def _picks_turned(op: Op) -> bool:
    """Whether an op picks fewer elements than there are of what lies with its channels last."""
    if op.name != "gather":
        return False
    data = op.operands[0]
    return layout_of(data) is not None and at_least(product(data.shape), product(op.result.shape))


@rule("convolution")
def convolve_as_it_lies(op: Op, build: Rewriter) -> Value | None:
    """convolution(x, w) = transpose(convolution(transpose(x), w)) with the channels innermost inside"""
    x, w = op.operands
    lying = channels_innermost(x.rank - 2)
    if op.text("dimensions") == lying or x.rank < 3:
        return None
    layout, labels = Layout(x.rank), parse_dimensions(op.text("dimensions"))
    images, filters = build.transpose(x, labels.x.order), build.transpose(w, labels.w.order)
    attributes: dict[str, Attribute] = {**op.attributes, "dimensions": lying}
    (result,) = build.op("convolution", [layout.stored(images, build), filters], attributes)
    return build.transpose(layout.seen(result, build), labels.result.inverse)


def _renaming(function: Function) -> Rule:
    """The rule for reshapes that only write sizes in another way, which a guard of the function holds equal."""
    guards = [op for op in function.body.ops if op.name == "guard" and op.text("relation") == "equal"]
    known = {(op.dim("left"), op.dim("right")) for op in guards}

    def is_same(left: Dim, right: Dim) -> bool:
        return left == right or (left, right) in known or (right, left) in known

    def rename_as_it_lies(op: Op, build: Rewriter) -> Value | None:
        """reshape(transpose(x)) = transpose(reshape(x)) for sizes that are equal one by one"""
        moved, shape = made_by(op.operands[0], "transpose"), op.result.shape
        layout = None if moved is None else layout_of(moved.result)
        if moved is None or layout is None or layout.rank != len(shape):
            return None
        if not all(map(is_same, moved.result.shape, shape)):
            return None
        return layout.seen(build.with_shape(moved.operands[0], layout.of(shape)), build)

    return Rule("rename_as_it_lies", ("reshape",), rename_as_it_lies)
