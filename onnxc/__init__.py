"""onnxc: compiles ONNX models to native code, and runs them.

    exe = onnxc.compile("model.onnx")
    y = exe(x)
    exe.save("model.onnxc")
    exe = onnxc.load("model.onnxc")

Importing this loads neither NumPy nor the compiler; compiling loads the compiler, loading and calling the runtime.
"""

import importlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from onnxc.decoders import compile_decoder, load_decoder
from onnxc.runtime.errors import DeviceError, InputError, ModelError, ModelWarning, OnnxcError, UnsupportedError

if TYPE_CHECKING:
    __version__: str

    from onnxc.comparing.comparison import Comparison
    from onnxc.compiler.diagnostics import Diagnostic
    from onnxc.compiler.frontend.custom.face import BuildBody, TypeRule
    from onnxc.compiler.frontend.custom.operators import CustomOperator
    from onnxc.compiler.frontend.custom.registered import Registration
    from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
    from onnxc.compiler.frontend.read import SupportsSerialize
    from onnxc.compiler.frontend.schemas import Default, Schema
    from onnxc.compiler.limits import Limits
    from onnxc.compiler.options import CacheOption, CompileOptions, DimRange, DTypesOption, ModelSource
    from onnxc.compiler.simulation.simulation import Simulation
    from onnxc.compiler.trainer import Trainer
    from onnxc.runtime.executable import Executable
    from onnxc.runtime.gpu.arrays import DeviceArray
    from onnxc.runtime.sparse_tensor import SparseTensor

__all__ = [
    "DeviceArray",
    "DeviceError",
    "InputError",
    "ModelError",
    "ModelWarning",
    "OnnxcError",
    "SparseTensor",
    "UnsupportedError",
    "check",
    "compile",
    "compile_decoder",
    "compile_training",
    "convert_version",
    "custom_operator",
    "diff",
    "extract",
    "from_text",
    "infer",
    "inline",
    "load",
    "load_decoder",
    "make_training",
    "merge",
    "register",
    "rename",
    "repair",
    "save_model",
    "schemas",
    "shard",
    "simulate",
    "split",
    "to_text",
    "verify",
]


