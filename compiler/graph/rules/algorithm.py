# SPDX-License-Identifier: Apache-2.0
"""The attributes that say how a convolution or a matrix product is computed, and in which layout.

A node without them is computed in the way that is taken to be the fastest.
"""

from __future__ import annotations

ALGORITHM = "vdla.algorithm"
LAYOUT = "vdla.layout"
"""`plain` or `blocks`: the layout of image and result in the kernel, which repacks them where they
are in the other one."""
LANES = "vdla.lanes"
"""The output channels of a block of the packed weight, and of the sums."""

GIVEN, IN_PLAIN, IN_BLOCKS = "given", "plain", "blocks"
"""Layouts inside of a kernel; `given` is that of its image and result."""
