# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX under all options, drawn from ONNX's schemas, against two references."""
