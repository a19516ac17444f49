# SPDX-License-Identifier: Apache-2.0
"""Proofs that programs compute their expressions, by evaluation over a field.

certificate = certify(vdla.map_expression(result, "pynq_z1"))
"""
