"""ImageDecoder, by the package Pillow where it is installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from io import BytesIO

import numpy as np

from vdla.runtime.numpy_operators.function import Array, Attributes, Function


def _decode(attributes: Attributes, data: Array) -> tuple[Array]:
    """[height, width, channels] of uint8."""
    try:
        pillow = import_module("PIL.Image")
    except ImportError:
        raise ValueError("the package Pillow must be installed to decode images; pip install pillow") from None
    image = pillow.open(BytesIO(data.tobytes()))
    match attributes.get("pixel_format", "RGB"):
        case "Grayscale":
            return (np.asarray(image.convert("L"))[..., None],)
        case "BGR":
            return (np.ascontiguousarray(np.asarray(image.convert("RGB"))[..., ::-1]),)
    return (np.asarray(image.convert("RGB")),)


IMAGES: Mapping[str, Function] = {"ImageDecoder": _decode}
