"""One client of the benchmark `clients`: runs its programs and keeps a journal of what it did.

The journal outlives a killed client: `s N` before run N is submitted, `r N ok` or `r N wrong`
after its result, `e N text` after an error. A client that starts again continues behind its last
result. Any error that is not VDLA's ends the process.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.devices.run import run
from vdla.runtime.remote.remote_device import RemoteDevice
from vdla.support.errors import Error
from vdla.verification.programs.random_data import random_arrays
from vdla.verification.programs.random_programs import random_verified_program

ATTEMPTS = 50
"""Attempts of a run, each of which ended with a clear error, before it is given up."""
_PROGRAMS = 24
_LENGTHS = (8, 40)
_CONNECT_S, _WAIT_S = 20.0, 60.0


@dataclass(frozen=True, slots=True)
class ClientTask:
    """What a client has to do; picklable."""

    address: str
    preset: str
    journal: Path
    seed: int
    runs: int


def client(task: ClientTask) -> None:
    """Run all programs that the journal has no result of."""
    config = Config.preset(task.preset)
    programs = [_case(config, seed) for seed in range(_PROGRAMS)]
    expected = [run(program, random_arrays(program, seed), "sim").outputs for seed, program in enumerate(programs)]
    with task.journal.open("a", encoding="utf-8") as journal:
        device: RemoteDevice | None = None
        for number in range(_next(task.journal), task.runs):
            case = (task.seed + 7 * number) % _PROGRAMS
            for _ in range(ATTEMPTS):
                try:
                    if device is None:
                        device = RemoteDevice(config, task.address, connect_s=_CONNECT_S, wait_s=_WAIT_S)
                    note(journal.fileno(), f"s {number}")
                    outputs = run(programs[case], random_arrays(programs[case], case), device).outputs
                except Error as error:
                    note(journal.fileno(), f"e {number} {' '.join(str(error).split())}")
                    if device is not None:
                        device.close()
                    device = None
                    continue
                equal = all((outputs[name] == array).all() for name, array in expected[case].items())
                note(journal.fileno(), f"r {number} {'ok' if equal else 'wrong'}")
                break
        if device is not None:
            device.close()


def _case(config: Config, seed: int) -> Program:
    low, high = _LENGTHS
    return random_verified_program(config, seed, low + seed * (high - low) // _PROGRAMS)


def note(handle: int, line: str) -> None:
    """A line of the journal; what was written stays, also when the process is killed."""
    os.write(handle, f"{line}\n".encode())


def _next(journal: Path) -> int:
    """The first run without a result."""
    lines = journal.read_text(encoding="utf-8").splitlines()
    return max((int(line.split()[1]) + 1 for line in lines if line.startswith("r ")), default=0)
