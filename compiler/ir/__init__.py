"""What a program is and what it means: sizes, types, ops, their tables, printing, checking and interpreting."""

from onnxc.compiler.ir import primitives as primitives
