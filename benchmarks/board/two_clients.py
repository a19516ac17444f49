# SPDX-License-Identifier: Apache-2.0
"""Two processes with PYNQ's client on one virtual board, at the same time.

PYNQ keeps nobody away from a board. A run must end with the right result, or with the error that
says that another client used the board; the run is not tried again.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

from vdla.benchmarks.board.child_process import child_process
from vdla.benchmarks.board.virtual_client import VirtualClientError, client_environment, require_pynq, served_board
from vdla.benchmarks.harness import Row
from vdla.boards.board import boards_by_preset
from vdla.boards.overlay_files import write_overlay
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.devices.board_driver import TakenError
from vdla.runtime.devices.pynq_device import PynqDevice
from vdla.runtime.devices.run import run
from vdla.simulator.stats import Result
from vdla.support.errors import Error
from vdla.verification.programs.random_data import random_arrays
from vdla.verification.programs.random_programs import random_verified_program

CLIENTS = 2
_PROGRAMS, _LENGTH = 4, 12
_OPEN_S, _RUNS_S = 120.0, 1200.0


def two_clients(fabric: str, runs: int, preset: str, seed: int = 0) -> Row:
    """Of `runs` runs, half of them by each client: `right`, `wrong` without an error, with the
    sentence on another client (`shared`), and with another error (`unnamed`).
    """
    require_pynq()
    config, board = Config.preset(preset), boards_by_preset()[preset]
    with TemporaryDirectory() as folder, served_board(preset, fabric) as address, ExitStack() as stack:
        bitstream = str(write_overlay(board, config, Path(folder)))
        pipes = []
        for number in range(CLIENTS):  # one opens after the other: PYNQ keeps its state in one file
            arguments = (address, bitstream, preset, runs // CLIENTS, seed + number)
            pipes.append(stack.enter_context(child_process(_client, *arguments))[1])
            _answer(pipes[-1], _OPEN_S)
        for pipe in pipes:
            pipe.send("go")
        ends: Counter[str] = sum((_answer(pipe, _RUNS_S) for pipe in pipes), Counter())
    return {f"{end}_{fabric}": ends[end] for end in ("right", "wrong", "shared", "unnamed")}


def _answer(pipe: Connection, timeout_s: float) -> Counter[str]:
    """The counts that a client sends, none when it has opened the board."""
    if not pipe.poll(timeout_s):
        raise VirtualClientError(f"bench board: client must answer within {timeout_s:g} s, got nothing")
    try:
        answer = pipe.recv()
    except EOFError:
        raise VirtualClientError("bench board: client must answer, got the end of its process") from None
    if isinstance(answer, str):
        raise VirtualClientError(f"bench board: client must end without an error, got {answer}")
    return Counter(answer)


def _client(address: str, bitstream: str, preset: str, runs: int, seed: int, pipe: Connection) -> None:
    client_environment(address)
    config = Config.preset(preset)
    programs = [random_verified_program(config, _PROGRAMS * seed + number, _LENGTH) for number in range(_PROGRAMS)]
    expected = [run(program, random_arrays(program, seed), "sim") for program in programs]
    try:
        with PynqDevice(config, bitstream=bitstream) as device:
            pipe.send({})
            pipe.recv()
            pipe.send(Counter(_end(device, expected[number % _PROGRAMS], seed) for number in range(runs)))
    except Error as error:
        pipe.send(str(error))


def _end(device: PynqDevice, expected: Result, seed: int) -> str:
    """What comes of a run."""
    program: Program = expected.program
    try:
        result = run(program, random_arrays(program, seed), device)
    except TakenError:
        return "shared"
    except Error:
        return "unnamed"
    outputs = all((result.outputs[name] == array).all() for name, array in expected.outputs.items())
    same = outputs and not result.statistics.differences(expected.statistics)
    return "right" if same else "wrong"
