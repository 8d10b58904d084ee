"""Every diagnostic code of models, files, options, calls and devices: what it means, and the rule or source behind it.

Codes of the rules of single operators are here where the sources have no message beside them: docs/diagnostics.md
takes the others from the sources. A code never changes its meaning; tests/test_diagnostics_page.py holds that none is
missing here, none is here in vain, and each is shown by a test.
"""

from collections.abc import Mapping

__all__ = ["CODES", "SECTIONS"]

Rows = Mapping[str, tuple[str, str]]

FILES: Rows = {
    "external-data-name": (
        "external data is to be written to what is no file beside the model",
        "onnxc.save_model, external_data",
    ),
    "model-unwritable": ("the model cannot be written", "the file system"),
    "bad-path": ("what is given as a path can be none: of another type, with a NUL, or too long", "the file system"),
    "empty-model": ("the model file or text has no bytes", "protobuf"),
    "file-not-found": ("there is no such file", "the file system"),
    "invalid-utf8": ("a name or a text is not UTF-8", "ONNX IR, strings are UTF-8"),
    "model-too-large": ("a model without external data is more than one message holds", "protobuf, 2 GiB"),
    "not-a-plain-file": ("the path leads to a device, a FIFO, a socket or a folder", "the file system"),
    "not-a-model": ("the bytes are no protobuf message, or not one of a model", "ONNX IR, ModelProto"),
    "json-syntax": ("JSON text is malformed, or is not the JSON of a model", "protobuf, the JSON mapping"),
    "text-file": ("a file object was opened as text", "Python, open"),
    "text-syntax": ("a text is not in ONNX's text syntax", "ONNX, docs/Syntax.md"),
    "textproto-syntax": ("a text is not a model in protobuf's text format", "protobuf, the text format"),
    "truncated-model": ("the bytes end within a field", "protobuf, the wire format"),
    "unreadable-file": ("the file cannot be opened or read", "the file system"),
    "unwritable-text": (
        "a text form cannot say all of a model: text that is not UTF-8, or fields that no standard knows",
        "docs/text_forms.md",
    ),
    "unserializable-model": ("SerializeToString of the object fails", "protobuf, 2 GiB"),
}

HEADER: Rows = {
    "deprecated-operator": (
        "a warning: an operator is used in an opset that deprecates it",
        "ONNX, deprecated operators",
    ),
    "duplicate-metadata": ("the metadata of the model has a key twice", "ONNX IR, metadata_props"),
    "duplicate-opset-import": (
        "a domain is imported in two versions; a warning where it is the same one",
        "ONNX IR, operator sets",
    ),
    "duplicate-part-metadata": (
        "the metadata of a graph, node, function or value has a key twice",
        "ONNX IR, metadata_props",
    ),
    "later-ir-version": (
        "the model has what came with a later IR version than it names",
        "ONNX IR, versions",
    ),
    "missing-graph": ("the model has no graph", "ONNX IR, ModelProto"),
    "missing-graph-name": ("a graph has no name", "ONNX IR, graphs"),
    "missing-ir-version": ("the model has no IR version, or one below 1", "ONNX IR, ModelProto"),
    "missing-opset-import": (
        "an operator or a function is used whose domain is not imported",
        "ONNX IR, operator sets",
    ),
    "opset-version-range": ("the version of an imported opset is negative or has more than 31 bits", "onnx.checker"),
    "unexpected-opset-import": ("a model before IR version 3 imports opsets", "ONNX IR, versions"),
    "unsupported-ir-version": ("the IR version is newer than all that are known", "ONNX IR, versions"),
    "unsupported-opset-version": (
        "the version of an imported opset is not known; a warning where nothing uses it",
        "ONNX IR, operator sets",
    ),
}

NAMES: Rows = {
    "cycle": ("a value depends on itself", "ONNX IR, a graph has no cycles"),
    "duplicate-function-output": ("a function returns one name twice", "ONNX IR, functions"),
    "duplicate-name": ("a name is defined twice in one graph or function", "ONNX IR, single assignment"),
    "duplicate-node-name": ("two nodes of a graph have one name", "ONNX IR, names within a graph"),
    "duplicate-output": ("a graph returns one value twice", "ONNX IR, names within a graph"),
    "empty-name": ("an input, output, initializer or function has no name", "ONNX IR, names within a graph"),
    "initialized-subgraph-input": (
        "a name is an input of a nested graph and an initializer of it",
        "ONNX IR, nodes, from version 4",
    ),
    "not-topologically-sorted": ("a value is used before the node that defines it", "ONNX IR, order of nodes"),
    "output-from-outside": ("a nested graph returns a value of a graph around it", "ONNX IR, names within a graph"),
    "shadowed-name": (
        "a nested graph defines a name that is visible in it; a warning where the outer one comes later",
        "ONNX IR, no shadowing",
    ),
    "undefined-name": ("a name is used that nothing defines", "ONNX IR, names within a graph"),
}

