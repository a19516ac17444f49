# SPDX-License-Identifier: Apache-2.0
"""The reference interpreter: the meaning of a function, computed with NumPy."""

from vdla.compiler.interpret.interpreter import interpret
from vdla.compiler.interpret.memory import InterpretError
from vdla.compiler.interpret.threads import interpret_kernels

__all__ = ["InterpretError", "interpret", "interpret_kernels"]
