"""Passes from a scheduled loop nest to plain loops: each a function from Function to Function."""

from vdla.compiler.passes.check import Level, check
from vdla.compiler.passes.errors import PassError
from vdla.compiler.passes.pipeline import PIPELINE, lower

__all__ = ["PIPELINE", "Level", "PassError", "check", "lower"]
