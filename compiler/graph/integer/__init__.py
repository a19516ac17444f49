"""Integer operators of quantised networks: the pass that makes them, from QDQ graphs.

The operators are "vdla.QConv" and the like; `runtime/numpy_operators/integer.py` defines their
arithmetic.
"""

from vdla.compiler.graph.integer.affine import NotIntegerError, quantise_bias
from vdla.compiler.graph.integer.fuse_qdq import FusedGraph, explain_fusion, fuse_qdq
from vdla.compiler.graph.integer.movements import is_movement
from vdla.compiler.graph.integer.pools import is_spatial_mean
from vdla.compiler.graph.integer.products import is_bias
from vdla.compiler.graph.integer.tables import ELEMENTWISE

__all__ = [
    "ELEMENTWISE",
    "FusedGraph",
    "NotIntegerError",
    "explain_fusion",
    "fuse_qdq",
    "is_bias",
    "is_movement",
    "is_spatial_mean",
    "quantise_bias",
]
