# SPDX-License-Identifier: Apache-2.0
"""Threads of BLAS, which certificates leave alone.

Products of matrices are a small part of a certificate. Between them, threads of BLAS would wait in
loops, which costs more CPU time than they save.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS has one thread, where threadpoolctl is installed."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:  # such as in a browser, which has no threads
        return nullcontext()
    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits
