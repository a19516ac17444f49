# SPDX-License-Identifier: Apache-2.0
"""The settings of the processing systems in a block design: ports, clock, interrupt.

The invariant: names of settings and pins are those of Xilinx's IPs `processing_system7` (5.5) and
`zynq_ultra_ps_e` (3.3 and later). DRAM, pins and PLLs come from the board's preset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vdla.boards.board import Board, BoardError
from vdla.boards.hwh import PROCESSING_SYSTEMS


@dataclass(frozen=True, slots=True)
class ProcessingSystemCell:
    """A processing system's cell.

    `automation` are the options of its board automation, `segments` the address segments behind
    each memory port to the DRAM, low memory first, `other_segments` what else is behind it.
    """

    automation: Mapping[str, str]
    config: Mapping[str, str]
    reset_pin: str
    clock_inputs: Sequence[str]
    segments: Mapping[str, Sequence[str]]
    other_segments: Mapping[str, Sequence[str]]


def processing_system(board: Board, ports: Sequence[str], port_bits: int) -> ProcessingSystemCell:
    """The cell of a board that uses some of its memory ports, `port_bits` wide; BoardError for
    unknown ports.
    """
    return (_zynq7 if board.processor == "zynq7" else _zynqmp)(board, ports, port_bits)


def _zynq7(board: Board, ports: Sequence[str], port_bits: int) -> ProcessingSystemCell:
    control = _number(board, board.control_port, r"M_AXI_GP([01])")
    config = {
        "PCW_FPGA0_PERIPHERAL_FREQMHZ": f"{board.clock_mhz:g}",
        "PCW_EN_CLK0_PORT": "1",
        "PCW_EN_RST0_PORT": "1",
        **{f"PCW_USE_M_AXI_GP{port}": str(int(port == control)) for port in range(2)},
        "PCW_USE_FABRIC_INTERRUPT": "1",
        "PCW_IRQ_F2P_INTR": "1",
    }
    clocks, segments = [f"{board.control_port}_ACLK"], {}
    for port in ports:
        number = _number(board, port, r"S_AXI_HP([0-3])")
        config |= {f"PCW_USE_{port}": "1", f"PCW_{port}_DATA_WIDTH": str(port_bits)}
        clocks.append(f"{port}_ACLK")
        segments[port] = [f"{PROCESSING_SYSTEMS['zynq7'].instance}/{port}/HP{number}_DDR_LOWOCM"]
    automation = {"make_external": "FIXED_IO, DDR", "apply_board_preset": "1", "Master": "Disable", "Slave": "Disable"}
    return ProcessingSystemCell(
        automation=automation,
        config=config,
        reset_pin="FCLK_RESET0_N",
        clock_inputs=clocks,
        segments=segments,
        other_segments=dict.fromkeys(ports, ()),
    )


def _zynqmp(board: Board, ports: Sequence[str], port_bits: int) -> ProcessingSystemCell:
    control = _number(board, board.control_port, r"M_AXI_HPM([01])_FPD")
    config = {
        "PSU__FPGA_PL0_ENABLE": "1",
        "PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ": f"{board.clock_mhz:g}",
        **{f"PSU__USE__M_AXI_GP{port}": str(int(port == control)) for port in range(3)},
        f"PSU__MAXIGP{control}__DATA_WIDTH": "32",
        "PSU__USE__IRQ0": "1",
    }
    clocks, segments, others = [f"maxihpm{control}_fpd_aclk"], {}, {}
    for port in ports:
        number = _number(board, port, r"S_AXI_HP([0-3])_FPD")
        saxi = f"SAXIGP{number + 2}"  # GP0 and GP1 are the coherent ports HPC0 and HPC1
        config |= {f"PSU__USE__S_AXI_GP{number + 2}": "1", f"PSU__{saxi}__DATA_WIDTH": str(port_bits)}
        clocks.append(f"saxihp{number}_fpd_aclk")
        prefix = f"{PROCESSING_SYSTEMS['zynqmp'].instance}/{saxi}/HP{number}"
        segments[port] = [f"{prefix}_DDR_LOW", f"{prefix}_DDR_HIGH"]
        others[port] = [f"{prefix}_LPS_OCM", f"{prefix}_QSPI"]
    return ProcessingSystemCell(
        automation={"apply_board_preset": "1"},
        config=config,
        reset_pin="pl_resetn0",
        clock_inputs=clocks,
        segments=segments,
        other_segments=others,
    )


def _number(board: Board, port: str, pattern: str) -> int:
    """The number in a port's name."""
    match = re.fullmatch(pattern, port)
    if match is None:
        raise BoardError(f"board {board.name}: port of a {board.processor} must match {pattern}, got {port}")
    return int(match[1])