def compile(
    model: "ModelSource",
    target: str = "cpu",
    dims: "Mapping[str, DimRange] | None" = None,
    shapes: Mapping[str, Sequence[int | str | None]] | None = None,
    dtypes: "DTypesOption" = None,
    precision: str = "fp32",
    specialize: Mapping[str, Sequence[int]] | None = None,
    freeze_params: bool = True,
    config: str | None = None,
    devices: str | None = None,
    threads: int | None = None,
    cache: "CacheOption" = None,
    limits: "Limits | Mapping[str, int] | None" = None,
    strict: bool = False,
    operators: "Sequence[CustomOperator]" = (),
    allow_links: bool = False,
    opset: int | None = None,
    microbatches: int | None = None,
    outputs: str = "whole",
) -> "Executable":
    """The model, compiled once for all sizes of its symbolic dimensions and ready to be called.

    model: a path, bytes, a binary file, or anything with SerializeToString.
    target: "cpu" is this machine, "cpu:x86-64-v3" another processor, "cuda" the GPU of this machine, "cuda:sm_90" a
    kind of GPU that need not be here (then the result can be saved, not called), "interpreter" needs no native code.
    dims: for a symbolic size a fixed one, or a range (least, greatest or None).
    shapes, dtypes: for an input what to take in place of what the model declares, numbers too. What followed from them
    gives way, and constants that held a declared size hold the new one. One element type alone is for all floats of
    the model, its weights among them (docs/overrides.md).
    precision: "bf16" and "fp16" store and multiply f32 in 16 bits where that does little harm (docs/precision.md);
    inputs and outputs keep their types. "tf32" is for GPUs.
    specialize: for symbolic sizes those that get kernels of their own beside the general ones, {"batch": [1, 8]}; all
    others are served as before. At most 16 combinations; the interpreter takes it without effect.
    freeze_params: False makes initializers inputs with a default, behind those of the model, so that a call may pass
    others and `Executable.with_weights` swaps them; nothing is computed from them or packed beforehand, which makes
    calls slower. What decides shapes, as integers of more than 8 bits and scales of Resize do, stays a constant unless
    the model declares it as an input (docs/weights.md).
    config: the device configuration of the model whose shardings are executed; None ignores them. devices: "cpu:4" for
    four threads of this process, "cuda:4" for its first four GPUs, as many as the configuration has; None means those
    of the target. What is saved for "cpu:4" may be loaded in processes, too (docs/multi_device.md).
    threads: how many a call may use; None means all that this process may use.
    cache: the folder in which artifacts are kept whole, so that a model that is compiled again is loaded, and machine
    code, so that a similar one compiles in less time. None means $ONNXC_CACHE, else onnxc in $XDG_CACHE_HOME or
    ~/.cache; False keeps nothing. Whoever may write to the folder decides what runs (docs/caching.md).
    limits: how far a model may go that may be hostile, by the names of compiler/limits.py: {"nesting_depth": 20}.
    strict: a shape that the model declares otherwise than it is becomes a ModelError. Else there is a ModelWarning, and
    the value has the shape that its node gives. So it is with what `repair` mends, as nodes out of order: compiled as
    it is meant, with a ModelWarning, or refused; and with choices that an operator has in another version, which ONNX
    Runtime takes, as Pad's mode "wrap" before opset 19.
    operators: those of the caller's own that the model may use, as `custom_operator` makes them, beside those that are
    registered (docs/custom_operators.md).
    allow_links: whether links in the model's folder are followed to its external data, as a cache of models has them;
    such a file is then read wherever it is (docs/weights.md).
    opset: the version of the standard's operators, for a model that does not say.
    microbatches: into how many parts a call of a model with pipeline stages goes; None means as many as there are
    stages where the model allows it (docs/multi_device.md).
    outputs: "local" leaves the outputs of a call as the devices hold them: each that is divided comes as
    `onnxc.runtime.devices.shards.Shards`, one that is not as an array, as "whole" gives all of them.

    Raises ModelError, UnsupportedError, InputError.
    """
    # What is imported for it lives on, as what is compiled does, so that searching it for garbage would be in vain.
    with importlib.import_module("onnxc.compiler.jobs.rare_collections").rare_collections():
        options = importlib.import_module("onnxc.compiler.options").make_options(
            target,
            dims,
            shapes,
            dtypes,
            precision,
            specialize,
            freeze_params,
            config,
            devices,
            threads,
            cache,
            limits,
            strict,
            operators,
            allow_links,
            opset,
            microbatches,
            outputs,
        )
        return _compiled(model, options)


def _compiled(model: "ModelSource", options: "CompileOptions") -> "Executable":
    """What runs the model: an interpreter, several devices, or native code."""
    executable: Executable
    if options.target.kind == "interpreter":
        executable = importlib.import_module("onnxc.compiler.interpreted").interpret_model(model, options)
    else:
        compiled_artifact = importlib.import_module("onnxc.compiler.artifact_cache.cached_artifact").compiled_artifact
        make_compiled = importlib.import_module("onnxc.runtime.load").make_compiled
        executable = make_compiled(compiled_artifact(model, options), options.threads)
    return executable