TYPES: Rows = {
    "contradictory-value-info": ("a value is described by two types", "ONNX IR, value_info"),
    "declared-type": (
        "a value is declared otherwise than what its node gives; of a shape a warning",
        "ONNX IR, value_info",
    ),
    "value-info-without-value": ("a warning: a type is told of a value that there is not", "ONNX IR, value_info"),
    "duplicate-value-info": ("a value is described twice", "ONNX IR, value_info"),
    "element-type-missing": ("a tensor has no element type", "ONNX IR, TensorProto"),
    "element-type-unknown": ("an element type is a number that ONNX has not given", "TensorProto.DataType"),
    "incomplete-type": ("a type of an input, output or attribute leaves something open", "ONNX IR, TypeProto"),
    "initializer-shape": ("an initializer has another shape than is declared", "ONNX IR, initializers"),
    "initializer-type": ("an initializer has another type than is declared", "ONNX IR, initializers"),
    "initializer-without-input": ("an initializer is no input before IR version 4", "ONNX IR before version 4"),
    "input-without-type": ("an input has a type that cannot be fed", "ONNX IR, inputs of the main graph"),
    "map-key-type": ("the keys of a map are neither integers nor strings", "ONNX IR, TypeProto.Map"),
    "missing-shape": ("an input or output of the main graph has no shape", "ONNX IR, inputs of the main graph"),
    "missing-type": (
        "an input of the main graph has no type; a warning for an output",
        "ONNX IR, inputs of the main graph",
    ),
    "negative-size": (
        "a declared size is negative; a warning for -1, which is taken as unknown",
        "ONNX IR, static tensor shapes",
    ),
    "opaque-without-name": ("an opaque type has no name", "onnx.checker"),
    "quantization-key": (
        "an annotation has a key twice; a warning for one that the standard has not",
        "ONNX IR, quantization_annotation",
    ),
    "quantization-pair": (
        "a warning: a zero point has no scale, or one of another shape",
        "ONNX IR, quantization_annotation",
    ),
    "quantization-parameter": (
        "a scale or zero point does not exist, or a scale is not of a floating-point type",
        "ONNX IR, quantization_annotation",
    ),
    "quantization-tensor": ("the annotated tensor does not exist", "ONNX IR, quantization_annotation"),
    "duplicate-quantization": ("a tensor is annotated twice", "ONNX IR, quantization_annotation"),
    "unknown-denotation": ("a denotation is not one of the standard's", "ONNX IR, denotations"),
    "unsupported-type": ("a type cannot be fed or stored yet: opaque", "ONNX IR, TypeProto"),
}

