"""The plain server that people write around ONNX Runtime: one request, one call, with the libraries that ours has.

`python -m benchmarks.serving.onnxruntime_server MODEL THREADS` prints its port. With `empty` behind them it calls the
model once only, and answers that to all: what is left is the cost of gRPC itself.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import onnxruntime

from onnxc.serving.proto.inference_pb2 import ModelInferRequest, ModelInferResponse

DTYPES = {"FP32": np.float32, "INT64": np.int64}


def main() -> None:
    """Serves until it is ended."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(sys.argv[2])
    is_empty = sys.argv[3:] == ["empty"]
    answers: list[ModelInferResponse] = []
    session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])

    def infer(request: ModelInferRequest, context: grpc.ServicerContext) -> ModelInferResponse:
        if is_empty and answers:
            return answers[0]
        feed = {
            tensor.name: np.frombuffer(data, DTYPES[tensor.datatype]).reshape(tuple(tensor.shape))
            for tensor, data in zip(request.inputs, request.raw_input_contents, strict=True)
        }
        response = ModelInferResponse(model_name=request.model_name, model_version="1")
        for info, array in zip(session.get_outputs(), session.run(None, feed), strict=True):
            response.outputs.add(name=info.name, datatype="FP32", shape=array.shape)
            response.raw_output_contents.append(array.tobytes())
        answers[:] = [response]
        return response

    handler = grpc.unary_unary_rpc_method_handler(
        infer, ModelInferRequest.FromString, ModelInferResponse.SerializeToString
    )
    service = grpc.method_handlers_generic_handler("inference.GRPCInferenceService", {"ModelInfer": handler})
    server = grpc.server(ThreadPoolExecutor(128))
    server.add_generic_rpc_handlers((service,))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
