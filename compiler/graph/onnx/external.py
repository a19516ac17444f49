"""External data of tensors: bytes of files in the folder of the model, and of no other place."""

from __future__ import annotations

from pathlib import Path

from onnx import TensorProto

from vdla.compiler.graph.onnx.errors import OnnxError


def with_data(tensor: TensorProto, folder: Path | None) -> TensorProto:
    """The tensor with its data in it, read from the folder of the model if they are external.

    Raises:
        OnnxError: the file is missing, too short, or outside of the folder.
    """
    if tensor.data_location != TensorProto.EXTERNAL:
        return tensor
    entries = {entry.key: entry.value for entry in tensor.external_data}
    content = _read(_path(tensor.name, entries.get("location", ""), folder), tensor.name, entries)
    full = TensorProto()
    full.name, full.data_type, full.raw_data = tensor.name, tensor.data_type, content
    full.dims.extend(tensor.dims)
    return full


def _path(name: str, location: str, folder: Path | None) -> Path:
    if folder is None:
        raise OnnxError(f"tensor {name}: a model with external data must be read from a file, got it in memory")
    path = (folder / location).resolve()
    if not location or Path(location).is_absolute() or not path.is_relative_to(folder):
        raise OnnxError(f"tensor {name}: external data must lie in the folder of the model, got {location!r}")
    if not path.is_file():
        raise OnnxError(f"tensor {name}: external data must be a file, got {location!r}, which does not exist")
    return path


def _read(path: Path, name: str, entries: dict[str, str]) -> bytes:
    size = path.stat().st_size
    offset = _number(name, "offset", entries.get("offset", "0"))
    length = _number(name, "length", entries.get("length", str(max(size - offset, 0))))
    if offset + length > size:
        where = f"bytes {offset} to {offset + length}"
        raise OnnxError(f"tensor {name}: external data must lie within {path.name} ({size} bytes), got {where}")
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(length)


def _number(name: str, what: str, text: str) -> int:
    if not text.isdecimal():
        raise OnnxError(f"tensor {name}: {what} of its external data must be a number of bytes, got {text!r}")
    return int(text)
