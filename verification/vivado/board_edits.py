# SPDX-License-Identifier: Apache-2.0
"""Random edits of board descriptions: whatever is accepted must make a sound flow.

The checks look at the recorded calls of the flow, not at the description's own rules.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from vdla.boards.board import FILE, FOLDER, Board, BoardError, board_names, load_board
from vdla.boards.family import FAMILIES
from vdla.boards.ip import CONTROL_INTERFACE, INTERRUPT_CONTROLLER, IP_INSTANCE
from vdla.hardware.config import Config
from vdla.hardware.fpga.area_model import LUT_ERROR
from vdla.hardware.fpga.parts import PARTS
from vdla.verification.vivado.recorded import Recorded, run_flow, write_flow

_ODD: list[Any] = [
    None, True, False, 0, -1, 1, 32, 64, 96, 128, 4096, 1 << 31, 10**30, 1.5, float("nan"), "", "x", "0x", "0x1000",
    "-1", "zynq7", "zynqmp", "cortex-a53", "zu3eg", "xc7z010", "M_AXI_GP1", "S_AXI_ACP", "pl_ps_irq0", "tiny", "a b",
    "\ud800", [], {}, [1], [[]], ["pynq_z1"], ["tiny"], ["S_AXI_HPC0_FPD"], ["S_AXI_HP0", "S_AXI_HP1"], {"a": 1},
    [{"name": "mine"}], [{"name": "mine", "preset": "tiny"}], [{"name": "a b", "block_in": 64}],
]  # fmt: skip
_LIKELY: Mapping[str, list[Any]] = {
    "part": ["xc7z020clg400-1", "xc7z020clg484-2", "xc7z020iclg400-1L", "xczu3eg-sfvc784-1-e", "xc7z020clg400"],
    "clock_mhz": [50, 75.5, 125, 250, 300, 333.333],
    "presets": [["pynq_z1"], ["pynq_z1_512x2"], ["zcu104"], ["tiny", "int4"], ["osdi18"], ["batch4"], ["kv260"]],
    "configurations": [
        [{"name": "small", "preset": "tiny", "block_in": 8}],
        [{"name": "wide", "axi_bits": 128, "axi_ports": 2}],
        [{"name": "large", "block_in": 64, "wgt_kib": 1024}],
        [{"name": "narrow ports", "axi_bits": 32}],
    ],
    "memory_ports": [["S_AXI_HP3"], ["S_AXI_HP2", "S_AXI_HP0"], ["S_AXI_HP1_FPD"], ["S_AXI_HP3_FPD", "S_AXI_HP0_FPD"]],
    "memory_port_bits": [32, 64, 128],
    "control_port": ["M_AXI_GP0", "M_AXI_GP1", "M_AXI_HPM0_FPD", "M_AXI_HPM1_FPD"],
    "control_base": ["0x40000000", "0x7FFF0000", "0x80000000", "0xA0000000", "0xAFFFF000", "0x400000000"],
    "control_bytes": ["0x1000", "0x2000", "0x10000", "0x40000000"],
    "interrupt_controller_base": ["0x40001000", "0x80010000", "0xA0001000", "0x43C00800"],
    "dram_bytes": ["0x1000", "0x40000000", "0x80000000", "0x100000000", "0x880000000"],
    "board_connections": [[], ["a", "b"], ["a"], ["a{b", "c"]],
    "title": ['Z"1', "a [b] $c", "\\"],
}


def edited_boards(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Descriptions of VDLA's boards with one to three fields changed, to likely or odd values."""
    rng = Random(seed)
    for _ in range(count):
        document = json.loads((FOLDER / rng.choice(board_names()) / FILE).read_text(encoding="utf-8"))
        for field in rng.sample([*document, "configurations", "board_connections"], rng.randint(1, 3)):
            values = _LIKELY.get(field, _ODD) if rng.random() < 0.6 else _ODD
            document[field] = rng.choice(values)
        yield document


