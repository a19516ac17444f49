# SPDX-License-Identifier: Apache-2.0
"""What the machine computes: instructions executed on buffers and a DRAM image."""

from vdla.simulator.function.buffers import Buffers
from vdla.simulator.function.execute import Engine, execute, token_order
from vdla.simulator.function.overwritten import overwritten

__all__ = ["Buffers", "Engine", "execute", "overwritten", "token_order"]
