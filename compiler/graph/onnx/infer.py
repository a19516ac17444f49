"""Types of all values, by ONNX's inference."""

from __future__ import annotations

import onnx
from onnx import shape_inference

from vdla.compiler.graph.onnx.errors import OnnxError
from vdla.compiler.graph.onnx.load import LoadedModel


def infer_types(loaded: LoadedModel) -> LoadedModel:
    """The model with the types of its values, as far as they follow from those of the inputs.

    Raises:
        OnnxError: shapes or element types contradict each other.
    """
    try:
        content = loaded.model.SerializeToString()
        typed = shape_inference.infer_shapes(content, check_type=True, strict_mode=True, data_prop=True)
    except (shape_inference.InferenceError, RuntimeError, ValueError) as error:
        text = " ".join(str(error).split())
        raise OnnxError(f"{loaded.name}: types of all values must follow from the inputs, got: {text}") from error
    assert isinstance(typed, onnx.ModelProto)
    return loaded.with_model(typed)
