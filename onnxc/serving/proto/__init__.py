"""The messages of the protocol, generated from inference.proto by tools/generate_proto.py."""
