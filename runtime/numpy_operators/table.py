"""All functions by the name of their operator."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.runtime.numpy_operators.function import Function
from vdla.runtime.numpy_operators.sequences import SEQUENCES

FUNCTIONS: Mapping[str, Function] = {**SEQUENCES}
