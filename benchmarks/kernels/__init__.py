# SPDX-License-Identifier: Apache-2.0
"""Single operators on one thread of this CPU, against ONNX Runtime."""