TENSORS: Rows = {
    "external-data-checksum": ("the digest of an external file is not what the tensor says", "ONNX IR, external data"),
    "external-data-entry": ("an entry is there twice, or is no number of bytes", "ONNX IR, external data"),
    "external-data-length": ("the length in an external file is not that of the tensor", "ONNX IR, external data"),
    "external-data-link": ("the way to an external file leads through a link", "protection of other files"),
    "external-data-location": ("the location is missing, or not below the model's folder", "ONNX IR, external data"),
    "external-data-not-a-file": ("the location is no plain file", "protection of other files"),
    "external-data-not-found": ("there is no external file of that name", "the file system"),
    "external-data-range": ("the data goes on beyond the end of the external file", "ONNX IR, external data"),
    "external-data-unreadable": ("the external file cannot be opened", "the file system"),
    "external-data-without-folder": ("the model has external data and came from no file", "ONNX IR, external data"),
    "sparse-index-order": ("indices of a sparse tensor do not ascend", "ONNX IR, SparseTensorProto"),
    "sparse-index-range": ("an index of a sparse tensor is outside its shape", "ONNX IR, SparseTensorProto"),
    "safetensors-header": ("a file named as one of safetensors is none", "safetensors, the format"),
    "safetensors-tensor": (
        "a safetensors file has no tensor of that name, or one of another type or shape",
        "safetensors, the format; ONNX IR, external data",
    ),
    "sparse-indices": ("the indices are missing, not int64 or of another shape", "ONNX IR, SparseTensorProto"),
    "sparse-shape": (
        "a stored sparse tensor has no axis, or an empty one; the shape of one that a call passes is none",
        "ONNX IR, SparseTensorProto",
    ),
    "sparse-values": ("the values of a sparse tensor are missing or not a vector", "ONNX IR, SparseTensorProto"),
    "tensor-data-ambiguous": ("a tensor has data in two places", "ONNX IR, TensorProto"),
    "tensor-data-length": ("a tensor has more or less data than its shape takes", "ONNX IR, TensorProto"),
    "tensor-data-location": ("the data location is a number that ONNX has not given", "ONNX IR, TensorProto"),
    "tensor-data-missing": ("a tensor has no data", "ONNX IR, TensorProto"),
    "tensor-segment": ("a tensor holds a segment of another", "ONNX IR, TensorProto"),
    "tensor-shape": ("the shape of a tensor is negative, or beyond any memory", "ONNX IR, TensorProto"),
    "tensor-storage": ("the elements are in a field of another element type", "ONNX IR, TensorProto"),
    "tensor-value": ("an entry is no element of the element type", "ONNX IR, TensorProto"),
}

NODES: Rows = {
    "attribute-ambiguous": ("an attribute has two values", "ONNX IR, AttributeProto"),
    "attribute-reference-outside-function": (
        "an attribute refers to a parameter and is in no function",
        "ONNX IR, AttributeProto",
    ),
    "attribute-type": (
        "an attribute has a value of another type than it or its operator says",
        "ONNX IR, AttributeProto",
    ),
    "attribute-value": ("an attribute has a value that its operator does not take", "the operator"),
    "attribute-value-and-reference": ("an attribute has a value and refers to a parameter", "ONNX IR, AttributeProto"),
    "attribute-without-name": ("an attribute has no name", "ONNX IR, AttributeProto"),
    "attribute-without-type": ("an attribute does not say its type, from IR version 2", "ONNX IR, AttributeProto"),
    "attribute-without-value": ("an attribute or a default has no value", "ONNX IR, AttributeProto"),
    "axis-out-of-range": ("an axis is outside the rank of the operand", "the operator"),
    "duplicate-attribute": ("an attribute is there twice", "ONNX IR, AttributeProto"),
    "input-count": ("a node, or a call, is given too many or too few inputs", "the operator's schema"),
    "missing-attribute": ("a required attribute is absent", "the operator's schema"),
    "missing-input": ("a required input is left out", "the operator's schema"),
    "missing-operator": ("a node has no operator", "ONNX IR, nodes"),
    "missing-output": ("a required output is left out", "the operator's schema"),
    "node-without-outputs": ("a call has no output", "ONNX IR, graphs"),
    "operator-not-in-opset": ("the operator is new in a later opset than is imported", "ONNX IR, operators"),
    "output-count": ("a node has too many or too few outputs", "the operator's schema"),
    "branch-types": ("what the branches of an If give cannot be of one type", "ONNX If"),
    "carried-type": ("a value that a loop carries changes to a type that is not that of it before", "ONNX Loop, body"),
    "repeated-axis": ("an axis is named twice", "the operator"),
    "subgraph-input-type": ("a graph is given a value of another type than it declares", "the operator"),
    "subgraph-arity": ("a graph takes or returns another number of values than its node calls for", "the operator"),
    "type-constraint": ("an operand is of a type that the operator does not take", "the operator's schema"),
    "type-mismatch": ("two operands of one type constraint differ", "the operator's schema"),
    "unknown-attribute": ("the operator or function has no such attribute", "the operator's schema"),
    "unknown-domain": (
        "no operator set of the domain is known; a warning where it is imported, or nothing calls it",
        "ONNX IR, operators",
    ),
    "unknown-element-type": ("an attribute names an element type that there is not", "TensorProto.DataType"),
    "unknown-operator": (
        "the operator set has no such operator, in any version; a warning where it is not the standard's",
        "ONNX IR, operators",
    ),
    "unsupported-node": ("the node is legal and cannot be compiled yet", "onnxc"),
}

