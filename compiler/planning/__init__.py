"""Decisions that are neither IR nor code: which ops share a kernel, in which order, and where their results lie."""
