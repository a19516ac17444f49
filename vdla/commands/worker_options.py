"""The options that say who measures: processes of this machine, or a Ray cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vdla.commands.console import errors
from vdla.commands.machine_options import positive

if TYPE_CHECKING:
    from vdla.runtime.tune.measurer import Measurer
    from vdla.runtime.tune.workers import Workers


def add_worker_arguments(parser: argparse.ArgumentParser, timeout_s: int) -> None:
    """--workers and --timeout."""
    parser.add_argument("--workers", default="", metavar="N", help="processes, or ray, or ray://HOST:PORT")
    help_text = f"seconds for a trial (default {timeout_s})"
    parser.add_argument("--timeout", type=positive, default=timeout_s, metavar="S", help=help_text)


@contextmanager
def opened_workers(
    arguments: argparse.Namespace, measurer: Measurer, *, alone_inline: bool = False
) -> Iterator[Workers]:
    """The workers that --workers asks for; what befalls them is printed.

    With `alone_inline`, a single worker is this process, which has no time limit.
    """
    from vdla.runtime.tune.ray_workers import RayWorkers
    from vdla.runtime.tune.workers import InlineWorkers, LocalWorkers

    text, timeout_s, warn = arguments.workers, float(arguments.timeout), errors().print
    workers: Workers
    if text == "1" and alone_inline:
        workers = InlineWorkers(measurer)
    elif text.isdecimal() or not text:
        workers = LocalWorkers(measurer, int(text) if text else None, timeout_s, warn)
    else:
        workers = RayWorkers(measurer, text, timeout_s=timeout_s, warn=warn)
    try:
        yield workers
    finally:
        workers.close()