FUNCTIONS: Rows = {
    "duplicate-function": ("two functions have one domain, name and overload", "ONNX IR, functions"),
    "function-default": (
        "a default would be lost where a function is expanded in one that stays",
        "onnxc.inline, functions",
    ),
    "function-opset": ("an operator means another version in the function than in the model", "ONNX IR, functions"),
    "function-without-domain": ("a function has no domain, from IR version 8", "onnx.checker"),
    "opset-conflict": (
        "no version of an operator set serves all nodes that come together where functions are expanded",
        "onnxc.inline",
    ),
    "overload-version": ("a function has an overload before IR version 10", "ONNX IR, functions"),
    "recursive-function": ("a function calls itself, directly or not", "ONNX IR, functions"),
    "opset-conversion": (
        "a node cannot be said in the version that a model is converted to",
        "onnxc.convert_version, docs/versions.md",
    ),
    "unknown-function": ("there is no function of that name", "onnxc.inline, functions"),
    "unknown-attribute-reference": (
        "an attribute refers to a parameter that the function has not",
        "ONNX IR, functions",
    ),
}

TRAINING: Rows = {
    "duplicate-training-binding": ("a binding assigns to one initializer twice", "ONNX IR, TrainingInfoProto"),
    "training-binding-key": ("a binding assigns to what is no initializer", "ONNX IR, TrainingInfoProto"),
    "shared-training-variable": ("two algorithms update one initializer", "ONNX IR, TrainingInfoProto"),
    "training-binding-type": (
        "a binding assigns a value of another type or shape than its initializer",
        "ONNX IR, TrainingInfoProto",
    ),
    "training-binding-value": ("a binding takes what is no output of its graph", "ONNX IR, TrainingInfoProto"),
    "training-initialization-input": ("an initialization has an input", "ONNX IR, TrainingInfoProto"),
    "unsupported-training-variable": (
        "a binding assigns texts, or elements that share a byte",
        "onnxc.compile_training",
    ),
    "training-without-initialization": ("there are initialization bindings and no graph", "ONNX IR, TrainingInfoProto"),
}

