# SPDX-License-Identifier: Apache-2.0
"""Has a function that Numba keeps on disk compiled by one of several processes; the others wait for
it, and read the machine code from disk.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import Any

from vdla.support.cache import CacheError, locked, user_cache

_TIMEOUT_S = 300.0  # then each process compiles


def compile_once(entry: Any) -> None:  # noqa: ANN401  Numba's dispatcher, which has no types
    """Let other processes wait while one compiles the dispatcher `entry`, which is changed.

    Where no lock can be written, each process compiles.
    """
    stored = getattr(entry._cache, "_cache_file", None)
    index = getattr(stored, "_index_name", None)
    if index is None:
        return
    compiled = entry.compile

    def compile_or_wait(signature: Any) -> Any:  # noqa: ANN401  of Numba
        with ExitStack() as stack:
            with suppress(CacheError, OSError):
                stack.enter_context(locked(user_cache("compiled") / index, _TIMEOUT_S))
            return compiled(signature)  # which looks on disk first

    entry.compile = compile_or_wait
