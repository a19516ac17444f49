# SPDX-License-Identifier: Apache-2.0
"""The messages of PYNQ.remote, from the protobuf modules inside the installed `pynq` package.

The modules are loaded from their files: importing `pynq` itself takes half a second, and would look
for boards.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from vdla.support.errors import Error

Message = Any
"""A message of one of the services; protobuf makes their classes at run time."""


class MissingPackageError(Error, RuntimeError):
    """A package that a virtual board, or a client of a board, needs is not installed."""


@cache
def messages(service: str) -> ModuleType:
    """The messages of a service: `remote_device`, `mmio`, `buffer` or `gpio`."""
    name = f"pynq.remote.{service}_pb2"
    if name in sys.modules:
        return sys.modules[name]
    path = _folder("PYNQ.remote") / f"{service}_pb2.py"
    spec = importlib.util.spec_from_file_location(f"vdla_pynq_{service}_pb2", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise MissingPackageError(f"PYNQ.remote: pynq must be 4.0 or later, got one without {path.name}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def require_pynq(where: str) -> None:
    """MissingPackageError unless pynq is installed, and with it gRPC."""
    _folder(where)


def _folder(where: str) -> Path:
    spec = importlib.util.find_spec("pynq")
    if spec is None or spec.origin is None:
        raise MissingPackageError(f'{where}: pynq must be installed, got none (pip install "vdla[board]")')
    return Path(spec.origin).parent / "remote"