DEVICES: Rows = {
    "device-configuration-name": ("a device configuration has no name", "ONNX IR, multi-device configuration"),
    "device-configuration-version": ("there are device configurations before IR version 11", "ONNX IR, versions"),
    "device-count": ("a device configuration has no device", "ONNX IR, multi-device configuration"),
    "device-names": (
        "a device configuration names more or fewer devices than it has",
        "ONNX IR, multi-device configuration",
    ),
    "duplicate-device-configuration": (
        "two device configurations have one name",
        "ONNX IR, multi-device configuration",
    ),
    "duplicate-node-configuration": (
        "a node is configured twice for one configuration",
        "ONNX IR, multi-device configuration",
    ),
    "duplicate-sharding": ("a tensor has two shardings in one configuration of a node", "ONNX IR, ShardingSpecProto"),
    "ignored-configuration": (
        "a warning: the model is divided over devices, and is compiled for one",
        "onnxc.compile",
    ),
    "pipeline-order": (
        "a warning: a node reads what a later pipeline stage makes",
        "ONNX IR, multi-device configuration",
    ),
    "pipeline-stage": ("a pipeline stage is negative", "ONNX IR, multi-device configuration"),
    "sharding-axis": ("a divided axis is missing, outside the rank, or divided twice", "ONNX IR, ShardedDimProto"),
    "sharding-device": (
        "a sharding lists no device, one twice or beside its group, or one that there is not",
        "ONNX IR, ShardingSpecProto",
    ),
    "sharding-device-count": ("there are more or fewer devices than shards", "ONNX IR, ShardingSpecProto"),
    "sharding-factors": (
        "the factors of an axis do not give its size, or leave it open",
        "ONNX IR, SimpleShardedDimProto",
    ),
    "sharding-group": (
        "a device group is empty, there twice, or shares a device; a warning where it repeats one",
        "ONNX IR, ShardingSpecProto",
    ),
    "sharding-order": ("the axes of a sharding are not in ascending order", "ONNX IR, ShardedDimProto"),
    "sharding-shards": (
        "an axis is divided into fewer than one shard, or not at all",
        "ONNX IR, SimpleShardedDimProto",
    ),
    "sharding-size-name": ("a factor of an axis has a name that no size has", "ONNX IR, SimpleShardedDimProto"),
    "sharding-tensor": ("a sharding is of no input or output of its node", "ONNX IR, ShardingSpecProto"),
    "unsupported-devices": ("devices= names a kind that does not run yet", "onnxc.compile, onnxc.load"),
    "unknown-devices": ("devices= names no kind and number of devices", "onnxc.compile, onnxc.load"),
    "devices-without-config": (
        "devices= is given without config=, or for what was compiled without",
        "onnxc.compile, onnxc.load",
    ),
    "comm-timeout": ("ONNXC_COMM_TIMEOUT is no number of seconds", "onnxc.compile"),
    "mpi-missing": ("devices='mpi' is given where mpi4py or its MPI library is missing", "onnxc.load"),
    "ranks-unconnected": ("a rank of MPI does not reach all others by TCP, or not all have come", "onnxc.load"),
    "artifacts-differ": ("ranks of MPI have loaded different artifacts", "onnxc.load"),
    "overlapping-calls": ("two threads of a rank of MPI are in calls at once", "Executable.__call__"),
    "device-lost": ("a rank of MPI has died, or has ended while others wait for it", "Executable.__call__"),
    "device-failed": ("a device failed in a call of several", "Executable.__call__"),
    "device-stalled": (
        "a device did not come to an exchange within the time limit, or its process hangs",
        "Executable.__call__",
    ),
    "device-stopped": ("a device was ended because another one failed", "Executable.__call__"),
    "collectives-differ": ("devices come to different exchanges: a defect of ours", "Executable.__call__"),
    "collective-alone": ("a program for several devices runs on one", "Executable.__call__"),
    "unsupported-pipeline": ("pipeline stages are legal and cannot be executed yet", "onnxc.compile"),
    "ignored-sharding": ("a warning: a branch or a loop is not divided as its nodes say", "onnxc.compile"),
    "unsupported-microbatches": ("a model does not let itself be parted along its batch", "onnxc.compile"),
    "microbatches-without-stages": ("microbatches= is given for what has one pipeline stage", "onnxc.compile"),
    "microbatch-count": ("microbatches= is below 1", "onnxc.compile"),
    "unsupported-sharding": ("a sharding is legal and cannot be executed yet", "onnxc.compile"),
    "config-taken": ("the model has a configuration of the name that the counts give", "onnxc.shard"),
    "shard-count": ("tp, pp or dp are such that nothing is divided, or more than there is", "onnxc.shard, tp, pp, dp"),
    "unknown-config": ("config= names what the model has not", "onnxc.compile"),
    "device-count-differs": (
        "devices= asks for another number of devices than config= has, or that many ranks of MPI run",
        "onnxc.compile, onnxc.load",
    ),
    "unknown-device-configuration": (
        "a node is configured for what the model has not",
        "ONNX IR, multi-device configuration",
    ),
}

LIMITS: Rows = {
    "code-too-large": ("the native code has too many instructions", "limits, code_instructions"),
    "expansion-too-large": ("expanding all calls adds too many nodes", "limits, expanded_nodes"),
    "folding-limit": (
        "an op on constants is left for the run; a note, not an error",
        "limits, folding_work, folding_bytes",
    ),
    "limit-range": ("a limit is given a number that it cannot have", "compiler/limits.py"),
    "model-too-complex": ("the nodes become too many ops", "limits, lowered_ops"),
    "name-too-long": ("a name is too long", "limits, name_bytes"),
    "nesting-too-deep": (
        "graphs, calls, types or messages are nested too deeply",
        "limits, nesting_depth, type_depth; protobuf",
    ),
    "size-too-complex": ("a size is computed from others in too long a formula", "compiler/ir/dims.py"),
    "sparse-tensor-too-large": ("a sparse tensor made dense is too large", "limits, dense_bytes"),
    "tensor-rank": ("a stored tensor has too many axes", "limits, tensor_rank; NumPy"),
    "too-many-axes": ("a declared tensor has too many axes", "limits, tensor_rank; NumPy"),
    "too-many-elements": ("a declared tensor has too many elements", "limits, tensor_elements"),
    "too-many-functions": ("the model has too many functions", "limits, functions"),
    "unknown-limit": ("there is no limit of that name", "compiler/limits.py"),
}

