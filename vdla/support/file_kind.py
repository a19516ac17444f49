# SPDX-License-Identifier: Apache-2.0
"""What a file is that a reader of another kind was given, and what its owner can do with it."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

_TO_ONNX = "convert it to ONNX first:"


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file, by the ends of names or the first bytes; `remedy` is of {path}, {stem}."""

    noun: str
    suffixes: tuple[str, ...]
    magic: bytes
    offset: int
    remedy: str


ONNX_MODEL = FileKind("an ONNX model", (".onnx",), b"", 0, "compile it first: vdla compile {path} -o {stem}.vdla")
TFLITE_MODEL = FileKind(
    "a TensorFlow Lite model", (".tflite",), b"TFL3", 4, "compile it first: vdla compile {path} -o {stem}.vdla"
)
TORCH_PROGRAM = FileKind(
    "a program of torch.export",
    (".pt2",),
    b"",
    0,
    f'{_TO_ONNX} torch.onnx.export(torch.export.load("{{path}}"), f="{{stem}}.onnx", dynamo=True)',
)
COMPILED_NETWORK = FileKind(
    "a compiled network", (), b"VDLAMODL", 0, "vdla run {path} and model.run(inputs) run networks"
)
MODEL_SUFFIXES = (*ONNX_MODEL.suffixes, *TFLITE_MODEL.suffixes, *TORCH_PROGRAM.suffixes)
"""The ends of names of files that are compiled."""
KINDS = (
    FileKind("a program", (), b"VDLAPROG", 0, "vdla run {path} and vdla.run(program, inputs) run programs"),
    COMPILED_NETWORK,
    ONNX_MODEL,
    TFLITE_MODEL,
    TORCH_PROGRAM,
    FileKind(
        "weights of PyTorch",
        (".pth", ".pt"),
        b"",
        0,
        f'{_TO_ONNX} torch.onnx.export(model, inputs, "{{stem}}.onnx", dynamo=True)',
    ),
    FileKind(
        "a Keras model",
        (".h5", ".keras"),
        b"\x89HDF",
        0,
        f'{_TO_ONNX} keras.models.load_model("{{path}}").export("{{stem}}.onnx", format="onnx")',
    ),
    FileKind("an array of NumPy", (".npy",), b"\x93NUMPY", 0, "--input {path} passes it to vdla run"),
    FileKind("arrays of NumPy", (".npz",), b"", 0, "--input {path} passes them to vdla run"),
    FileKind("assembly", (".s",), b"", 0, "assemble it first: vdla asm {path} -o {stem}.vdla"),
    FileKind("Python", (".py",), b"", 0, "--extension {path} passes it to a command"),
)


def file_kind(path: str | PathLike[str], content: bytes | None = None) -> FileKind | None:
    """The kind of a file, by its first bytes, else by its name; None of others, and of empty ones.

    `content` is None where nothing is known of it.
    """
    if content == b"":
        return None
    name = str(path).lower()
    by_content = (kind for kind in KINDS if kind.magic and (content or b"")[kind.offset :].startswith(kind.magic))
    by_name = (kind for kind in KINDS if name.endswith(kind.suffixes))
    return next(by_content, next(by_name, None))


def described(path: str | PathLike[str], content: bytes | None = None, wanted: tuple[str, ...] = ()) -> str:
    """A file in messages, behind "got": its kind and the remedy, or how it begins.

    A suffix in `wanted` says nothing: that is what the file should have been.
    """
    kind = None if str(path).lower().endswith(wanted or ("\0",)) else file_kind(path, content)
    if kind is not None:
        return f"{kind.noun} ({remedy(kind, path)})"
    return f"one that begins with {content[:8]!r}" if content else "an empty file"


def remedy(kind: FileKind, path: str | PathLike[str]) -> str:
    """What to do with a file of a kind."""
    return kind.remedy.format(path=path, stem=Path(path).stem)


def unreadable(path: str | PathLike[str], error: OSError) -> str:
    """The message of a file that cannot be opened."""
    folder = Path(path).parent
    if isinstance(error, FileNotFoundError) and not folder.is_dir():
        return f"{path}: no such folder {folder}"
    if isinstance(error, FileNotFoundError):
        return f"{path}: no such file{_similar(Path(path))}"
    return f"{path}: file must be readable, got {error.strerror or error}"


def _similar(path: Path) -> str:
    """The file of the same folder with the closest name."""
    from vdla.support.suggest import did_you_mean

    try:
        return did_you_mean(path.name, sorted(file.name for file in path.parent.iterdir() if file.is_file()))
    except OSError:
        return ""
