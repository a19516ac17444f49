# SPDX-License-Identifier: Apache-2.0
"""Programs of torch.export as ONNX models, by torch's own exporter.

Dynamic dimensions stay symbolic. torch is loaded at the first call.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from onnx import ModelProto

from vdla.compiler.graph.onnx.errors import OnnxError
from vdla.support.file_kind import TORCH_PROGRAM, remedy

_PACKAGES = ("torch", "onnxscript")


def model_of_program(path: Path) -> ModelProto:
    """The ONNX model of a .pt2 file.

    Raises:
        OnnxError: torch or onnxscript is not installed, or torch cannot read or export the program.
    """
    absent = [package for package in _PACKAGES if find_spec(package) is None]
    if absent:
        where = f"or, where torch is, {remedy(TORCH_PROGRAM, path)}"
        rule = f"the packages {' and '.join(_PACKAGES)} must be installed to read a program of torch.export"
        raise OnnxError(f"{path}: {rule}, got no {' and no '.join(absent)}; do: pip install 'vdla[torch]', {where}")
    with _silence():
        return _exported(path)


def _exported(path: Path) -> ModelProto:
    import torch

    try:
        program = torch.export.load(str(path))
    except Exception as error:  # torch has no common class
        rule = "the file must be a program that this version of torch reads"
        action = "save it again with torch.export.save"
        raise OnnxError(f"{path}: {rule} ({torch.__version__}), got {_first_line(error)}; {action}") from error
    try:
        result: Any = torch.onnx.export(program, dynamo=True, verbose=False)
        model: ModelProto = result.model_proto
    except Exception as error:
        rule = "the program must be one that torch.onnx.export converts"
        action = "rewrite the operator that it names, or export the model to ONNX by hand"
        raise OnnxError(f"{path}: {rule}, got {_first_line(_origin(error))}; {action}") from error
    return model


def _origin(error: BaseException) -> BaseException:
    """The first error of a chain, which names the operator."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _first_line(error: BaseException) -> str:
    """An error as a part of a sentence."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}{': ' + lines[0].strip().rstrip('.') if lines else ''}"


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Without the progress, warnings and log of torch."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
