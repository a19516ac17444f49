# SPDX-License-Identifier: Apache-2.0
"""Networks as ONNX models: built from seeded random weights, or from trained ones (`digits`)."""
