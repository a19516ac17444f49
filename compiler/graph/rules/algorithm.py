# SPDX-License-Identifier: Apache-2.0
"""The attributes that say how a convolution or a matrix product is computed, and in which layout.

Nodes without them get the presumably fastest algorithm.
"""

from __future__ import annotations

ALGORITHM = "vdla.algorithm"
LAYOUT = "vdla.layout"
"""`plain` or `blocks`: the layout inside the kernel, which repacks image and result if theirs
differs.
"""
LANES = "vdla.lanes"
"""The output channels of a block of the packed weight, and of the sums."""

GIVEN, IN_PLAIN, IN_BLOCKS = "given", "plain", "blocks"
"""Layouts inside of a kernel; `given` is that of its image and result."""
