"""Groups of ops that share a kernel, once they are made."""
