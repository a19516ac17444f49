"""Boards and remote devices: device tests, networks and faults through PYNQ's client and `pynq://`.

The device tests and networks run on virtual boards, through the unmodified package `pynq`, which
must be installed. `--long` sends 10,000 malformed messages in place of 600, has 8 clients with 200
runs each in place of 4 with 25, and takes ResNet-18 of full size. What must be 0 has `failed`,
`wrong`, `lost`, `duplicated`, `leaked_buffers`, `hangs` or `crashes` in its name.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from vdla.benchmarks.board.clients import clients
from vdla.benchmarks.board.device_tests import device_tests
from vdla.benchmarks.board.hostile_messages import LONG as MANY_MESSAGES
from vdla.benchmarks.board.hostile_messages import SHORT as FEW_MESSAGES
from vdla.benchmarks.board.hostile_messages import hostile_messages
from vdla.benchmarks.board.network_equal import network_equal
from vdla.benchmarks.board.remote_overhead import LONG as MANY_CALLS
from vdla.benchmarks.board.remote_overhead import SHORT as FEW_CALLS
from vdla.benchmarks.board.remote_overhead import remote_overhead
from vdla.benchmarks.board.virtual_client import on_virtual_board, require_pynq
from vdla.benchmarks.harness import BenchmarkResult, receipt
from vdla.hardware.config import Config
from vdla.support.progress import Progress, silent

PRESET = "pynq_z1"
_STEPS = 6


def run(progress: Progress = silent, seed: int = 0, long: bool = False) -> BenchmarkResult:
    """Runs every part; the rows have the figures of each."""
    require_pynq()
    rows: list[dict[str, Any]] = []

    def part(name: str, figures: dict[str, Any]) -> dict[str, Any]:
        numbers = {figure: value for figure, value in figures.items() if not isinstance(value, dict)}
        rows.extend({"part": name, "figure": figure, "value": value} for figure, value in numbers.items())
        return figures

    progress("device tests on the RTL", 0, _STEPS)
    tests = part("device tests", device_tests("rtl"))
    progress("remote runs", 1, _STEPS)
    overhead = part("remote runs", remote_overhead(MANY_CALLS if long else FEW_CALLS, PRESET, seed))
    progress("networks on the simulator", 2, _STEPS)
    networks = part("networks, simulator behind", _networks("sim", ("resnet18", "digits"), not long, seed))
    progress("a network on the RTL", 3, _STEPS)
    rtl = part("a network, RTL behind", _networks("rtl", ("digits",), True, seed))
    progress("clients with faults", 4, _STEPS)
    crowd = part("clients", clients(*((8, 200) if long else (4, 25)), seed=seed))
    progress("malformed messages", 5, _STEPS)
    hostile = part("malformed messages", hostile_messages(MANY_MESSAGES if long else FEW_MESSAGES, seed))
    progress("done", _STEPS, _STEPS)
    figures = {
        **tests,
        "remote_overhead_ms": overhead["remote_overhead_ms"],
        "remote_wrong": overhead["wrong"],
        "network_equal": min(networks["network_equal"], rtl["network_equal"]),
        **{name: crowd[name] for name in ("wrong", "lost", "duplicated", "leaked_buffers", "hangs")},
        **{name: hostile[name] for name in ("fuzzed", "crashes", "canary_changed", "canary_read", "memory_unbounded")},
    }
    command = f"vdla bench board{' --long' if long else ''} --seed {seed} --json -"
    return BenchmarkResult("board", figures, rows, receipt(Config.preset(PRESET), [], seed, command))


def _networks(fabric: str, names: tuple[str, ...], small: bool, seed: int) -> dict[str, Any]:
    """Networks through the client of PYNQ, with a fabric behind the board."""
    return on_virtual_board(PRESET, fabric, partial(_through_pynq, names=names, small=small, seed=seed))


def _through_pynq(bitstream: str, names: tuple[str, ...], small: bool, seed: int) -> dict[str, Any]:
    return network_equal("pynq", PRESET, names, seed=seed, small=small, options={"bitstream": bitstream})
