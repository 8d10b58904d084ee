"""The memory of one model object: the frame of its calls, and all that the frame leads to, in one block.

The frame comes first, so that the address of the object is that of the frame.
"""

import ctypes

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg
from onnxc.runtime.cpu import CACHE_LINE_BYTES
from onnxc.runtime.native.addresses import WORD_BYTES
from onnxc.runtime.native.workspaces import STATUS_WORDS
from onnxc.runtime.program import BUFFER_WORDS, HEAP_BUFFERS
from onnxc.runtime.records import record
from onnxc.runtime.thread_pool import PoolState

__all__ = ["ObjectLayout"]

_HANDLE_WORDS = 2


@record
class ObjectLayout:
    """Where each part is, in words: status block, heap, handle of the pool, arena (a buffer), and so on."""

    frame_words: int
    buffers: int

    @property
    def status(self) -> int:
        return self.frame_words

    @property
    def heap(self) -> int:
        return self.status + STATUS_WORDS

    @property
    def handle(self) -> int:
        return self.heap + HEAP_BUFFERS + BUFFER_WORDS * self.buffers

    @property
    def arena(self) -> int:
        return self.handle + _HANDLE_WORDS

    @property
    def has_results(self) -> int:
        """1 from the end of a call without an error to the next look at sizes."""
        return self.arena + BUFFER_WORDS

    @property
    def weights(self) -> int:
        """The address at which a weights file is mapped, 0 without one."""
        return self.has_results + 1

    @property
    def pool(self) -> int:
        """The pool of the threads of this object alone, on a cache line."""
        line = CACHE_LINE_BYTES // WORD_BYTES
        return -(-(self.weights + 1) // line) * line

    @property
    def text(self) -> int:
        """The text of the last error, up to the end of the object."""
        return self.pool + ctypes.sizeof(PoolState) // WORD_BYTES

    def nbytes(self, text_bytes: int) -> int:
        """The bytes of an object whose texts are so long, in whole cache lines."""
        return -(-(self.text * WORD_BYTES + text_bytes) // CACHE_LINE_BYTES) * CACHE_LINE_BYTES

    def address(self, f: FunctionBuilder, model: Reg, word: int) -> Reg:
        """Where a word of an object is."""
        return f.gep(model, word, "i64")
