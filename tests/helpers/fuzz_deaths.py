"""Work for the fuzzer's processes that ends some of them, in a module that they can import."""

import os

from vdla.benchmarks.fuzz.benchmark import BatchOutcome

DEADLY = 3


def dying(seeds):
    """A batch without cases that go wrong, unless one of them ends the process."""
    if DEADLY in seeds:
        os.abort()
    return BatchOutcome(len(seeds))