def compile_training(
    model: "ModelSource",
    target: str = "cpu",
    dims: "Mapping[str, DimRange] | None" = None,
    threads: int | None = None,
    cache: "CacheOption" = None,
    limits: "Limits | Mapping[str, int] | None" = None,
    operators: "Sequence[CustomOperator]" = (),
    allow_links: bool = False,
    seed: int = 0,
) -> "Trainer":
    """The trainer of a model with training information: `initialize()`, `step(inputs)`, `evaluate(inputs)`.

    Its initializations, its algorithms and the model itself are compiled, once for all sizes; their variables stay in
    place between calls (docs/training.md). Until `initialize` is called they are as the model has them.
    target: "cpu", or "interpreter". seed: where the random state begins.
    dims, threads, cache, limits, operators, allow_links: as for `compile`.

    Raises ModelError, UnsupportedError, InputError.
    """
    options = importlib.import_module("onnxc.compiler.options").make_options(
        target, dims, threads=threads, cache=cache, limits=limits, operators=operators, allow_links=allow_links
    )
    trainer: Trainer = importlib.import_module("onnxc.compiler.compile_training").compile_training(model, options, seed)
    return trainer


def make_training(
    model: "ModelSource",
    loss: str = "cross_entropy",
    optimizer: str = "sgd",
    *,
    output: str | None = None,
    trainable: Sequence[str] | None = None,
    learning_rate: float | None = None,
    settings: Mapping[str, float | str] | None = None,
    initialization: str | None = "he",
) -> "ModelProto":
    """The model with training information, as a message: `SerializeToString()` gives its bytes.

    loss: "cross_entropy" or "negative_log_likelihood" with an input `labels`, "mean_squared_error" or
    "mean_absolute_error" with an input `targets`, "output" where the model gives the loss itself.
    optimizer: "sgd", "momentum", "adam" or "adagrad"; settings: attributes of its operator, {"alpha": 0.95}.
    output: the value that the loss is of, None for the only output. The cross entropy is of what a Softmax reads.
    trainable: the initializers to train, None for all floats with an axis that the loss depends on.
    learning_rate: the default of the input `learning_rate` of a step; None is a usual one for the optimizer.
    initialization: how far random weights are spread, "he" or "glorot"; None keeps those of the model.

    Raises InputError, ModelError, UnsupportedError.
    """
    made: ModelProto = importlib.import_module("onnxc.compiler.make_training").make_training(
        model, loss, optimizer, output, trainable, learning_rate, settings, initialization
    )
    return made


def load(
    path: str | os.PathLike[str],
    weights: Literal["mapped", "resident"] = "mapped",
    threads: int | None = None,
    device: int = 0,
    graphs: bool = True,
    devices: str | None = None,
) -> "Executable":
    """The executable that `Executable.save` wrote. Nothing is compiled, and the compiler is not needed.

    weights: "mapped" shares the file's pages between processes; "resident" copies them once, into huge pages.
    device: the number of the CUDA device, for code for GPUs; graphs: whether repeated calls there become CUDA graphs.
    devices: of a model that was compiled with config=, what its devices are: "cpu:4" for threads of this process,
    "cuda:4" for its GPUs, None for which of these the code is; "mpi" for the processes that mpirun has started, each
    of which calls this (docs/multi_device.md).

    An artifact holds native code: load it only from whom you trust (docs/artifacts.md).

    Raises DeviceError where the file is damaged or made for another machine, InputError where there is none.
    """
    module = importlib.import_module("onnxc.runtime.load")
    executable: Executable = module.load(path, weights, threads, device=device, graphs=graphs, devices=devices)
    return executable


def verify(path: str | os.PathLike[str]) -> None:
    """Reads every byte of the file that `Executable.save` wrote, weights included.

    That they are what was written says nothing of who wrote them (docs/artifacts.md). Nothing is executed.

    Raises DeviceError that says what is damaged, InputError where there is no file.
    """
    importlib.import_module("onnxc.runtime.load").verify_artifact(path)


