"""The attribute that names how a convolution or a matrix product is computed.

A node without it is computed in the way that is taken to be the fastest.
"""

from __future__ import annotations

ALGORITHM = "vdla.algorithm"
