# SPDX-License-Identifier: Apache-2.0
"""A function in a process of its own, with a pipe to it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

_STOP_S = 20.0


@contextmanager
def child_process(function: Callable[..., Any], *arguments: object) -> Iterator[tuple[BaseProcess, Connection]]:
    """A process that runs `function(*arguments, pipe)`, and our end of its pipe.

    The function is picklable. At the end of the block the pipe is closed, and the process killed
    unless it ends by that. It is spawned: forked processes hang in gRPC.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=function, args=(*arguments, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield process, ours
    finally:
        ours.close()
        process.join(_STOP_S)
        if process.is_alive():
            process.kill()
            process.join()
