"""What a file is by its first bytes and its name, and why it cannot be read, for error messages.

Boards read files too: the standard library is enough.
"""

from __future__ import annotations

from os import PathLike
from pathlib import PurePath

_SEALED = {
    b"VDLAPROG": ("a program", "compile a network: vdla compile MODEL.onnx -o MODEL.vdla"),
    b"VDLAMODL": ("a compiled network", "compile an operator for a program: vdla compile C6 -o c6.vdla"),
}
_TO_ONNX = {
    ".tflite": ("a TensorFlow Lite model", "python -m tf2onnx.convert --tflite"),
    ".pb": ("a TensorFlow model", "python -m tf2onnx.convert --graphdef"),
    ".h5": ("a Keras model", "tf2onnx.convert.from_keras"),
    ".keras": ("a Keras model", "tf2onnx.convert.from_keras"),
    ".pt": ("a PyTorch model", "torch.onnx.export"),
    ".pth": ("a PyTorch model", "torch.onnx.export"),
    ".pt2": ("a PyTorch model", "torch.onnx.export"),
    ".safetensors": ("weights without a network", "torch.onnx.export of the model that has them"),
}


def reason(error: OSError) -> str:
    """Why a file cannot be read or written."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return error.strerror or str(error)


def of_another_framework(path: str | PathLike[str]) -> str | None:
    """What a model of another framework is, and the way to ONNX; None for other names."""
    found = _TO_ONNX.get(PurePath(path).suffix.lower())
    return None if found is None else f"{found[0]}; convert it to ONNX first: {found[1]}"


def kind_of(content: bytes, where: str) -> str:
    """What a file of the wrong kind is, and what to do."""
    if not content:
        return "an empty file"
    for magic, (kind, remedy) in _SEALED.items():
        if content.startswith(magic):
            return f"{kind}; {remedy}"
    if where.lower().endswith(".onnx"):
        return f"an ONNX model; compile it first: vdla compile {where} -o {PurePath(where).stem}.vdla"
    return of_another_framework(where) or f"one that begins with {content[:8]!r}"
