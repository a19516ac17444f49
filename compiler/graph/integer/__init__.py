"""Integer operators of quantised networks: the pass that makes them, from QDQ graphs.

The operators are "vdla.QConv" and the like; `runtime/numpy_operators/integer.py` defines their
arithmetic.
"""

from vdla.compiler.graph.integer.affine import NotIntegerError
from vdla.compiler.graph.integer.fuse_qdq import FusedGraph, explain_fusion, fuse_qdq

__all__ = ["FusedGraph", "NotIntegerError", "explain_fusion", "fuse_qdq"]
