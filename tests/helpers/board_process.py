# SPDX-License-Identifier: Apache-2.0
"""Runs a compiled network in a process of its own, as on a board: NumPy and the standard library.

The process that started it has the device: requests go to standard output, answers come from
standard input, both as pickles of plain values. Arguments: MODEL INPUTS.npz OUTPUTS.npz.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.executor.model import Model
from vdla.simulator.stats import RunStats, Times


class PipeDevice:
    """A device whose every call another process answers."""

    name = "pipe"

    def __init__(self, config: Config, requests: BinaryIO, answers: BinaryIO) -> None:
        self.config, self._requests, self._answers = config, requests, answers

    def _ask(self, *request: Any) -> Any:
        pickle.dump(request, self._requests)
        self._requests.flush()
        return pickle.load(self._answers)

    def allocate(self, nbytes: int) -> int:
        """The address of zeroed memory."""
        return int(self._ask("allocate", int(nbytes)))

    def free(self, address: int) -> None:
        """Free a block."""
        self._ask("free", int(address))

    def write(self, address: int, data: Any) -> None:
        """Copy bytes into memory."""
        self._ask("write", int(address), np.ascontiguousarray(data).tobytes())

    def read(self, address: int, nbytes: int) -> Any:
        """Copy bytes out of memory."""
        return np.frombuffer(self._ask("read", int(address), int(nbytes)), np.uint8).copy()

    def run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        """Run a program; its cycles and counters come back."""
        places = {name: int(address) for name, address in addresses.items()}
        cycles, counters = self._ask("run", program.to_bytes(), places)
        none = Times.none(len(program))
        return RunStats(
            config=self.config, program=program.name, program_hash=program.hash, total_cycles=cycles,
            counters=counters, starts=none.starts, ends=none.ends, dispatches=none.dispatches, waits=None,
            macs=0, bytes_read=0, bytes_written=0,
        )  # fmt: skip

    def close(self) -> None:
        """Nothing to close here."""

    def __enter__(self) -> PipeDevice:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def main(model: str, inputs: str, outputs: str) -> None:
    """Run the model once."""
    requests, sys.stdout = sys.stdout.buffer, sys.stderr
    loaded = Model.load(model)
    config = loaded.artifact.config
    if config is not None:
        device = PipeDevice(config, requests, sys.stdin.buffer)
        loaded = Model(loaded.artifact, device)
    with np.load(inputs) as arrays, loaded:
        results = loaded.run({name: arrays[name] for name in arrays.files}).outputs
    np.savez(Path(outputs), **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
