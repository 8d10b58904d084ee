"""Attention on a CPU: by lines of keys, or by panels of queries, with the operands and the softmax of both."""
