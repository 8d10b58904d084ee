"""The machine code of models compiled for a GPU, read where there is none and held to what fast kernels have."""
