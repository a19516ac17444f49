# SPDX-License-Identifier: Apache-2.0
"""Functions of a user's file, named as FILE.py:NAME."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from vdla.support.errors import Error


class UserFileError(Error, ValueError):
    """A file that does not exist or run, or has no such function."""


def returned_by(what: str, where: str) -> tuple[str, Any]:
    """The name of the function FILE.py:NAME, and what it returns; `what` asks for it, in messages.

    Raises:
        UserFileError: there is no name, file or function, or an exception of the user's code.
    """
    path, _, name = where.partition(":")
    if not name:
        rule = f"FILE.py must be followed by the name of a function, as {path}:NAME"
        raise UserFileError(f"{what}: {rule}, got {where}")
    if not Path(path).is_file():
        raise UserFileError(f"{path}: file must exist, got none")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        function = getattr(module, name, None)
        returned = function() if callable(function) else None
    except Exception as error:
        text = f"{where}: the file must run without errors, got {type(error).__name__}: {error}"
        raise UserFileError(text) from error
    if not callable(function):
        got = "none" if function is None else repr(function)
        raise UserFileError(f"{path}: {name} must be a function, got {got}")
    return name, returned
