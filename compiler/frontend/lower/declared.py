"""Values as what the model declares them to be, and where that contradicts what they are."""

from onnxc.compiler.diagnostics import error, warning
from onnxc.compiler.frontend.graph import ValueInfo
from onnxc.compiler.frontend.joining.container_values import with_element
from onnxc.compiler.frontend.joining.squeezed_ones import squeezed
from onnxc.compiler.frontend.lower.attempt import Attempt
from onnxc.compiler.frontend.size_names import lone_symbol
from onnxc.compiler.frontend.value_types import OTHER_TYPE_ADVICE
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import (
    ANY_SIZE,
    MapType,
    OptionalType,
    SequenceType,
    ShapedType,
    SparseTensorType,
    TensorType,
    Type,
    substitute_type,
    type_symbols,
    without_symbols,
)
from onnxc.runtime.records import record

_RULE = "ONNX IR, value_info"


@record
class DeclaredSizes:
    """What names of sizes stand for in one graph: symbols of the inputs, and in `named` the first size declared so."""

    bound: frozenset[str]
    named: dict[str, Dim]

    def size_of(self, size: Dim, wanted: Dim) -> Dim:
        """`size` as it is declared, where only data decides it: a number, or what else has the name."""
        if not self.bound.isdisjoint(symbols_of(size)):
            return size
        if isinstance(wanted, int):
            return wanted
        name = lone_symbol(wanted)
        # An expression tells more than a name does.
        if name is None or lone_symbol(size) is None or ANY_SIZE in (size, wanted):
            return size
        return wanted if name in self.bound else self.named.setdefault(name, size)


def as_declared(
    info: ValueInfo | None, value: Value | None, ir: Builder, attempt: Attempt, sizes: DeclaredSizes | None = None
) -> Value | None:
    """`value` as what the model declares it to be, where that tells more: a rank, or that it is present.

    sizes: of what is no output, what its graph declares of sizes that only data decides: a number, or a name that
    several have. It is taken as a fact, which the call checks.

    A provable contradiction is a finding. Where only shapes differ, and this is the one way to read the model, or
    those of outputs would leave none, the value is what its node gives, and the finding a warning: other tools leave
    wrong shapes in files that they run.
    """
    if info is None or value is None or info.type is None:
        return value
    declared = info.type
    if isinstance(value.type, OptionalType) and not isinstance(declared, OptionalType):
        value = with_element(value, ir)
    reason = contradiction(declared, value.type)
    if reason is not None:
        message = f"{info.name} is declared {info.type} and is {value.type}: {reason}"
        decides = attempt.is_trial and (attempt.trusts_outputs or sizes is not None)
        if decides or not differ_in_shape(declared, value.type):
            advice = (OTHER_TYPE_ADVICE,) if elements_differ(declared, value.type) else ()
            attempt.findings.append(error("declared-type", message, ir.location, advice, _RULE))
        else:
            attempt.warnings.append(warning("declared-type", message, ir.location, (), _RULE))
    elif isinstance(declared, TensorType) and declared.shape is not None and value.tensor.shape is None:
        value = of_declared_shape(value, declared, ir)
    if reason is None and sizes is not None and isinstance(declared, TensorType) and declared.shape is not None:
        return _of_declared_sizes(info.name, value, declared, sizes, ir)
    return value


def note_contradiction(info: ValueInfo | None, value: Value | None, ir: Builder, attempt: Attempt) -> None:
    """Warns where a value is not what a function declares, which may hold for other calls of it, and is no fact."""
    if info is None or value is None or info.type is None:
        return
    reason = contradiction(info.type, value.type)
    if reason is not None:
        message = f"{info.name} is declared {info.type} and is {value.type}: {reason}"
        attempt.warnings.append(warning("declared-type", message, ir.location, (), _RULE))


