# SPDX-License-Identifier: Apache-2.0
"""Boards and remote devices: device tests, networks and faults through PYNQ's client and `pynq://`.

The device tests and networks run on virtual boards, through the unmodified package `pynq`, which
must be installed; edited board files need Tcl. `--long` sends 10,000 malformed messages in place
of 600, has 8 clients with 200 runs each in place of 4 with 25, has two PYNQ clients share a board
for 400 runs in place of 40, edits 2,000 board files in place of 200, and takes ResNet-18 of full
size, also in the wheel for boards, under Python 3.10 with NumPy 1.21.5 and under an emulated
Cortex-A9 where they are at hand. What must be 0 has `failed`, `failing`, `internal`, `wrong`,
`lost`, `duplicated`, `leaked_buffers`, `hangs` or `crashes` in its name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vdla.benchmarks.board.clients import clients
from vdla.benchmarks.board.connection_faults import connection_faults
from vdla.benchmarks.board.hostile_messages import LONG as MANY_MESSAGES
from vdla.benchmarks.board.hostile_messages import SHORT as FEW_MESSAGES
from vdla.benchmarks.board.hostile_messages import hostile_messages
from vdla.benchmarks.board.network_equal import network_equal
from vdla.benchmarks.board.on_board import on_board
from vdla.benchmarks.board.remote_overhead import LONG as MANY_CALLS
from vdla.benchmarks.board.remote_overhead import SHORT as FEW_CALLS
from vdla.benchmarks.board.remote_overhead import remote_overhead
from vdla.benchmarks.board.two_clients import two_clients
from vdla.benchmarks.board.virtual_client import device_tests, on_virtual_board, require_pynq
from vdla.benchmarks.harness import BenchmarkResult, Row, receipt, require_libraries
from vdla.hardware.config import Config
from vdla.support.progress import Progress, silent, steps
from vdla.verification.vivado.board_edits import try_edits

PRESET = "pynq_z1"


def run(progress: Progress = silent, seed: int = 0, long: bool = False) -> BenchmarkResult:
    """Runs every part; the rows have the figures of each."""
    require_pynq()
    require_libraries("board", ("cryptography",), extra="remote")
    count, runs, shared = (8, 200, 400) if long else (4, 25, 40)
    parts: dict[str, Callable[[], Row]] = {
        "device tests": lambda: {**device_tests("rtl")},
        "remote runs": lambda: remote_overhead(MANY_CALLS if long else FEW_CALLS, PRESET, seed),
        "networks, simulator behind": lambda: _networks("sim", ("resnet18", "digits"), not long, seed),
        "a network, RTL behind": lambda: _networks("rtl", ("digits",), True, seed),
        "clients": lambda: clients(count, runs, seed=seed),
        "two clients of PYNQ, simulator behind": lambda: two_clients("sim", shared, PRESET, seed),
        "two clients of PYNQ, RTL behind": lambda: two_clients("rtl", shared, PRESET, seed),
        "connections that fail": connection_faults,
        "malformed messages": lambda: hostile_messages(MANY_MESSAGES if long else FEW_MESSAGES, seed),
        "on the board itself": lambda: on_board(PRESET, ("digits", "resnet18"), small=not long, seed=seed),
        "board files": lambda: _board_files(2000 if long else 200, seed),
    }
    results = {name: parts[name]() for name in steps(progress, list(parts))}
    rows = [
        {"part": name, "figure": figure, "value": value}
        for name, figures in results.items()
        for figure, value in figures.items()
        if not isinstance(value, dict)
    ]
    tests, overhead, networks, rtl, crowd, two_sim, two_rtl, causes, hostile, on_the_board, files = results.values()
    figures = {
        **tests,
        "remote_overhead_ms": overhead["remote_overhead_ms"],
        "remote_wrong": overhead["wrong"],
        "network_equal": min(networks["network_equal"], rtl["network_equal"]),
        **{name: crowd[name] for name in ("wrong", "lost", "duplicated", "leaked_buffers", "hangs")},
        "two_clients_wrong": two_sim["wrong_sim"] + two_rtl["wrong_rtl"],
        "two_clients_unnamed_failed": two_sim["unnamed_sim"] + two_rtl["unnamed_rtl"],
        **causes,
        **{name: hostile[name] for name in ("fuzzed", "crashes", "canary_changed", "canary_read", "memory_unbounded")},
        **{name: value for name, value in on_the_board.items() if name.startswith("on_board_")},
        **files,
    }
    command = f"vdla bench board{' --long' if long else ''} --seed {seed} --json -"
    return BenchmarkResult("board", figures, rows, receipt(Config.preset(PRESET), [], seed, command))


def _board_files(edits: int, seed: int) -> Row:
    """Random edits of board files; of those accepted, `board_files_failing` fail the recorded
    flow or checks of addresses, widths and fit.
    """
    outcomes = try_edits(edits, seed)
    return {
        "board_files": edits,
        "board_files_accepted": outcomes["accepted"],
        "board_files_failing": outcomes["failing"],
        "board_files_internal": outcomes["internal"],
    }


def _networks(fabric: str, names: tuple[str, ...], small: bool, seed: int) -> Row:
    """Networks through the client of PYNQ, with a fabric behind the board."""
    return on_virtual_board(PRESET, fabric, partial(_through_pynq, names=names, small=small, seed=seed))


def _through_pynq(bitstream: str, names: tuple[str, ...], small: bool, seed: int) -> Row:
    return network_equal("pynq", PRESET, names, seed=seed, small=small, options={"bitstream": bitstream})
