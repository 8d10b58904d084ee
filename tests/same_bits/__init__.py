"""Two checkouts of onnxc beside each other: the same models and inputs, and whether the bits of the results agree."""
