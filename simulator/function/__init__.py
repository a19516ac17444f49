"""What the machine computes: instructions executed on buffers and a DRAM image."""

from vdla.simulator.function.execute import Engine, execute, token_order

__all__ = ["Engine", "execute", "token_order"]
