# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite models as graphs: `import_tflite` reads and checks a model.

Importing this room does not load the package `tflite`; its functions do, at their first call.
"""

from vdla.compiler.graph.tflite.errors import TfliteError
from vdla.compiler.graph.tflite.import_tflite import import_tflite

__all__ = ["TfliteError", "import_tflite"]
