# SPDX-License-Identifier: Apache-2.0
"""Several clients of one server, with faults of the network, the device and the clients.

Every run must end with the right result, exactly once, or with a clear error, after which the
client tries again. When all clients are done, the server must hold no memory or session of any of
them.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from vdla.benchmarks.board.faults import DeviceFaults, FaultyDevices, NetworkFaults, faulty_network
from vdla.benchmarks.board.served import served
from vdla.benchmarks.harness import Row
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.devices.run import run
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.open_calls import board_status
from vdla.runtime.remote.remote_device import RemoteDevice
from vdla.support.arrays import Array
from vdla.support.errors import Error
from vdla.support.progress import Progress, silent
from vdla.verification.programs.random_data import random_arrays
from vdla.verification.programs.random_programs import random_verified_program

HANG_S = 150.0
"""Seconds without a line in its journal after which a client hangs."""
_LEAK_S = 30.0
_POLL_S = 0.2
LIMITS = Limits(sessions=24, run_s=3.0, grace_s=3.0, cache_bytes=1 << 18)


@dataclass(slots=True)
class ClientRun:
    """A client and its life: its process, its kills, when its journal last grew."""

    task: ClientTask
    process: BaseProcess
    kills: int = 0
    length: int = 0
    changed_s: float = field(default_factory=time.monotonic)
    hung: bool = False
    failed: int = 0


def clients(
    count: int = 8,
    runs: int = 200,
    seed: int = 0,
    kills: int = 3,
    device_faults: DeviceFaults | None = None,
    network_faults: NetworkFaults | None = None,
    progress: Progress = silent,
) -> Row:
    """Figures of `count` clients with `runs` runs each, every one killed about `kills` times."""
    config = Config.preset("tiny")
    _cases(config)  # compiles the simulator once, or every client would at its start, which is no hang
    devices = FaultyDevices(config, seed, device_faults or DeviceFaults())
    with (
        TemporaryDirectory() as folder,
        served(devices, config, LIMITS) as server,
        faulty_network(int(server.address.rpartition(":")[2]), seed, network_faults or NetworkFaults()) as network,
    ):
        tasks = [
            ClientTask(f"127.0.0.1:{network.port}", "tiny", Path(folder) / f"{number}.txt", seed + number, runs)
            for number in range(count)
        ]
        ended = _campaign(tasks, Random(f"kills {seed}"), kills, progress)
        network.quiet = True
        leaked = _leaked(server.address)
        status = board_status(server.address)
        journals = [task.journal.read_text(encoding="utf-8").splitlines() for task in tasks]
        figures = _figures(journals, runs, status.runs)
        failed = sum(one.failed for one in ended)
        return {
            **figures,
            "wrong": figures["wrong"] + failed,  # an error that is not VDLA's is not clear
            "leaked_buffers": leaked,
            "hangs": sum(one.hung for one in ended),
            "server_alive": int(server.alive),
            "failed_clients": failed,
            "kills": sum(one.kills for one in ended),
            "cuts": network.cuts,
            "flips": network.flips,
            "reopened": status.reopened,
            "cache_hits": status.cache_hits,
            "seed": seed,
        }


def _campaign(tasks: list[ClientTask], random: Random, kills: int, progress: Progress) -> list[ClientRun]:
    """Start the clients, kill and restart them, until all are done."""
    running = [ClientRun(task, _start(task)) for task in tasks]
    chance = {one.task.journal: kills / max(1, one.task.runs) for one in running}
    total = sum(task.runs for task in tasks)
    while any(one.process.is_alive() for one in running):
        time.sleep(_POLL_S)
        done = 0
        for one in running:
            grown = _grown(one)
            done += _results(one.task.journal)
            if not one.process.is_alive() and one.process.exitcode not in (0, None) and not one.hung:
                one.failed += 1
                if one.failed <= 3:  # what it cannot do, it cannot do four times
                    one.process = _start(one.task)
            elif one.process.is_alive() and time.monotonic() - one.changed_s > HANG_S:
                one.hung = True
                _kill(one.process)
            elif (
                one.process.is_alive()
                and one.kills < 2 * kills
                and random.random() < grown * chance[one.task.journal] / 2
            ):
                one.kills += 1
                _kill(one.process)
                one.process = _start(one.task)
        progress("clients", done, total)
    return running


def _start(task: ClientTask) -> BaseProcess:
    task.journal.touch()
    process = multiprocessing.get_context("spawn").Process(target=client, args=(task,), daemon=True)
    process.start()
    return process


def _kill(process: BaseProcess) -> None:
    process.kill()
    process.join(10)


def _grown(one: ClientRun) -> int:
    """Lines of the journal since the last look."""
    length = len(one.task.journal.read_bytes().splitlines())
    grown, one.length = length - one.length, length
    if grown:
        one.changed_s = time.monotonic()
    return grown


def _results(journal: Path) -> int:
    return sum(line.startswith(b"r ") for line in journal.read_bytes().splitlines())


def _leaked(address: str) -> int:
    """Blocks that the server still holds when it had time to release those of dead clients."""
    end = time.monotonic() + _LEAK_S
    while time.monotonic() < end:
        status = board_status(address)
        if not status.sessions and not status.blocks:
            return 0
        time.sleep(_POLL_S)
    return max(1, board_status(address).blocks)


def _figures(journals: list[list[str]], runs: int, executed: int) -> Mapping[str, int]:
    """What the journals say; `executed` is the number of runs that the server began."""
    wrong = lost = duplicated = errors = given_up = submitted = 0
    for lines in journals:
        words = [line.split(maxsplit=2) for line in lines]
        results = Counter(int(word[1]) for word in words if word[0] == "r")
        failures = Counter(int(word[1]) for word in words if word[0] == "e")
        wrong += sum(word[0] == "r" and word[2] == "wrong" for word in words)
        duplicated += sum(count - 1 for count in results.values())
        submitted += sum(word[0] == "s" for word in words)
        errors += sum(failures.values())
        for number in range(runs):
            if number not in results:
                given_up += failures[number] >= ATTEMPTS
                lost += failures[number] < ATTEMPTS
    return {
        "runs": runs * len(journals),
        "wrong": wrong,
        "lost": lost,
        "duplicated": duplicated + max(0, executed - submitted),
        "clear_errors": errors,
        "given_up": given_up,
        "submitted": submitted,
        "executed": executed,
    }


# --- a client -------------------------------------------------------------------------------------
# One client of the benchmark `clients`: runs its programs and keeps a journal of what it did.
#
# The journal outlives a killed client: `s N` before run N is submitted, `r N ok` or `r N wrong`
# after its result, `e N text` after an error. A client that starts again continues behind its last
# result. Any error that is not VDLA's ends the process.


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
    programs, expected = _cases(config)
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


def _cases(config: Config) -> tuple[list[Program], list[dict[str, Array]]]:
    """The programs of a client, and what the simulator gives for each."""
    programs = [_case(config, seed) for seed in range(_PROGRAMS)]
    expected = [run(program, random_arrays(program, seed), "sim").outputs for seed, program in enumerate(programs)]
    return programs, expected


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