OPTIONS: Rows = {
    "c-library-target": ("a C library is asked for a target that is no processor", "onnxc compile --emit c-library"),
    "c-library-unwritable": ("a file of a C library cannot be written", "onnxc compile --emit c-library"),
    "c-name": ("a C library is given a name that is no identifier of C", "onnxc compile --emit c-library"),
    "no-c-library": (
        "the model needs the host, or has inputs or outputs that are no tensors of numbers",
        "onnxc compile --emit c-library",
    ),
    "custom-operator": ("a custom operator is declared in a way that cannot be", "onnxc.custom_operator"),
    "duplicate-custom-operator": (
        "two custom operators have one domain, name and version",
        "onnxc.register; onnxc.compile, operators",
    ),
    "dims-range": ("a size, or a range of sizes, that cannot be", "onnxc.compile, dims"),
    "merge-links": ("links lead from no output of one model to no input of the other", "onnxc.merge, links"),
    "name-taken": ("a name that is to be given is taken, or two models have it", "onnxc.rename, onnxc.merge"),
    "part-values": ("values do not make a part of a model", "onnxc.extract, onnxc.split"),
    "unknown-value": ("the model has no value of that name", "onnxc.rename, onnxc.extract, onnxc.split"),
    "opset-contradiction": ("opset is another than the model imports", "onnxc.compile, opset"),
    "opset-range": ("there is no such version of ai.onnx", "onnxc.convert_version, opset; onnxc.compile, opset"),
    "unknown-text-form": ("there is no text form of that name", "onnxc.to_text, form"),
    "option-type": ("an option is given a value of another type", "onnxc.compile"),
    "shape-range": ("shapes gives a negative size", "onnxc.compile, shapes"),
    "overridden-size": (
        "a node holds a size that shapes overrides, and what it means with the new one cannot be told",
        "onnxc.compile, shapes",
    ),
    "shape-rank": ("shapes gives another rank than the model declares", "onnxc.compile, shapes"),
    "sparse-default": ("a sparse input with a default is to stay an input", "onnxc.compile, freeze_params"),
    "specialize-fixed": ("specialize names a size that dims fixes", "onnxc.compile, specialize"),
    "specialize-range": ("sizes to specialize that cannot be, or are listed twice", "onnxc.compile, specialize"),
    "thread-count": ("fewer than one thread", "onnxc.compile, threads"),
    "too-many-specializations": ("specialize asks for too many combinations of sizes", "onnxc.compile, specialize"),
    "weights-inside": ("weights are too large for the inside of a C library", "onnxc compile --weights-file"),
    "unknown-dim": ("dims or specialize names a size that no input has", "onnxc.compile, dims, specialize"),
    "unknown-dtype": ("dtypes names what is no element type", "onnxc.compile, dtypes"),
    "unknown-precision": ("there is no such precision", "onnxc.compile, precision"),
    "no-profile": ("the target has no kernels whose times are recorded", "Executable.profile"),
    "unsupported-device": ("the official test runner asks for another device", "onnxc.backend"),
    "has-training-information": ("the model has training information already", "onnxc.make_training"),
    "no-training-information": ("the model has no training information", "onnxc.compile_training"),
    "seed-range": ("a seed is no integer, or outside its range", "onnxc.compile_training"),
    "training-output": ("the loss is of no value of the model, of several, or of no float", "onnxc.make_training"),
    "training-weights": ("there is nothing to train, or what is named cannot be trained", "onnxc.make_training"),
    "unknown-training-choice": ("there is no such loss, optimizer or setting", "onnxc.make_training"),
    "unsupported-training-target": ("training is asked for on a GPU", "onnxc.compile_training, target"),
    "unsupported-precision": ("the target has no arithmetic of that precision", "onnxc.compile, precision"),
    "unsupported-option": ("the option is known and not supported yet", "onnxc.compile"),
}

