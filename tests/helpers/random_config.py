# SPDX-License-Identifier: Apache-2.0
"""Random configurations, for tests: whatever validation accepts must work everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from vdla.hardware.config import MAX_PORT_BEATS, MIN_PORT_BITS, Config, ConfigError, Dram


def _power(rng: np.random.Generator, low: int, high: int) -> int:
    """A power of two from 2**low to 2**high."""
    return 1 << int(rng.integers(low, high + 1))


def _buffers(rng: np.random.Generator) -> dict[str, Any]:
    return {f"{name}_kib": _power(rng, 0, 8) for name in ("inp", "wgt", "scl", "uop", "acc", "out")}


def _draw(rng: np.random.Generator, largest_block: int) -> Config:
    block = largest_block.bit_length() - 1
    choices = int(rng.bit_generator.state["state"]["state"])  # without a draw
    config = Config(
        name="random",
        batch=_power(rng, 0, 3),
        block_in=_power(rng, 0, block),
        block_out=_power(rng, 0, block),
        inp_bits=_power(rng, 1, 3),
        wgt_bits=_power(rng, 1, 3),
        **_buffers(rng),
        command_depth=int(rng.integers(4, 20)),
        token_depth=int(rng.integers(8, 20)),
        axi_bits=_power(rng, 5, 8),
        burst_beats=int(rng.integers(1, 257)),
        dram=_draw_dram(rng),
        array_rate=1 + choices % 2,
    )
    return replace(config, axi_ports=_ports(config, choices // 2))


def _ports(config: Config, choice: int) -> int:
    """1, 2 or 4 ports, as many as the beats and bursts of a configuration allow."""
    most = min(config.axi_bits // MIN_PORT_BITS, MAX_PORT_BEATS // config.burst_beats)
    return min(1 << choice % 3, 1 << most.bit_length() - 1)


def _draw_dram(rng: np.random.Generator) -> Dram:
    return Dram(
        read_latency=int(rng.integers(1, 200)),
        write_latency=int(rng.integers(1, 100)),
        outstanding_reads=int(rng.integers(1, 17)),
        outstanding_writes=int(rng.integers(1, 17)),
        beat_cycles=int(rng.integers(1, 4)),
        burst_gap=int(rng.integers(0, 4)),
    )


def random_config(rng: np.random.Generator, largest_block: int = 64) -> Config:
    """A valid configuration with blocks up to a power of two."""
    while True:
        try:
            return _draw(rng, largest_block)
        except ConfigError:
            continue  # most draws break a rule; about one in five is valid
