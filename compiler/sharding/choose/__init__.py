"""The choice of how the products of a program are divided, which `onnxc.shard` writes into a model."""
