"""Finds everything that is wrong with a model, at once, before anything is compiled."""

from onnx import TensorProto, helper

import onnxc


def main() -> None:
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], "embed", axis="first"),
        helper.make_node("Relu", ["row"], ["active"], "activate"),
        helper.make_node("Softmax", ["active", "rows"], ["y"], "normalise"),
    ]
    inputs = [
        helper.make_tensor_value_info("table", TensorProto.FLOAT, [100, 8]),
        helper.make_tensor_value_info("ids", TensorProto.INT64, ["N"]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 8])]
    model = helper.make_model(helper.make_graph(nodes, "main", inputs, outputs), ir_version=10)
    for finding in onnxc.check(model):
        print(finding)


if __name__ == "__main__":
    main()
