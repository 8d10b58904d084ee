"""The command line: `onnxc compile | run | check | infer | inspect | demo`."""