def try_edits(count: int, seed: int) -> Counter[str]:
    """What became of random edits: `refused` with a sentence, `accepted` machines of boards,
    `failing` flows of these, `internal` errors, and the reason of each that is wrong.
    """
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number, document in enumerate(edited_boards(count, seed)):
            outcomes.update(_outcomes(document, Path(folder) / str(number)))
    return outcomes


def _outcomes(document: Mapping[str, Any], folder: Path) -> Iterator[str]:
    folder.mkdir()
    path = folder / FILE
    path.write_text(json.dumps(document), encoding="utf-8")
    try:
        board = load_board(path)
        for name in board.machines:
            yield "accepted"
            for problem in flow_problems(board, board.config(name), folder / "flow"):
                yield from ("failing", f"{name}: {problem}")
    except BoardError as error:
        if not str(error).startswith(f"{path}: board") or "\n" in str(error):
            yield from ("internal", str(error))
        yield "refused"
    except Exception as error:  # what is looked for
        yield from ("internal", f"{type(error).__name__}: {error}")


def flow_problems(board: Board, config: Config, folder: Path) -> Iterator[str]:
    """What is wrong with the recorded flow of a machine on a board."""
    write_flow(board, config, folder)
    recorded = run_flow(folder, board)
    if recorded.code:
        yield recorded.error.splitlines()[0]
        return
    yield from _address_problems(board, recorded)
    yield from _width_problems(config, recorded)
    dsp, weights = config.macs_per_cycle / 2 / config.array_rate, config.wgt_kib / 4.5  # KiB of a block RAM
    part = PARTS[board.fpga]
    if dsp * (1 - LUT_ERROR) > part.dsp:
        yield f"fit: {dsp:g} multipliers of two products on {part.dsp} DSP slices"
    if weights * (1 - LUT_ERROR) > part.bram36 + 8 * part.uram:
        yield f"fit: weights in {weights:g} block RAMs of {part.bram36}"


def _address_problems(board: Board, recorded: Recorded) -> Iterator[str]:
    """Registers of both slaves apart and beside the DRAM, each port with all of the DRAM once."""
    control, memory = {}, Counter[str]()
    for space, segment, offset, size in recorded.mapped():
        if offset % min(size, 4096) or size <= 0:
            yield f"address: {segment} at {offset:#x} with {size:#x} bytes"
        if space.startswith(IP_INSTANCE):
            memory[space] += size
        else:
            control[segment.split("/")[0]] = range(offset, offset + size)
    if set(control) != {IP_INSTANCE, INTERRUPT_CONTROLLER}:
        yield f"address: slaves are {', '.join(control)}"
        return
    ours, theirs = control[IP_INSTANCE], control[INTERRUPT_CONTROLLER]
    if max(ours.start, theirs.start) < min(ours.stop, theirs.stop):
        yield f"address: {CONTROL_INTERFACE} and {INTERRUPT_CONTROLLER} overlap"
    reached = FAMILIES[board.processor].control_ports[board.control_port]
    for window in (ours, theirs):
        if not any(low <= window.start and window.stop <= high for low, high in reached):
            yield f"address: {board.control_port} does not reach registers at {window.start:#x}"
    for base, size in board.memory_regions:
        for window in (ours, theirs):
            if max(base, window.start) < min(base + size, window.stop):
                yield f"address: registers at {window.start:#x} are in the DRAM"
    if any(total != board.dram_bytes for total in memory.values()):
        yield f"address: a memory port reaches {min(memory.values()):#x} bytes of {board.dram_bytes:#x}"


def _width_problems(config: Config, recorded: Recorded) -> Iterator[str]:
    """Ports of the processing system as wide as those of the machine."""
    for words in recorded.of("set_property"):
        settings = words[1].split() if words[0] == "-dict" else []
        for name, value in zip(settings[::2], settings[1::2], strict=False):
            of_memory = "S_AXI_HP" in name or "SAXIGP" in name
            if of_memory and name.endswith("_DATA_WIDTH") and int(value) != config.port_bits:
                yield f"width: {name} is {value} for {config.port_bits} bits"