CALLS: Rows = {
    "call-count": ("a profile of no call, or of a number of calls that is none", "Executable.profile"),
    "declared-shape": ("a value has another shape than is declared, as data tells", "ONNX IR, value_info"),
    "frozen-input": ("a call passes an input that is compiled in as a constant", "onnxc.compile, freeze_params"),
    "illegal-data": ("the data of an input is outside what an operator takes", "the operator"),
    "impossible-size": ("a size that data gives is negative, or beyond any memory", "the operator"),
    "index-out-of-range": ("an index is outside its axis", "the operator"),
    "input-device": ("an input is on a device and cannot be read here", "Executable"),
    "input-dtype": ("an input has another element type", "Executable"),
    "input-mapping": ("run is called with what is no mapping from names", "Executable.run"),
    "input-range": ("a Python number does not fit the element type", "Executable"),
    "input-rank": ("an input has another rank", "Executable"),
    "input-shape": ("an axis of an input has another size than is declared", "Executable"),
    "input-twice": ("an input comes by position and by name", "Executable"),
    "input-type": ("an input is no array, sparse tensor, sequence or map", "Executable"),
    "out-of-memory": ("the sizes of the inputs ask for more memory than there is", "Executable"),
    "output-mapping": ("out is no mapping from names", "Executable.run, out"),
    "output-shape": ("an array to write into has another shape than the output", "Executable.run, out"),
    "output-type": ("an array to write into has another type, or cannot be written to", "Executable.run, out"),
    "size-out-of-range": ("a symbolic size is outside the range that was compiled for", "onnxc.compile, dims"),
    "sizes-disagree": ("two axes that must be equal are not", "the model's signature"),
    "stream-without-device": ("a stream is passed to code for the CPU", "Executable"),
    "unknown-input": ("there is no input of that name", "Executable.run"),
    "custom-operator-failed": (
        "the body or the rule of types of a custom operator raised an exception",
        "onnxc.custom_operator",
    ),
    "custom-operator-result": (
        "the body or the rule of types of a custom operator gave what does not fit what is declared",
        "onnxc.custom_operator",
    ),
    "state-mapping": ("a state lacks a variable, has another, or is no mapping", "Trainer.load_state"),
    "state-shape": ("a variable is given in another shape", "Trainer.load_state"),
    "training-update-shape": ("a new value has another shape than its variable", "Trainer.step"),
    "unknown-algorithm": ("there is no algorithm of that ordinal", "Trainer.step"),
    "unknown-weight": ("with_weights names what is no input with a default", "Executable.with_weights"),
    "weight-shape": ("a weight is given in another shape", "Executable.with_weights"),
    "weights-mapping": ("with_weights is given what is no mapping from names", "Executable.with_weights"),
    "unknown-output": ("there is no output of that name", "Executable.run, out"),
    "absent-optional": ("an optional that is empty is taken out", "ONNX OptionalGetElement"),
    "complex-signal": ("the axis of complex numbers does not have two elements", "ONNX DFT"),
    "empty-sequence": ("an element of an empty sequence is needed", "ONNX, sequences"),
    "map-key": ("a map has no such key", "ONNX, maps"),
    "sequence-position": ("a position is outside a sequence", "ONNX, sequences"),
    "split-size": ("the sizes of a split do not add up", "ONNX SplitToSequence"),
    "text-not-a-number": ("a text that is cast is no number", "ONNX Cast"),
    "transform-length": ("a transform has no length", "ONNX DFT"),
}

ARTIFACTS: Rows = {
    "artifact-changed": ("the file of a pickled executable holds another artifact by now", "pickle"),
    "artifact-malformed": ("the artifact breaks its own format", "onnxc.load"),
    "artifact-unwritable": ("the artifact cannot be written", "the file system"),
    "artifact-version": ("the artifact is of another version of onnxc", "onnxc.load"),
    "custom-function-missing": (
        "the function of a custom operator cannot be imported where the model is loaded",
        "onnxc.custom_operator, host",
    ),
    "image-architecture": ("the code is for another architecture", "onnxc.load"),
    "image-features": ("the code needs what this processor has not", "onnxc.load"),
    "image-load": ("the system does not map the code", "onnxc.load"),
    "image-malformed": ("the code breaks its own format", "onnxc.load"),
    "image-missing": ("the artifact has no code for this machine", "onnxc.load"),
    "image-symbol": ("the code lacks a function", "onnxc.load"),
    "image-truncated": ("the code ends too early", "onnxc.load"),
    "image-unreadable": ("the code cannot be read", "onnxc.load"),
    "image-version": ("the code is of another version of onnxc", "onnxc.load"),
    "library-missing": ("an optional library is not installed", "onnxc"),
    "no-artifact": ("what the interpreter runs cannot be saved", "Executable.save"),
    "not-an-artifact": ("the file is no artifact", "onnxc.load"),
    "unfit-step": (
        "a step of the program does not take what came to it: it was changed, or onnxc is wrong",
        "onnxc.load",
    ),
    "unknown-host-function": ("the artifact calls a function that this version has not", "onnxc.load"),
    "weights-mode": ("there is no such way to keep weights", "onnxc.load, weights"),
}