def check(
    model: "ModelSource",
    limits: "Limits | Mapping[str, int] | None" = None,
    operators: "Sequence[CustomOperator]" = (),
    allow_links: bool = False,
    opset: int | None = None,
    opset_imports: Mapping[str, int] | None = None,
    ir_version: int | None = None,
) -> "tuple[Diagnostic, ...]":
    """Every error and warning there is about the model; nothing is raised for what is wrong with it.

    model: as for `compile`, or a part of one, a message: a node, tensor, sparse tensor, attribute, graph, function or
    ValueInfoProto.
    limits, operators, allow_links, opset: as for `compile`.
    opset_imports, ir_version: the versions that a part is in, {"ai.onnx.ml": 5} and the like; else the newest of all
    that it uses (docs/parts.md).
    """
    inspect = importlib.import_module("onnxc.compiler.inspect_model")
    findings: tuple[Diagnostic, ...] = inspect.find_all(
        model, limits, operators, allow_links, opset, opset_imports, ir_version
    )
    return findings


def infer(
    model: "ModelSource",
    dims: "Mapping[str, DimRange] | None" = None,
    shapes: Mapping[str, Sequence[int | str | None]] | None = None,
    dtypes: "DTypesOption" = None,
    operators: "Sequence[CustomOperator]" = (),
    allow_links: bool = False,
    limits: "Limits | Mapping[str, int] | None" = None,
    opset: int | None = None,
) -> "ModelProto":
    """The model with the type of every value declared, as a message: `SerializeToString()` gives its bytes.

    dims, shapes, dtypes, operators, allow_links, limits, opset: as for `compile`; lists of sizes that options override
    become new ones where constants can say them (docs/overrides.md). What nodes of operators of others give is known as
    far as it is declared; a ModelWarning lists them.

    Raises ModelError where types contradict each other, UnsupportedError where a node of the standard is not known.
    """
    options = importlib.import_module("onnxc.compiler.options").make_options(
        "interpreter",
        dims,
        shapes,
        dtypes,
        limits=limits,
        operators=operators,
        allow_links=allow_links,
        opset=opset,
    )
    typed: ModelProto = importlib.import_module("onnxc.compiler.inspect_model").declare_types(model, options)
    return typed


def inline(
    model: "ModelSource",
    functions: Collection[str] | None = None,
    limits: "Limits | Mapping[str, int] | None" = None,
    allow_links: bool = False,
    opset: int | None = None,
) -> "ModelProto":
    """The model with its functions expanded where they are called, as a message: `SerializeToString()` gives its bytes.

    functions: which, each by its name, by its domain and name joined by a dot, or also by its overload after a colon;
    None means all. The others stay, with calls in their bodies expanded. A name of an operator of ai.onnx that the
    standard defines as a function means its nodes.
    limits, allow_links, opset: as for `compile`.

    All else that the model carries is kept; what a call says of itself, its metadata, documentation and devices, goes
    on to its nodes (docs/inlining.md).

    Raises ModelError where the model is wrong or would grow too large, InputError where there is no such function,
    UnsupportedError where no version of an operator set serves all nodes that come together, or the body of an operator
    depends on what is not known of a node.
    """
    inlined: ModelProto = importlib.import_module("onnxc.compiler.inline_model").expand_functions(
        model, functions, limits, allow_links, opset
    )
    return inlined


def diff(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    inputs: Mapping[str, object] | None = None,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    seed: int = 0,
    inner: bool = True,
) -> "Comparison":
    """What differs between two runs of a model, `b` being the one that is right (docs/comparing.md).

    a, b: paths, behind which "@" names what runs the model: "m.onnx@cpu", "@interpreter", "@cuda", "@onnxruntime",
    "@reference", with options as in "@cpu:precision=bf16"; `b` alone may leave out the path.
    inputs: values by name; those that are left out are drawn from `seed`, in the sizes that `dims` and `shapes` say.
    inner: whether the values in between are compared too.

    Raises InputError, ModelError, UnsupportedError; DeviceError where a runtime is not there, or fails.
    """
    comparison: Comparison = importlib.import_module("onnxc.comparing.diff").diff(
        a, b, inputs, dims, shapes, seed, inner
    )
    return comparison


