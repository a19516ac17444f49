"""ONNX models as graphs: `import_model` reads, checks, upgrades and types a model.

Importing this room does not load `onnx`; `import_model` does, at its first call.
"""

from vdla.compiler.graph.onnx.errors import OnnxError, UnsupportedError
from vdla.compiler.graph.onnx.import_model import import_model

__all__ = ["OnnxError", "UnsupportedError", "import_model"]
