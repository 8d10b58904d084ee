"""Divided programs on processes of MPI: rank i is device i, and runs its part of every call."""