def save_model(
    model: "ModelSource",
    path: str | os.PathLike[str],
    external_data: str | None = None,
    allow_links: bool = False,
) -> None:
    """Writes the model to a file; of its initializers the large ones may go into a file beside it (docs/weights.md).

    external_data: the name of that file, which a model of more than 2 GiB needs; None puts all into the model, what it
    has in other files included. What is written is streamed: it may be larger than memory.
    allow_links: as for `compile`.

    Whoever reads a path meanwhile sees the old file or the new one. Raises ModelError, InputError, DeviceError.
    """
    importlib.import_module("onnxc.compiler.inspect_model").write_model(model, path, external_data, allow_links)


def custom_operator(
    name: str = "",
    domain: str = "",
    *,
    since: int = 1,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    attributes: Mapping[str, str] | None = None,
    defaults: "Mapping[str, Default] | None" = None,
    function: "SupportsSerialize | None" = None,
    build: "BuildBody | None" = None,
    host: Callable[..., object] | str | None = None,
    native: str | None = None,
    triton: str | None = None,
    access: str | None = None,
    types: "TypeRule | None" = None,
) -> "CustomOperator":
    """An operator of the caller's own, for `compile(..., operators=[...])` or `register` (docs/custom_operators.md).

    name, domain, since: what nodes call; it holds from version `since` of the domain to the next one that is given.
    inputs, outputs: names in order; "bias?" may be left out, "rest..." is any number, at the end.
    attributes: the kind of each, "int", "float", "string", "ints", "floats", "strings" or "tensor"; "axes?" may be left
    out, and so may those that have a value in `defaults`.

    One of these is its body:
    function: a FunctionProto, which says name, domain, inputs, outputs and attributes itself.
    build: a function of the node and a builder that makes the outputs of ops, with the methods that
    onnxc.compiler.frontend.custom.face lists.
    host: a function that is called with NumPy arrays and the attributes by name, or its path "package.module:name".
    `types` then says the type of each output: a function of the node that gives a list of pairs of an element type and
    a shape, in which None is a size that only the call decides.
    native: a module of LLVM IR for CPUs, with `types` as for host. `access` says what a call of its function computes:
    so many "elements", so many "rows" along the last axis, or the "whole".
    triton: functions of Triton for GPUs, as a text, with `types` and `access` as for native. Of native, triton and host
    several may be given that mean the same: a target takes its own, and host where it has none.

    Raises InputError.
    """
    make = importlib.import_module("onnxc.compiler.frontend.custom.operators").custom_operator
    made: CustomOperator = make(
        name,
        domain,
        since=since,
        inputs=inputs,
        outputs=outputs,
        attributes=attributes,
        defaults=defaults,
        function=function,
        build=build,
        host=host,
        native=native,
        triton=triton,
        access=access,
        types=types,
    )
    return made


def register(*operators: "CustomOperator") -> "Registration":
    """Lets every `compile`, `check` and `infer` of this process see the operators, until they are unregistered.

    `with onnxc.register(op): ...` does so for a while; else keep what is returned and call its `unregister()`.

    Raises InputError where one of the same domain, name and version is registered.
    """
    made: Registration = importlib.import_module("onnxc.compiler.frontend.custom.registered").register(operators)
    return made


def convert_version(
    model: "ModelSource",
    opset: int,
    limits: "Limits | Mapping[str, int] | None" = None,
    allow_links: bool = False,
) -> "ModelProto":
    """The model in another version of ai.onnx, older or newer, as a message: `SerializeToString()` gives its bytes.

    opset: 1 to the newest that onnxc knows. limits, allow_links: as for `compile`.

    Every node means what it meant, those of functions and of graphs in nodes too, and all else that the model carries
    is kept (docs/versions.md). Other domains stay in their versions.

    Raises ModelError that names a node which that version cannot say, InputError for an opset that there is not.
    """
    converted: ModelProto = importlib.import_module("onnxc.compiler.model_versions").convert_source(
        model, opset, limits, allow_links
    )
    return converted


