"""The official ONNX backend tests, run case by case and compared more strictly than the official runner does.

python -m tests.conformance [--jobs 2] [--filter REGEX] [--write-gaps]
"""
