# SPDX-License-Identifier: Apache-2.0
"""ONNX models as graphs: `import_model` reads, checks, upgrades and types a model.

Importing this room does not load `onnx`; its functions do, at their first call.
"""

from vdla.compiler.graph.onnx.errors import OnnxError, UnsupportedError
from vdla.compiler.graph.onnx.import_model import import_model, infer_graph_types, infer_node_types, specialise

__all__ = ["OnnxError", "UnsupportedError", "import_model", "infer_graph_types", "infer_node_types", "specialise"]