def extract(model: "ModelSource", outputs: Sequence[str], inputs: Sequence[str] | None = None) -> "ModelProto":
    """The part of the model that computes `outputs` from `inputs`, both names of any values of its graph.

    inputs: None means the inputs of the model that are needed. A weight may be one, which then is none any more.

    Weights, functions and all that is said of what stays are kept; training information is not (docs/parts.md).

    Raises ModelError where the model is wrong, InputError where the values make no part.
    """
    part: ModelProto = importlib.import_module("onnxc.compiler.model_parts").extract_source(model, inputs, outputs)
    return part


def split(model: "ModelSource", values: Sequence[str]) -> "tuple[ModelProto, ModelProto]":
    """The model in two: what computes `values`, and what goes on from them to the outputs.

    Raises ModelError where the model is wrong, InputError where the second part needs more of the first one.
    """
    parts: tuple[ModelProto, ModelProto] = importlib.import_module("onnxc.compiler.model_parts").split_source(
        model, values
    )
    return parts


def shard(model: "ModelSource", tp: int = 1, pp: int = 1, dp: int = 1) -> "ModelProto":
    """The model with a device configuration such as "tp4pp2", as a message: `compile(made, config="tp4pp2")` runs it.

    tp: over how many devices products with weights are divided, as in Megatron; what stands alone as costs least.
    pp: into how many stages the nodes are parted, with about as many bytes of weights each.
    dp: into how many blocks the batch is divided, the first axis of the inputs.

    There are tp * pp * dp devices. The annotations are those of the standard, and what is computed stays the same; an
    older IR version becomes 11, which is the first that has them (docs/multi_device.md).

    Raises ModelError where the model is wrong, InputError where there is nothing to divide or a configuration of that
    name, UnsupportedError where a node of the standard is not known.
    """
    made: ModelProto = importlib.import_module("onnxc.compiler.shard_model").shard_source(model, tp, pp, dp)
    return made


def simulate(
    model: "ModelSource",
    network: str | os.PathLike[str] | Mapping[str, object],
    dims: Mapping[str, int] | None = None,
    target: str = "cpu",
    config: str | None = None,
    tp: int = 1,
    pp: int = 1,
    dp: int = 1,
    devices: int | None = None,
    microbatches: int | None = None,
    precision: str = "fp32",
) -> "Simulation":
    """What a call should cost on the devices of a configuration: time, communication, and memory of each device.

    network: "alpha=5e-6,beta=2e-11", seconds of a message and of each byte; a path to a file of JSON with these, or
    what it holds: {"alpha": 5e-6, "beta": 2e-11, "node": {"devices": 8, "alpha": 2e-6, "beta": 2e-12}}, where the node
    is what is faster within so many devices that follow one another.
    dims: the sizes of the call, for every symbolic size of the inputs. target: what each device is, "cpu" for a core of
    this machine, "cuda:sm_90" for a GPU.
    config: the configuration, which need not be named where the model has one only; tp, pp, dp: in place of it, what
    `shard` would make. devices: how many there must be in it. microbatches, precision: as for `compile`.

    Nothing is computed or compiled, and floats in files beside the model are not read (docs/simulating.md).

    Raises ModelError, InputError, UnsupportedError.
    """
    simulation: Simulation = importlib.import_module("onnxc.compiler.simulation.simulate").simulate_source(
        model, network, dims, target, config, (tp, pp, dp), devices, microbatches, precision
    )
    return simulation


def rename(
    model: "ModelSource", names: Mapping[str, str] | None = None, prefix: str = "", node_prefix: str = ""
) -> "ModelProto":
    """The model with `prefix` before the names of its values and nodes, then with these other `names` of values.

    node_prefix: what stands before the names of nodes alone, before `prefix` where both are given. A node without a
    name gets none.

    Raises ModelError where the model is wrong, InputError for a value that there is not, or a name that is taken.
    """
    parts = importlib.import_module("onnxc.compiler.model_parts")
    renamed: ModelProto = parts.rename_source(model, names or {}, prefix, node_prefix)
    return renamed