def _of_declared_sizes(name: str, value: Value, declared: TensorType, sizes: DeclaredSizes, ir: Builder) -> Value:
    """The tensor under the sizes that are declared of those that only data decides, guarded."""
    shape = [sizes.size_of(*pair) for pair in zip(value.shape, declared.known_shape, strict=True)]
    for axis, (size, wanted) in enumerate(zip(value.shape, shape, strict=True)):
        if size != wanted:
            # The side on the right is what passes replace by the other.
            ir.guard(wanted, size, "equal", f"axis {axis} of {name} is declared {wanted}, and has another size")
    return ir.with_shape(value, shape)


def differ_in_shape(declared: Type, inferred: Type) -> bool:
    """Whether two types that contradict each other are tensors of one element type."""
    both_dense = isinstance(declared, TensorType) and isinstance(inferred, TensorType)
    return both_dense and not elements_differ(declared, inferred)


def as_sparse(value: Value | None, ir: Builder) -> Value | None:
    """An initializer as the sparse tensor that an output is declared to be: what is stored is dense to the nodes."""
    if value is None or not isinstance(value.type, TensorType):
        return value
    return ir.host("sparse_from_dense", (value,), (SparseTensorType(value.dtype, value.type.shape),), {})[0]


def unknown_value(info: ValueInfo | None, ir: Builder) -> Value | None:
    """A value of the declared type that nothing here computes, for types alone; None where none is declared."""
    if info is None or info.type is None:
        return None
    if not isinstance(info.type, TensorType):
        return ir.parameter(info.name, without_symbols(info.type))
    names = sorted(type_symbols(info.type) - frozenset(ir.symbols.ranges))
    return ir.parameter(info.name, substitute_type(info.type, {name: ir.fresh_symbol(name) for name in names}))


def of_declared_shape(value: Value, declared: TensorType, ir: Builder) -> Value:
    """A tensor whose rank only data tells as one of the declared rank; the call checks the sizes that are numbers."""
    shape = declared.known_shape
    source = squeezed(value)
    result = source.of_rank(len(shape), ir) if source is not None else None
    if result is not None:
        return result
    sizes = [dim if isinstance(dim, int) else ir.fresh_symbol("declared") for dim in shape]
    wanted = tuple(dim if isinstance(dim, int) else -1 for dim in shape)
    return ir.host("expect_shape", (value,), (TensorType(value.tensor.dtype, tuple(sizes)),), {"shape": wanted})[0]


def elements_differ(declared: Type, given: Type) -> bool:
    """Whether tensors, or what sequences hold, are of different element types."""
    match declared, given:
        case ShapedType(), ShapedType():
            return declared.__class__ is not given.__class__ or declared.dtype != given.dtype
        case SequenceType(), SequenceType():
            return elements_differ(declared.element, given.element)
    return False


def contradiction(declared: Type, inferred: Type) -> str | None:
    """Why a value cannot have both types, or None where it can; symbols contradict nothing."""
    match declared, inferred:
        case ShapedType(), ShapedType() if declared.__class__ is inferred.__class__:
            return _tensor_contradiction(declared, inferred)
        case SequenceType(), SequenceType():
            return contradiction(declared.element, inferred.element)
        case OptionalType(), OptionalType():
            return contradiction(declared.element, inferred.element)
        case OptionalType(), _:
            return contradiction(declared.element, inferred)
        case MapType(), MapType():
            return "the keys differ" if declared.key != inferred.key else contradiction(declared.value, inferred.value)
    return "they are of different kinds"


def _tensor_contradiction(declared: ShapedType, inferred: ShapedType) -> str | None:
    if declared.dtype != inferred.dtype:
        return "the element types differ"
    if declared.shape is None or inferred.shape is None:
        return None
    if len(declared.shape) != len(inferred.shape):
        return "the ranks differ"
    for axis, (left, right) in enumerate(zip(declared.shape, inferred.shape, strict=True)):
        if isinstance(left, int) and isinstance(right, int) and left != right:
            return f"axis {axis} differs"
    return None
