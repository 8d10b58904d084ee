"""The command line: `onnxc compile | run | check | infer | inspect | bench | profile | demo`."""
