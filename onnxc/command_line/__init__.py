"""The command line: `onnxc compile | run | check | infer | inspect | shard | bench | profile | demo`."""
