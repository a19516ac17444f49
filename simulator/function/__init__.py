# SPDX-License-Identifier: Apache-2.0
"""What the machine computes: instructions executed on buffers and a DRAM image."""

from vdla.simulator.function.buffers import Buffers
from vdla.simulator.function.execute import Engine, execute, token_order

__all__ = ["Buffers", "Engine", "execute", "token_order"]
