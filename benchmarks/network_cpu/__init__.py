"""Convolutional networks wholly on the CPU, compared with ONNX Runtime and OpenVINO."""
