# SPDX-License-Identifier: Apache-2.0
"""Generated kernels: text of the simulator's own around text of an extension, compiled by Numba.

The text of an extension comes from a tensor expression that this process has loaded. A kernel is
kept in a file of the user's cache under its hash, so that its machine code is kept beside it.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Callable
from functools import lru_cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from vdla.support.atomic import write_text
from vdla.support.cache import CacheError, user_cache


@lru_cache(maxsize=64)
def compiled(text: str) -> Callable[..., None]:
    """The function `run` of a module with this text."""
    name = f"vdla_extension_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    spec = spec_from_file_location(name, _file(f"{name}.py", text))
    assert spec is not None and spec.loader is not None, "a path that ends in .py has a loader"
    module: Any = module_from_spec(spec)
    sys.modules[name] = module  # where Numba finds the module of code that it has kept
    spec.loader.exec_module(module)
    run: Callable[..., None] = module.run
    return run


def _file(name: str, text: str) -> Path:
    """A file with the text: of the user's cache, else a temporary one."""
    try:
        path = user_cache("extensions") / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, text)
    except (OSError, CacheError):
        path = Path(tempfile.mkdtemp(prefix="vdla-extension-")) / name
        path.write_text(text, encoding="utf-8")
    return path
