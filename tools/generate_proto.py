"""Make compiler/frontend/proto/onnxc_pb2.py and onnxc/serving/proto/inference_pb2.py, with stubs, from their .proto.

Run with a Python that has grpcio-tools of the 1.72 line (protoc 30, protobuf 6.30): what that compiler writes runs on
protobuf 6.30 and later, protobuf 7 included; what a later one writes needs a protobuf at least as new as itself.

    python -m venv /tmp/protoc && /tmp/protoc/bin/pip install "grpcio-tools==1.72.*"
    /tmp/protoc/bin/python tools/generate_proto.py
"""

import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("compiler/frontend/proto/onnxc.proto", "onnxc/serving/proto/inference.proto")


STUB_HEADER = '# mypy: disable-error-code="type-arg"\n'


def main() -> int:
    """The exit status of protoc; the file's name in the descriptor pool is its path from the repository's root."""
    options = (f"--proto_path={ROOT}", f"--python_out={ROOT}", f"--pyi_out={ROOT}")
    status = int(protoc.main(["protoc", *options, *SOURCES]))
    for source in SOURCES:
        stub = ROOT / source.replace(".proto", "_pb2.pyi")
        stub.write_text(STUB_HEADER + stub.read_text())
    return status


if __name__ == "__main__":
    sys.exit(main())
