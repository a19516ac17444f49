"""ONNX's own test suite against the toolkit's backend."""
