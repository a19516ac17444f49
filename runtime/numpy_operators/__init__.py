# SPDX-License-Identifier: Apache-2.0
"""Operators of graphs as NumPy functions: `FUNCTIONS` has them by the operator's name.

A function takes the node's attributes and its inputs, None where one is absent, and returns the
tuple of its results. It returns new arrays or views of its inputs, and writes into none of them.
"""

from vdla.runtime.numpy_operators.control_flow import CONTROL_FLOW, Bodies, Body
from vdla.runtime.numpy_operators.function import Function, Value
from vdla.runtime.numpy_operators.table import FUNCTIONS

__all__ = ["CONTROL_FLOW", "FUNCTIONS", "Bodies", "Body", "Function", "Value"]
