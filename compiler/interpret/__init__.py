"""The reference interpreter: the meaning of a function, computed with NumPy."""

from vdla.compiler.interpret.interpreter import interpret
from vdla.compiler.interpret.memory import InterpretError

__all__ = ["InterpretError", "interpret"]
