# SPDX-License-Identifier: Apache-2.0
"""A command that serves until it is told to end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Event
from typing import Any

from vdla.commands import OK


def serve_until_end(server: AbstractContextManager[Any], greeting: Callable[[], str]) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    ended = Event()
    earlier = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        with server:
            print(greeting(), flush=True)
            ended.wait()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    finally:
        signal.signal(signal.SIGTERM, earlier)
    return OK
