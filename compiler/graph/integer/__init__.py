# SPDX-License-Identifier: Apache-2.0
"""Patterns of quantised graphs: float operators as integer operators, such as "vdla.QConv".

`runtime/numpy_operators/integer.py` defines their arithmetic; the pass is `passes/fuse_qdq.py`.
"""
