"""The thread pool as LLVM IR: its protocol, its state, the processors of its workers, loops that are recorded."""
