"""Kernels of extensions: the loops of an instruction around the text of one step, compiled.

The text comes from the tensor expression of an extension that this process has loaded. It is kept
in a file of the user's cache under its hash, so that Numba's machine code is kept beside it.
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

_HEADER = '''"""The kernel of an extension, generated; see simulator/function/extension_kernel.py."""

import numpy as np

from vdla.simulator.function.extension_arithmetic import divide, narrow, remainder, shift_left, shift_right
from vdla.simulator.function.kernels import (
    ACC, ACC0, ACC1, EMIT, EMIT_NONE, INIT, LOOP0, LOOP1, OUT, SCL, SCL0, SCL1, SRC, SRC0, SRC1,
    U_ACC, U_FIRST, U_LAST, U_SRC, U_WGT, WGT, WGT0, WGT1, send,
)
from vdla.simulator.support.jit import entry_point, helper


@helper
'''

_LOOPS = """

@entry_point
def run(row, uops, src, wgt, fields, acc, scl, out, raw, bits):
    new = np.zeros(acc.shape[1], np.int32)
    for i in range(row[LOOP0]):
        for j in range(row[LOOP1]):
            offset = i * row[ACC0] + j * row[ACC1]
            s = row[SRC] + i * row[SRC0] + j * row[SRC1]
            w = row[WGT] + i * row[WGT0] + j * row[WGT1]
            scale = scl[row[SCL] + i * row[SCL0] + j * row[SCL1]]
            for u in range(len(uops)):
                a = offset + uops[u, U_ACC]
                sums = acc[row[ACC] + a]
                begin = row[INIT] != 0 and uops[u, U_FIRST] != 0
                step(new, sums, src[s + uops[u, U_SRC]], wgt[w + uops[u, U_WGT]], fields, begin)
                for n in range(len(new)):
                    sums[n] = new[n]
                if row[EMIT] != EMIT_NONE and uops[u, U_LAST] != 0:
                    send(row, sums, scale, row[OUT] + a, out, raw, bits)
"""


@lru_cache(maxsize=64)
def extension_kernel(step: str) -> Callable[..., None]:
    """The compiled loops around the text of `def step(new, old, src, wgt, fields, begin)`."""
    text = _HEADER + step + _LOOPS
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