def repair(model: "ModelSource") -> "ModelProto":
    """The model without those breaches of the standard that can mean one thing only.

    Nodes are put behind those whose values they use, in graphs within and functions too; graphs without a name get
    one; the IR version is 3 where opsets are imported before it, and 4 where 3 would want initializers to be inputs;
    operators of com.microsoft have their import; of initializers nothing is declared that they are not; attributes say
    their types; of constants that give one name to equal tensors the first stays, and one beside an input of its name
    is the default of the input. The rest is in docs/parts.md. What is right stays as it is.

    Raises ModelError where the model is wrong in anything else.
    """
    made: ModelProto = importlib.import_module("onnxc.compiler.model_parts").repair_source(model)
    return made


def merge(
    first: "ModelSource",
    second: "ModelSource",
    links: Mapping[str, str | Sequence[str]],
    *,
    shared: Iterable[str] = (),
) -> "ModelProto":
    """Both models as one, in which outputs of the first are inputs of the second: {"features": "x"}, or several of it.

    The models must not have names in common (`rename` gives them a prefix), but for those in `shared`: inputs of one
    type and equal constants, as the parts of a model have, each of which is one of the result. The models are in the
    newer of their versions of ai.onnx.

    Raises ModelError where a model is wrong or a node cannot be said in that version, InputError for wrong links, for
    common names and for shared ones that differ, UnsupportedError where versions of another domain differ.
    """
    part = importlib.import_module("onnxc.compiler.model_parts")
    merged: ModelProto = part.merge_sources(first, second, links, shared)
    return merged


def schemas(operator: str, domain: str = "") -> "tuple[Schema, ...]":
    """Every version of an operator, oldest first: its inputs, outputs, attributes and types; none for an unknown one.

    domain: the empty string is ai.onnx. The texts are on the page that `url` of a schema names.
    """
    definitions: tuple[Schema, ...] = importlib.import_module("onnxc.compiler.frontend.schemas").versions_of(
        domain, operator
    )
    return definitions


def to_text(model: "ModelSource", form: str = "onnxtxt") -> str:
    """The model as a text that `from_text` reads back as exactly this model (docs/text_forms.md).

    form: "onnxtxt", ONNX's own syntax; "textproto", protobuf's text format; or "json".

    Raises ModelError where the model has what no text can say, InputError for an unknown form.
    """
    text: str = importlib.import_module("onnxc.compiler.model_texts").text_of_model(model, form)
    return text


def from_text(text: str, form: str = "onnxtxt") -> "ModelProto":
    """The model that a text is, as a message: `SerializeToString()` gives its bytes. Files are read by their endings.

    form: as for `to_text`.

    Raises ModelError, which tells line and column of what is wrong; InputError for an unknown form.
    """
    model: ModelProto = importlib.import_module("onnxc.compiler.model_texts").model_of_text(text, form)
    return model


def __getattr__(name: str) -> object:
    """The version, and the classes DeviceArray (arrays on a GPU) and SparseTensor; only who asks for one loads it."""
    if name == "__version__":
        return _version()
    if name == "DeviceArray":
        return importlib.import_module("onnxc.runtime.gpu.arrays").DeviceArray
    if name == "SparseTensor":
        return importlib.import_module("onnxc.runtime.sparse_tensor").SparseTensor
    raise AttributeError(f"module 'onnxc' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What there is for callers."""
    return sorted([*__all__, "__version__"])


def _version() -> str:
    """The version that is installed; that of a source tree without an installation is 0.0.0+source."""
    metadata = importlib.import_module("importlib.metadata")
    try:
        version: str = metadata.version("onnxc")
    except metadata.PackageNotFoundError:
        return "0.0.0+source"
    return version
