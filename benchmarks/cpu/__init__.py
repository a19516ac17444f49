"""CPU kernels compared with ONNX Runtime and NumPy."""
