"""ImageDecoder: the pixels of an encoded image."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import U8
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType

CHANNELS = {"RGB": 3, "BGR": 3, "Grayscale": 1}


@operator("ImageDecoder", since=(20,))
def image_decoder(node: Node, ir: Builder) -> Value:
    """encoded_stream: u8[n]  ->  u8[H, W, C]; of size 0 where it cannot be decoded. The host decodes.

    Source: https://onnx.ai/onnx/operators/onnx__ImageDecoder.html
    """
    encoded = node.input("encoded_stream")
    if encoded.rank != 1:
        message = f"encoded_stream is {encoded.type}, not a vector"
        node.fail("image-stream", message, rule="ONNX ImageDecoder, encoded_stream")
    pixels = node.choice("pixel_format", tuple(CHANNELS))
    type = TensorType(U8, (ir.fresh_symbol("height"), ir.fresh_symbol("width"), CHANNELS[pixels]))
    return ir.host("decode_image", (encoded,), (type,), {"pixel_format": pixels})[0]
