# SPDX-License-Identifier: Apache-2.0
"""Events: what parts of a machine do in a cycle, each with the width that its energy depends on.

`lane_events` says once, for simulator and RTL, which operations a step of the pipeline is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from vdla.hardware.config import Config

ACC_BITS = 32
SCALE_BITS = 24
"""Bits of the multiplier of a requantisation parameter."""


class Action(Enum):
    """What is done, by the names of Accelergy where it has one."""

    MULTIPLY = "multiply"
    ADD = "add"
    READ = "read"
    WRITE = "write"
    BURST = "burst"  # a request of DRAM, read or write
    STEP = "step"  # of the datapath of an extension
    LOGIC = "logic"  # bit by bit, a selection, a count of bits
    SHIFT = "shift"  # by an amount that is not constant
    DIVIDE = "divide"
    FUNCTION = "function"  # any other


@dataclass(frozen=True, slots=True, order=True)
class MachineEvent:
    """An action of a part of the machine.

    `part` is a buffer, "dram", "array", "accumulator", "requantiser" or an extension; of a burst,
    "reads" or "writes". `bits` is the width of a word or an operand, `other_bits` that of the
    narrower factor; 0 where there is none.
    """

    part: str
    action: Action
    bits: int = 0
    other_bits: int = 0

    def __str__(self) -> str:
        widths = " x ".join(str(bits) for bits in (self.bits, self.other_bits) if bits)
        return f"{self.part} {self.action.value}{f' {widths} bits' if widths else ''}"


EventCounts = dict[MachineEvent, int]
"""How often each event happens; those that do not are left out."""


class LaneStep(Enum):
    """What passes the compute pipeline; each is some operations of all lanes."""

    GEMM = "gemm"  # a matrix product
    PASS = "pass"  # an accumulator entry gets a new value
    PRODUCT = "product"  # a MUL or MAC multiplies
    REQUANTISE = "requantise"  # sums become results


def lane_events(config: Config, step: LaneStep) -> Iterator[tuple[MachineEvent, int]]:
    """The operations of a step, and how many of each."""
    lanes = config.batch * config.block_out
    match step:
        case LaneStep.GEMM:
            widths = sorted((config.inp_bits, config.wgt_bits), reverse=True)
            yield MachineEvent("array", Action.MULTIPLY, *widths), config.macs_per_cycle
            if config.block_in > 1:
                yield MachineEvent("array", Action.ADD, _tree_bits(config)), lanes * (config.block_in - 1)
        case LaneStep.PASS:
            yield MachineEvent("accumulator", Action.ADD, ACC_BITS), lanes
        case LaneStep.PRODUCT:
            yield MachineEvent("accumulator", Action.MULTIPLY, ACC_BITS, ACC_BITS), lanes
        case LaneStep.REQUANTISE:
            yield MachineEvent("requantiser", Action.MULTIPLY, ACC_BITS, SCALE_BITS), lanes
            yield MachineEvent("requantiser", Action.ADD, ACC_BITS), lanes


def _tree_bits(config: Config) -> int:
    """The width of a sum of block_in products."""
    return config.inp_bits + config.wgt_bits + (config.block_in - 1).bit_length()
