"""What both code generators need natively: LLVM IR as text, object code, linked images, the thread pool."""
