# SPDX-License-Identifier: Apache-2.0
"""A work function that kills its worker process, importable by workers of the fuzzer."""

import os

from vdla.benchmarks.fuzz import BatchOutcome

DEADLY = 3


def dying(seeds):
    """A batch without failures, unless one of its cases kills the process."""
    if DEADLY in seeds:
        os.abort()
    return BatchOutcome(len(seeds))
