"""A small model that has what a page shows: a function, an If, device configurations, hostile names and odd weights."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HOSTILE = "</script><script>document.title='broken'</script><!-- /*DATA*/ \"'`${x}\0\u202e\u2028"


def example_model() -> onnx.ModelProto:
    """y = if flag then twice + 1 else twice, where twice = 2 (x @ w)."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    twice = helper.make_function("own", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], opsets[:1])
    product = helper.make_node("MatMul", ["x", "w"], ["product"], name="/encoder/layer.0/MatMul")
    devices = product.device_configurations.add(configuration_id="tp2", pipeline_stage=1)
    divided = devices.sharding_spec.add(tensor_name="w", device=[0, 1]).sharded_dim.add(axis=1)
    divided.simple_sharding.add(num_shards=2)
    odd = numpy_helper.from_array(np.array([0, 1, 5, np.nan, np.inf, 0], "f4").reshape(2, 3), "w")
    one = helper.make_node("Constant", [], ["one"], value=numpy_helper.from_array(np.float32(1), "one_value"))
    nodes = [
        product,
        one,
        helper.make_node("Twice", ["product"], ["twice"], domain="own", name=HOSTILE),
        helper.make_node(
            "If",
            ["flag"],
            ["y"],
            then_branch=_branch("Add", ["twice", "one"]),
            else_branch=_branch("Identity", ["twice"]),
        ),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2]),
        helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])]
    graph = helper.make_graph(nodes, HOSTILE, inputs, outputs, [odd])
    model = helper.make_model(graph, functions=[twice], opset_imports=opsets, ir_version=11)
    model.configuration.add(name="tp2", num_devices=2)
    return model


def _branch(operator: str, inputs: list[str]) -> onnx.GraphProto:
    result = helper.make_tensor_value_info(f"{operator}_result", TensorProto.FLOAT, None)
    return helper.make_graph([helper.make_node(operator, inputs, [result.name])], operator, [], [result])