OPERANDS: Rows = {
    "attention-lengths": ("there is not one number of valid keys for each batch", "ONNX Attention, nonpad_kv_seqlen"),
    "attention-past": ("past_key or past_value does not fit K or V", "ONNX Attention, past_key"),
    "attention-shape": ("Q, K and V do not fit one another", "ONNX FlexAttention"),
    "causal-conv-state": ("past_state is not the last k - 1 inputs of each channel", "ONNX CausalConvWithState"),
    "bias-shape": ("a bias or addend has another shape than what it is added to", "ONNX Runtime, BiasGelu and others"),
    "causal-conv-weight": ("the weight is not one kernel for each channel", "ONNX CausalConvWithState"),
    "crop-shape": ("there is not one size for each axis that is cropped or padded", "ONNX CenterCropPad, shape"),
    "deform-mask": ("the mask has not one value for each tap and place", "ONNX DeformConv, mask"),
    "deform-offset": ("the offsets are not a coordinate for each tap and place", "ONNX DeformConv, offset"),
    "distance-shape": ("the operands are no rows of one width", "ONNX Runtime CDist"),
    "embedding-rank": ("the indices are not one row for each batch", "ONNX Runtime EmbedLayerNormalization"),
    "expand-incompatible": ("the shape and that of the input do not broadcast", "ONNX Expand, shape"),
    "expert-shape": ("the weights of experts or of their router do not fit", "ONNX Runtime MoE"),
    "fused-sum": ("the addend has another shape than the convolution", "ONNX Runtime FusedConv, Z"),
    "grid-shape": ("the grid is not a position in X for each element", "ONNX GridSample, grid"),
    "linear-attention-heads": ("the features are not those of so many heads", "ONNX LinearAttention, q_num_heads"),
    "linear-attention-shape": ("the operands do not fit one another", "ONNX LinearAttention"),
    "matmul-zero-point": ("a zero point is for neither the matrix, nor its rows or columns", "ONNX MatMulInteger"),
    "mel-size": ("a number of bands or bins is negative", "ONNX MelWeightMatrix"),
    "nms-boxes": ("the boxes are not four coordinates each", "ONNX NonMaxSuppression, boxes"),
    "nms-scores": ("there is not one score for each box and class", "ONNX NonMaxSuppression, scores"),
    "normalization-parameter": ("a scale or bias does not broadcast to what is normalised", "ONNX LayerNormalization"),
    "one-hot-values": ("the values are not two: off and on", "ONNX OneHot, values"),
    "quantization-blocks": (
        "a scale or zero point has not one value for each block",
        "ONNX QuantizeLinear, block_size",
    ),
    "recurrent-shape": ("weights, biases, states or lengths do not fit X", "ONNX RNN, GRU, LSTM"),
    "resize-lengths": ("there is not one scale or size for each axis", "ONNX Resize, scales and sizes"),
    "resize-size": ("a size is negative", "ONNX Resize, sizes"),
    "roi-shape": ("the regions, or the batches they are in, have another shape", "ONNX RoiAlign, rois"),
    "scan-lengths": ("there is not one length for each batch", "ONNX Scan-8, sequence_lens"),
    "scatter-updates": ("the updates have not the shape that the indices ask for", "ONNX ScatterND, updates"),
    "sizes-differ": ("two sizes that must be equal are not", "ONNX, shapes of inputs"),
    "slice-range": ("the body of a custom operator slices elements that there are not", "onnxc.custom_operator, build"),
    "tile-repeats": ("there is not one number for each axis", "ONNX Tile, repeats"),
    "window-size": ("a window has a negative number of elements", "ONNX HannWindow, size"),
}

SECTIONS: Mapping[str, Rows] = {
    "Files": FILES,
    "The model as a whole": HEADER,
    "Names": NAMES,
    "Types and declarations": TYPES,
    "Tensors and external data": TENSORS,
    "Nodes and attributes": NODES,
    "Functions": FUNCTIONS,
    "Shapes of operands": OPERANDS,
    "Training": TRAINING,
    "Devices and sharding": DEVICES,
    "Limits": LIMITS,
    "Options": OPTIONS,
    "Calls": CALLS,
    "Artifacts": ARTIFACTS,
}

CODES: Rows = {code: row for rows in SECTIONS.values() for code, row in rows.items()}
