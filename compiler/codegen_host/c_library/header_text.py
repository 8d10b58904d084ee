"""The texts beside a C library: its header, and the file that makes it a target of CMake."""

from collections.abc import Iterator

from onnxc.compiler.codegen_host.c_library.library_call import LibraryCall
from onnxc.compiler.codegen_host.c_library.messages import INPUT_ERROR, OUT_OF_MEMORY, WEIGHTS_ERROR
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.target import Target

__all__ = ["cmake_text", "header_text"]

# What C calls an element; any other is as many bytes as it is long.
_C_TYPES = {
    "f64": "double", "f32": "float", "i64": "int64_t", "i32": "int32_t", "i16": "int16_t", "i8": "int8_t",
    "u64": "uint64_t", "u32": "uint32_t", "u16": "uint16_t", "u8": "uint8_t", "bool": "uint8_t, 0 or 1",
}  # fmt: skip

_HEADER = """\
/* {NAME}: {title}, compiled for {target}.

{sizes}   Arrays are dense, in row-major order, and belong to the caller; outputs share no memory with inputs.
   Shapes are arrays of one int64_t for each axis; of a scalar, nothing is read.

{arrays}
   What each function promises is in docs/c_library.md of onnxc. */

#ifndef {GUARD}
#define {GUARD}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

enum {{ {NAME}_inputs = {inputs}, {NAME}_outputs = {outputs} }};

/* What functions return; {NAME}_error has the text, and the object stays good for other calls. */
enum {{
    {NAME}_ok = 0,
    {NAME}_input_error = {input_error},
    {NAME}_out_of_memory = {memory},
    {NAME}_weights_error = {weights}
}};

/* One call at a time for each object; several objects may be used by several threads. */
typedef struct {NAME}_model {NAME}_model;

/* Sets *out, also after an error but one of memory; the path is that of the weights file, or NULL without one. */
int32_t {NAME}_open({NAME}_model **out, const char *weights_path, int32_t threads);

/* The sizes of outputs for those of inputs; -1 where only the call finds a size. */
int32_t {NAME}_shapes({NAME}_model *model, const int64_t *const *input_shapes, int64_t *const *output_shapes);

/* One call. outputs[k] is not looked at where {NAME}_late gives the output. */
int32_t {NAME}_run({NAME}_model *model, const void *const *inputs, const int64_t *const *input_shapes,
                   void *const *outputs);

/* An output whose sizes only the last call has found; it is there until {NAME}_shapes, _run or _close. */
int32_t {NAME}_late({NAME}_model *model, int32_t output, const void **data, int64_t *shape);

/* The text of the last error; `model` may be NULL where {NAME}_open gave none. */
const char *{NAME}_error({NAME}_model *model);

/* Gives all back; NULL is allowed. */
void {NAME}_close({NAME}_model *model);

#ifdef __cplusplus
}}
#endif

#endif
"""

_CMAKE = """\
cmake_minimum_required(VERSION 3.13)
project({NAME} C)

# add_subdirectory(this folder), then target_link_libraries(program {NAME}).
add_library({NAME} SHARED IMPORTED GLOBAL)
set_target_properties({NAME} PROPERTIES
    IMPORTED_LOCATION "${{CMAKE_CURRENT_SOURCE_DIR}}/lib{NAME}.so"
    IMPORTED_NO_SONAME TRUE
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_SOURCE_DIR}}")
"""


def header_text(call: LibraryCall, title: str, target: Target) -> str:
    """The header of the library."""
    lines = (*_array_lines("input", call, call.inputs), *_array_lines("output", call, call.outputs))
    sizes = [
        f"   {symbol.name}: {_range(symbol.low, symbol.high)}\n" for symbol in call.symbols if symbol.name in call.known
    ]
    return _HEADER.format(
        NAME=call.name,
        GUARD=f"{call.name.upper()}_H",
        title=_plain(title),
        target=target,
        sizes=_plain("".join(["   Sizes:\n", *sizes, "\n"] if sizes else [])),
        arrays="".join(f"   {_plain(line)}\n" for line in lines),
        inputs=len(call.inputs),
        outputs=len(call.outputs),
        input_error=INPUT_ERROR,
        memory=OUT_OF_MEMORY,
        weights=WEIGHTS_ERROR,
    )


def cmake_text(call: LibraryCall) -> str:
    """A CMakeLists.txt that names the library."""
    return _CMAKE.format(NAME=call.name)


def _array_lines(side: str, call: LibraryCall, arrays: tuple[tuple[str, TensorType], ...]) -> Iterator[str]:
    for ordinal, (name, type) in enumerate(arrays):
        nbytes = type.dtype.itemsize
        element = _C_TYPES.get(type.dtype.name, f"{nbytes} byte{'s' * (nbytes > 1)} an element")
        late = ", from the call" if side == "output" and ordinal in call.late else ""
        yield f"{side} {ordinal}: {name}: {type} ({element}){late}"


def _range(low: int, high: int | None) -> str:
    return f"{low} or more" if high is None else f"{low} to {high}"


def _plain(text: str) -> str:
    """A text that begins and ends no comment, with no control characters but line ends."""
    printable = "".join(c if c == "\n" or c.isprintable() else "?" for c in text)
    return printable.replace("*/", "* /").replace("/*", "/ *")
