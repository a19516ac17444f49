# SPDX-License-Identifier: Apache-2.0
"""CPU kernels compared with ONNX Runtime and NumPy."""
